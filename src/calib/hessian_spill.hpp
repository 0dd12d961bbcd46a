// hessian_spill.hpp: Hessians that do not fit in memory, in a file without a name: upper triangles
// by rows, f64, one place for each. What is read back has the bits of what was written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "cortiq/calib/hessian.hpp"

namespace cortiq::calib {

class HessianSpill {
 public:
  /// Reserves room for Hessians of these widths. Throws Error{kRefused} where the folder has not as
  /// much, Error{kIo} where it cannot be written.
  HessianSpill(const std::filesystem::path& folder, const std::vector<std::int64_t>& widths);
  ~HessianSpill();
  HessianSpill(const HessianSpill&) = delete;
  HessianSpill& operator=(const HessianSpill&) = delete;

  void write(std::size_t index, const Hessian& hessian);
  /// The matrix; count and sums of squares are the caller's. Safe from several threads.
  [[nodiscard]] std::unique_ptr<Hessian> read(std::size_t index) const;

 private:
  std::filesystem::path folder_;
  std::vector<std::int64_t> widths_;
  std::vector<std::uint64_t> offsets_;
  int descriptor_ = -1;
};

}  // namespace cortiq::calib

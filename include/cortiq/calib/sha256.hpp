// sha256.hpp: SHA-256 of bytes that arrive in pieces, and of whole files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "cortiq/support/bytes.hpp"

namespace cortiq::calib {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(ByteSpan bytes);
  /// Of what came so far; updates may go on.
  [[nodiscard]] std::string peek() const;
  /// 64 lower-case hexadecimal digits. Call once; no update afterwards.
  [[nodiscard]] std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::string sha256_hex(std::string_view bytes);
/// Streams the file in pieces of 1 MiB; about 0.5 to 2 GB/s. Throws Error{kIo}.
[[nodiscard]] std::string sha256_file(const std::filesystem::path& path);

}  // namespace cortiq::calib

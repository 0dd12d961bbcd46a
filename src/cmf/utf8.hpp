// utf8.hpp: is a byte string well-formed UTF-8 (Unicode 15, table 3-7)?
#pragma once

#include <string_view>

namespace cortiq::cmf {

[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

}  // namespace cortiq::cmf

#include "cortiq/support/error.hpp"

#include <cstdio>
#include <cstdlib>

namespace cortiq::detail {

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "cortiq-quant: internal error: %s:%d: assertion failed: %s\n", file, line,
               expression);
  std::abort();
}

}  // namespace cortiq::detail

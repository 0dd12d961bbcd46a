# Language level, warnings, floating-point rules and sanitizers, shared by every target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

add_library(cortiq_compile INTERFACE)
target_compile_options(cortiq_compile INTERFACE
  -ffp-contract=off          # bytes are specified without fused multiply-add; kernels call fma by name
  -fno-math-errno
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports a change of vector ABI for helpers that are always inlined.
  target_compile_options(cortiq_compile INTERFACE -Wno-psabi)
endif()
if(CORTIQ_WERROR)
  target_compile_options(cortiq_compile INTERFACE -Werror)
endif()
target_include_directories(cortiq_compile INTERFACE "${CMAKE_SOURCE_DIR}/include")
target_compile_definitions(cortiq_compile INTERFACE CORTIQ_VERSION="${PROJECT_VERSION}")

if(CORTIQ_SANITIZE)
  target_compile_options(cortiq_compile INTERFACE -fsanitize=${CORTIQ_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(cortiq_compile INTERFACE -fsanitize=${CORTIQ_SANITIZE})
  if(CORTIQ_SANITIZE MATCHES "undefined")
    target_compile_options(cortiq_compile INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
if(CORTIQ_FUZZ)
  # Coverage counters in every object: without them libFuzzer mutates blindly.
  target_compile_options(cortiq_compile INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(cortiq_compile INTERFACE -fsanitize=fuzzer-no-link)
endif()

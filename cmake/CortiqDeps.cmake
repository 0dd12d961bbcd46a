# Third-party packages, in one place. All of them come from the system (tools/setup.sh installs them).
# Each module links only what its declaration names.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(TBB 2021 REQUIRED CONFIG)
find_package(spdlog 1.9 REQUIRED CONFIG)
find_package(fmt REQUIRED CONFIG)
find_package(nlohmann_json 3.10 REQUIRED CONFIG)
find_package(CLI11 2.1 REQUIRED CONFIG)
find_package(Eigen3 3.4 REQUIRED CONFIG NO_MODULE)
find_package(OpenSSL 1.1.1 REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
if(CORTIQ_VULKAN)
  find_package(Vulkan REQUIRED)  # the headers; the loader is opened at run time
endif()
if(CORTIQ_TESTS)
  find_package(GTest REQUIRED)
endif()
if(CORTIQ_BENCH)
  find_package(benchmark REQUIRED CONFIG)
endif()

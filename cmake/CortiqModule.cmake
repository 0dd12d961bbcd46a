# cortiq_module(NAME [EXCLUDE regex] [DEPENDS module…] [LIBS third-party target…])
#
# Declares one layer of the program as the static library cortiq_NAME, made of every .cpp below src/NAME.
# Public headers are include/cortiq/NAME/*.hpp; a header below src/NAME is private to it.
# tools/check_layers.py reads these declarations and fails on an #include that they do not allow.
#
# EXCLUDE leaves out sources whose path matches: a module with a twin (device/none) builds one of the two.
#
# A source named *.simd.cpp holds a hot kernel. It is compiled once per instruction set, each time with
# CORTIQ_SIMD set to the target's name (portable, avx2, avx512), and must put all it defines into
# namespace cortiq::NAME::CORTIQ_SIMD. It may include only <cstdint>, <cstddef>, <cmath>, <immintrin.h> and
# headers made of plain structs: an inline library function compiled for a newer instruction set could
# otherwise be chosen by the linker for the whole program.

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(CORTIQ_SIMD_TARGETS portable avx2 avx512)
else()
  set(CORTIQ_SIMD_TARGETS portable)
endif()
set(CORTIQ_SIMD_FLAGS_portable "")
set(CORTIQ_SIMD_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(CORTIQ_SIMD_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
    -mprefer-vector-width=512)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12's own AVX-512 intrinsics pass an undefined vector on purpose and warn about it.
  list(APPEND CORTIQ_SIMD_FLAGS_avx512 -Wno-maybe-uninitialized)
endif()

function(cortiq_module NAME)
  cmake_parse_arguments(M "" "EXCLUDE" "DEPENDS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  if(M_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${M_EXCLUDE}")
  endif()
  set(simd ${sources})
  list(FILTER simd INCLUDE REGEX "\\.simd\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "\\.simd\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(NOT sources)
    add_library(cortiq_${NAME} INTERFACE)
    target_link_libraries(cortiq_${NAME} INTERFACE cortiq_compile ${M_LIBS})
    foreach(dep IN LISTS M_DEPENDS)
      target_link_libraries(cortiq_${NAME} INTERFACE cortiq_${dep})
    endforeach()
    return()
  endif()
  add_library(cortiq_${NAME} STATIC ${sources})
  target_include_directories(cortiq_${NAME} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(cortiq_${NAME} PUBLIC cortiq_compile ${M_LIBS})
  foreach(dep IN LISTS M_DEPENDS)
    target_link_libraries(cortiq_${NAME} PUBLIC cortiq_${dep})
  endforeach()
  foreach(source IN LISTS simd)
    get_filename_component(stem "${source}" NAME)
    string(REPLACE ".simd.cpp" "" stem "${stem}")
    foreach(target IN LISTS CORTIQ_SIMD_TARGETS)
      set(object cortiq_${NAME}_${stem}_${target})
      add_library(${object} OBJECT "${source}")
      target_link_libraries(${object} PRIVATE cortiq_compile)
      target_include_directories(${object} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
      target_compile_definitions(${object} PRIVATE CORTIQ_SIMD=${target} CORTIQ_SIMD_IS_${target}=1)
      target_compile_options(${object} PRIVATE ${CORTIQ_SIMD_FLAGS_${target}})
      target_sources(cortiq_${NAME} PRIVATE $<TARGET_OBJECTS:${object}>)
    endforeach()
  endforeach()
endfunction()

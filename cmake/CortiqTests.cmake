# Tests live in tests/LABEL/MODULE/*_test.cpp. Each such folder becomes one GoogleTest program named
# LABEL_MODULE that links the module, and each of its tests becomes one ctest entry with the label.

include(GoogleTest)
add_library(cortiq_test_support STATIC
  "${CMAKE_SOURCE_DIR}/tests/support/data_dirs.cpp" "${CMAKE_SOURCE_DIR}/tests/support/run_program.cpp")
target_include_directories(cortiq_test_support PUBLIC "${CMAKE_SOURCE_DIR}/tests/support")
target_compile_definitions(cortiq_test_support PRIVATE
  CORTIQ_SOURCE_DIR="${CMAKE_SOURCE_DIR}" CORTIQ_BINARY="${CMAKE_BINARY_DIR}/cortiq-quant")
target_link_libraries(cortiq_test_support PUBLIC cortiq_support nlohmann_json::nlohmann_json GTest::gtest)

function(cortiq_test_folder LABEL MODULE)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${LABEL}/${MODULE}/*.cpp")
  if(NOT sources OR (MODULE STREQUAL "device" AND NOT CORTIQ_VULKAN))  # the twin: tests/e2e/app/device_test.cpp
    return()
  endif()
  set(name ${LABEL}_${MODULE})
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE cortiq_${MODULE} cortiq_test_support GTest::gtest GTest::gtest_main)
  if(MODULE STREQUAL "device")  # kernels and schedules are tested one by one, below the public interface
    target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}/src/device" "${CMAKE_SOURCE_DIR}/tests/unit/device")
  endif()
  if(name MATCHES "^golden_(model|calib)$")  # read the models of the zoo, which are Hugging Face folders
    target_link_libraries(${name} PRIVATE cortiq_hf)
  endif()
  if(name STREQUAL "property_linalg")  # an independent reference
    target_link_libraries(${name} PRIVATE Eigen3::Eigen)
  endif()
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${name} PRIVATE -O1)  # test code: compile time matters more than its speed
  endif()
  set(timeout 120)
  if(LABEL STREQUAL "e2e")
    set(timeout 900)
  endif()
  if(MODULE STREQUAL "app")
    add_dependencies(${name} cortiq-quant)
  endif()
  if(CORTIQ_SANITIZE)
    target_compile_definitions(${name} PRIVATE CORTIQ_SANITIZED)
    math(EXPR timeout "${timeout} * 5")
  endif()
  gtest_discover_tests(${name} TEST_PREFIX "${LABEL}/${MODULE}/" DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${LABEL} TIMEOUT ${timeout})
endfunction()

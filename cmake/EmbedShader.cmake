# Writes the words of a SPIR-V file as a C++ array. cmake -DNAME=… -DSPIRV=… -DOUTPUT=… -P EmbedShader.cmake
file(READ "${SPIRV}" bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR words "${digits} / 8")
string(REGEX REPLACE "(..)(..)(..)(..)" "0x\\4\\3\\2\\1," body "${bytes}")
if(words EQUAL 0)
  set(body "0")
endif()
file(WRITE "${OUTPUT}" "// Generated from ${NAME}.comp.
#include <cstddef>
#include <cstdint>
namespace cortiq::vulkan::spirv {
extern const std::uint32_t ${NAME}[];
extern const std::size_t ${NAME}_words;
const std::uint32_t ${NAME}[] = {${body}};
const std::size_t ${NAME}_words = ${words};
}  // namespace cortiq::vulkan::spirv
")

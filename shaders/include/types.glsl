// types.glsl: pointers to device memory and the numbering of workgroups.
#ifndef CORTIQ_TYPES_GLSL
#define CORTIQ_TYPES_GLSL
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Uints { uint at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec4s { vec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Uvec4s { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Uvec2s { uvec2 at[]; };

Floats advance(Floats p, uint64_t elements) { return Floats(uint64_t(p) + 4ul * elements); }
Uints advance_words(Uints p, uint64_t elements) { return Uints(uint64_t(p) + 4ul * elements); }
Vec4s offset_floats(Vec4s p, uint64_t elements) { return Vec4s(uint64_t(p) + 4ul * elements); }
Uvec4s offset_lines(Uvec4s p, uint64_t lines) { return Uvec4s(uint64_t(p) + 128ul * lines); }

// Workgroups are laid out in lines when there are many (vulkan/stream.hpp).
uint workgroup_number() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

bool is_finite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }
#endif

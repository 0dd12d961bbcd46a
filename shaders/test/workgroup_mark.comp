#version 450
// workgroup_mark: for tests of the Vulkan wrapper. Workgroup g < count adds 1 to marks[g] and writes the constant and the
// number of its threads behind the marks. Constants: 0 = threads, 1 = a value. Any count; workgroups beyond it do nothing.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kValue = 0u;
layout(push_constant, scalar) uniform Push {
  Uints marks;  // [count + 2]
  uint count;
} push;

void main() {
  const uint group = workgroup_number();
  if (group >= push.count || gl_LocalInvocationID.x != 0u) return;
  push.marks.at[group] += 1u;
  if (group != 0u) return;
  push.marks.at[push.count] = kValue;
  push.marks.at[push.count + 1u] = gl_WorkGroupSize.x;
}

#version 450
// Can the compiler translate KHR cooperative matrices?
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x = 32) in;
layout(set = 0, binding = 0) buffer Words { float at[]; } words;
shared uvec4 tile[64];
void main() {
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
  coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> c =
      coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  coopMatLoad(a, tile, 0, 2, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(b, tile, 32, 2, gl_CooperativeMatrixLayoutColumnMajor);
  coopMatStore(coopMatMulAdd(a, b, c), words.at, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
}

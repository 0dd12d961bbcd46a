#include "cortiq/model/head.hpp"

#include <algorithm>
#include <vector>

#include "cortiq/codec/decode.hpp"
#include "cortiq/linalg/gemm.hpp"
#include "cortiq/model/layer_weights.hpp"
#include "row_ops.hpp"

namespace cortiq::model {
namespace {

/// f32 bytes of one decoded block of the head.
constexpr std::int64_t kBlockBytes = std::int64_t{16} << 20;

std::size_t head_index(const cmf::Source& source) {
  const auto index = source.find("lm_head.weight");
  return index ? *index : source.find("model.embed_tokens.weight").value();
}

}  // namespace

struct Head::State {
  const Arch& arch;
  const cmf::Source& source;
  Pool& pool;
  std::size_t index;
  std::vector<float> norm;
};

Head::Head(const Arch& arch, const cmf::Source& source, Pool& pool)
    : state_(new State{arch, source, pool, head_index(source),
                       load_norm(arch, source, "model.norm.weight")}) {}
Head::~Head() = default;

std::int64_t Head::block_rows() const {
  const std::int64_t rows =
      kBlockBytes / static_cast<std::int64_t>(sizeof(float)) / state_->arch.hidden;
  return std::clamp<std::int64_t>(rows, 1, state_->arch.vocab);
}

void Head::norm(ConstMatrixView<float> states, MatrixView<float> out) const {
  norm_rows(states, state_->norm, state_->arch.norm_eps, out, state_->pool);
}

void Head::decode(std::int64_t first, MatrixView<float> out) const {
  const State& s = *state_;
  const cmf::TensorInfo& info = s.source.tensors()[s.index];
  const cmf::Payload payload = s.source.payload(s.index);  // its errors name file and tensor
  with_context(fmt::format("{}: tensor {}", s.source.path().string(), info.name), [&] {
    const codec::RowDecoder decoder(info.dtype, info.shape, payload.bytes());
    constexpr std::int64_t kGrainRows = 64;
    s.pool.for_ranges(out.rows(), kGrainRows, [&](std::int64_t begin, std::int64_t end) {
      decoder.decode(first + begin, out.block(begin, 0, end - begin, out.cols()));
    });
  });
}

void Head::logits(ConstMatrixView<float> normed, ConstMatrixView<float> block,
                  MatrixView<float> out) const {
  const State& s = *state_;
  linalg::gemm_f32(linalg::Trans::kNo, linalg::Trans::kYes, 1.0F, normed, block, 0.0F, out, s.pool);
  if (s.arch.logit_multiplier) scale_matrix(out, *s.arch.logit_multiplier, s.pool);
  if (s.arch.final_softcap) soft_cap_rows(out, *s.arch.final_softcap, s.pool);
}

}  // namespace cortiq::model

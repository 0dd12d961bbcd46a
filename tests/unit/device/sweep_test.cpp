#include <gtest/gtest.h>

#include "cortiq/codec/decode.hpp"
#include "cortiq/gptq/fold.hpp"
#include "cortiq/gptq/sweep.hpp"
#include "device_fixture.hpp"
#include "random_problem.hpp"
#include "stack.hpp"

namespace cortiq::device {
namespace {

using gptq::SweepOptions;
using test::DeviceTest;

constexpr double kErrorRatio = 1.02;  // small problems: single rung flips weigh more than 0.1 %

cmf::DType dtype_of(const SweepOptions& options) {
  return options.target == gptq::Target::kQ4tp ? cmf::DType::kQ4tp : cmf::DType::kQ2tp;
}

std::vector<float> decode(const SweepOptions& options, ConstMatrixView<float> w, const std::vector<std::byte>& payload,
                          Pool& pool) {
  std::vector<float> values(static_cast<std::size_t>(w.rows() * w.cols()));
  const std::int64_t shape[2] = {w.rows(), w.cols()};
  const codec::RowDecoder decoder(dtype_of(options), shape, payload);
  decoder.decode_all({values.data(), w.rows(), w.cols()}, pool);
  return values;
}

std::vector<SweepOptions> all_options() {
  using namespace gptq;
  std::vector<SweepOptions> list;
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    for (const Order order : {Order::kNatural, Order::kGroup}) {
      for (const Rung rung : {Rung::kDiag, Rung::kSim}) {
        for (const LadderFit ladder : {LadderFit::kConverter, LadderFit::kFit}) {
          SweepOptions o;
          o.target = target;
          o.order = order;
          o.rung = rung;
          o.ladder = ladder;
          list.push_back(o);
        }
      }
    }
    SweepOptions act;
    act.target = target;
    act.order = Order::kAct;
    act.rung = Rung::kDiag;
    act.ladder = LadderFit::kConverter;
    list.push_back(act);
    SweepOptions polished;
    polished.target = target;
    polished.polish = 2;
    polished.debias = true;
    list.push_back(polished);
    polished.debias = false;
    polished.group_moves = true;
    list.push_back(polished);
  }
  SweepOptions cortiq;
  cortiq.target = Target::kQ2tp;
  cortiq.rule = Q2tpRule::kCortiq;
  cortiq.rung = Rung::kDiag;
  cortiq.ladder = LadderFit::kConverter;
  list.push_back(cortiq);
  return list;
}

std::string name_of(const SweepOptions& o) {
  return fmt::format("target {} order {} rung {} ladder {} rule {} polish {} moves {} debias {}", static_cast<int>(o.target),
                     static_cast<int>(o.order), static_cast<int>(o.rung), static_cast<int>(o.ladder),
                     static_cast<int>(o.rule), o.polish, o.group_moves, o.debias);
}

TEST_F(DeviceTest, sweep_is_as_good_as_the_host_with_every_option) {
  Pool pool(2);
  const std::int64_t n = 352, rows = 45;
  auto h = test::random_hessian(n, 3 * n, 8.0, 11);
  for (std::int64_t i = 0; i < n; ++i) h.at(i, 70) = h.at(70, i) = 0;  // a dead channel
  const std::vector<float> values = test::random_weights(rows, n, 5);
  const ConstMatrixView<float> w(values.data(), rows, n);
  for (const Path path : paths()) {
    const Engine engine(context_, path);
    vulkan::Stream stream(context_);
    for (const SweepOptions& options : all_options()) {
      SCOPED_TRACE(name_of(options));
      const gptq::FoldOptions fold{.lambda = 0.01, .order = options.order, .keep_damped = options.polish > 0};
      const auto host_factor = gptq::fold_host(h.view(), fold, pool);
      const auto host = gptq::sweep_host(w, h.view(), *host_factor, options, pool);
      const FoldOutcome outcome = fold_on_device(engine, stream, pool, h.view(), fold);
      ASSERT_TRUE(outcome.factor) << outcome.reason;
      const ConstMatrixView<float> one[1] = {w};
      const auto device = sweep_on_device(engine, stream, pool, *outcome.factor, one, options).front();
      const auto decoded = decode(options, w, device.payload, pool);
      const auto truth = gptq::output_error(w, {decoded.data(), rows, n}, h.view(), pool);
      EXPECT_LT(truth.error, kErrorRatio * host.output_error);
      EXPECT_NEAR(device.output_error / truth.error, 1.0, 2e-3);
      EXPECT_NEAR(device.output_energy / truth.energy, 1.0, 2e-3);
      EXPECT_EQ(device.dead_groups, host.dead_groups);
      if (options.rung == gptq::Rung::kSim) continue;  // the device tries all rungs, the host coarse to fine
      std::size_t equal = 0;
      for (std::size_t i = 0; i < host.payload.size(); ++i) equal += host.payload[i] == device.payload[i] ? 1 : 0;
      EXPECT_GT(static_cast<double>(equal), 0.8 * static_cast<double>(host.payload.size()));
    }
  }
}

TEST_F(DeviceTest, sweep_of_chunks_and_stacks_gives_the_same_bytes) {
  Pool pool(2);
  const std::int64_t n = 288;
  const auto h = test::random_hessian(n, 2 * n, 8.0, 3);
  const std::vector<float> a = test::random_weights(150, n, 1), b = test::random_weights(37, n, 2);
  const ConstMatrixView<float> both[2] = {{a.data(), 150, n}, {b.data(), 37, n}};
  for (const Path path : paths()) {
    const Engine engine(context_, path);
    vulkan::Stream stream(context_);
    for (const gptq::Target target : {gptq::Target::kQ4tp, gptq::Target::kQ2tp}) {
      SweepOptions options;
      options.target = target;
      options.polish = 1;
      options.group_moves = target == gptq::Target::kQ4tp;
      options.debias = target == gptq::Target::kQ2tp;
      const FoldOutcome outcome = fold_on_device(engine, stream, pool, h.view(), {.lambda = 0.01});
      ASSERT_TRUE(outcome.factor);
      const auto whole = sweep_on_device(engine, stream, pool, *outcome.factor, both, options);
      const auto again = sweep_on_device(engine, stream, pool, *outcome.factor, both, options);
      const auto cut = sweep_on_device(engine, stream, pool, *outcome.factor, both, options, 128);
      for (std::size_t t = 0; t < 2; ++t) {
        EXPECT_EQ(whole[t].payload, again[t].payload);
        EXPECT_EQ(whole[t].payload, cut[t].payload);
      }
    }
  }
}

TEST_F(DeviceTest, products_of_small_and_large_tiles_give_the_same_bytes) {
  if (context_->adapter().type == vulkan::AdapterType::kCpu)
    GTEST_SKIP() << "too slow on a software device; the size is what makes the products choose other tiles";
  Pool pool(0);
  const std::int64_t n = 1024, rows = 4096;
  const auto h = test::random_hessian(n, 256, 8.0, 3);
  const std::vector<float> values = test::random_weights(rows, n, 1);
  const ConstMatrixView<float> w[1] = {{values.data(), rows, n}};
  for (const Path path : paths()) {
    const Engine engine(context_, path);
    vulkan::Stream stream(context_);
    SweepOptions options;
    options.polish = 1;
    const FoldOutcome outcome = fold_on_device(engine, stream, pool, h.view(), {.lambda = 0.01});
    ASSERT_TRUE(outcome.factor);
    const auto whole = sweep_on_device(engine, stream, pool, *outcome.factor, w, options);
    const auto cut = sweep_on_device(engine, stream, pool, *outcome.factor, w, options, 128);
    EXPECT_TRUE(whole[0].payload == cut[0].payload) << "split " << engine.split();
  }
}

}  // namespace
}  // namespace cortiq::device

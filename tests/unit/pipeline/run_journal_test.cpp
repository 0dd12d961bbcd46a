// The journal of a run: what a reader finds after a kill at any byte, and that reports survive.
#include "../../../src/pipeline/run_journal.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "data_dirs.hpp"

namespace cortiq::pipeline {
namespace {

namespace fs = std::filesystem;

cmf::Json header() {
  return cmf::Json::parse(R"({"format":"cmf","version":2,"arch":{
      "arch_name":"llama","hidden_size":32,"intermediate_size":64,"num_layers":0,
      "num_attention_heads":2,"num_kv_heads":1,"head_dim":16,"vocab_size":100,"layer_types":[],
      "rms_norm_eps":1e-06,"max_position_embeddings":64},"quant_type":"F32"})");
}

class RunJournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    output_ = test::scratch_dir("run-journal") / "o.cmf";
    const std::vector<cmf::PlannedTensor> planned{{"a", cmf::DType::kU8, {3}, 3},
                                                  {"b", cmf::DType::kU8, {2}, 2}};
    writer_ = std::make_unique<cmf::Writer>(output_, cmf::Header(header()), planned,
                                            cmf::WriterSections{});
  }
  static ByteSpan bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

  fs::path output_;
  std::unique_ptr<cmf::Writer> writer_;
};

TensorReport full_report() {
  TensorReport report;
  report.action = Action::kGptq;
  report.codec = "q4tp";
  report.note = "a \"note\"";
  report.missed = true;
  report.sanitized = 3;
  report.hessian_rows = 4;
  report.prior_rows = 5;
  report.lambda = 0.1;
  report.retries = 1;
  report.identity = true;
  report.dead_channels = 7;
  report.error = 1.0 / 3.0;
  report.rtn_error = 2e-300;
  report.seconds = 0.125;
  report.codes = {1, 2, 3};
  return report;
}

TEST_F(RunJournalTest, reports_survive_bit_for_bit) {
  const TensorReport report = full_report();
  TensorReport back;
  restore_tensor_report(cmf::Json::parse(tensor_report_json(report).dump()), back);
  EXPECT_EQ(tensor_report_json(back), tensor_report_json(report));
  EXPECT_EQ(*back.error, 1.0 / 3.0);
  EXPECT_EQ(*back.rtn_error, 2e-300);
  EXPECT_EQ(back.note, report.note);
}

TEST_F(RunJournalTest, a_journal_cut_at_any_byte_gives_the_events_before_the_cut) {
  writer_->write_tensor(0, bytes("abc"));
  writer_->write_tensor(1, bytes("de"));
  {
    RunJournal journal(output_, cmf::Json{{"lambda", 0.5}}, *writer_);
    journal.finished(0, full_report());
    journal.warning("careful");
    journal.cache("some.hess", {2, 77, "ab"});
    journal.finished(1, full_report());
  }
  const fs::path path = journal_path(output_);
  const auto whole = read_leftover(output_);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->bytes, fs::file_size(path));
  EXPECT_EQ(whole->fingerprint["lambda"], 0.5);
  EXPECT_EQ(whole->tensors.size(), 2U);
  EXPECT_EQ(whole->tensors.at(1).hash, writer_->payload_hash(1));
  EXPECT_EQ(whole->warnings, std::vector<std::string>{"careful"});
  EXPECT_EQ(whole->cache->bytes, 77U);
  EXPECT_EQ(whole->cache_file, "some.hess");
  std::size_t tensors = 2;
  for (auto size = fs::file_size(path); size > 0; --size) {
    fs::resize_file(path, size - 1);
    const auto left = read_leftover(output_);
    const std::size_t now = left ? left->tensors.size() : 0;
    EXPECT_LE(now, tensors);
    EXPECT_LE(left ? left->bytes : 0, size - 1);
    tensors = now;
  }
  EXPECT_FALSE(read_leftover(output_));
}

TEST_F(RunJournalTest, a_flipped_bit_ends_the_journal_there) {
  writer_->write_tensor(0, bytes("abc"));
  writer_->write_tensor(1, bytes("de"));
  {
    RunJournal journal(output_, cmf::Json{{"lambda", 0.5}}, *writer_);
    journal.finished(0, full_report());
    journal.finished(1, full_report());
  }
  const auto size = static_cast<std::streamoff>(fs::file_size(journal_path(output_)));
  for (std::streamoff at = 0; at < size; at += 13) {
    std::fstream file(journal_path(output_), std::ios::in | std::ios::out | std::ios::binary);
    const char old = static_cast<char>(file.seekg(at).peek());
    file.seekp(at).put(static_cast<char>(old ^ 4));
    file.flush();
    const auto left = read_leftover(output_);
    EXPECT_LT(left ? left->tensors.size() : 0, 2U) << at;
    file.seekp(at).put(old);
  }
  EXPECT_EQ(read_leftover(output_)->tensors.size(), 2U);
}

TEST_F(RunJournalTest, a_continued_journal_goes_on_behind_the_last_whole_line) {
  writer_->write_tensor(0, bytes("abc"));
  {
    RunJournal journal(output_, cmf::Json{{"x", 1}}, *writer_);
    journal.finished(0, full_report());
  }
  std::ofstream(journal_path(output_), std::ios::app) << "0123 torn";
  {
    const auto left = read_leftover(output_);
    RunJournal journal(output_, *left, *writer_);
    EXPECT_EQ(journal.count(), 1U);
    writer_->write_tensor(1, bytes("de"));
    journal.finished(1, full_report());
    EXPECT_EQ(journal.count(), 2U);
  }
  EXPECT_EQ(read_leftover(output_)->tensors.size(), 2U);
}

TEST_F(RunJournalTest, differences_are_named_in_both_directions) {
  const cmf::Json here{{"a", 1}, {"b", "x"}, {"c", {1, 2}}};
  const cmf::Json there{{"a", 1}, {"b", "y"}, {"d", 3}};
  EXPECT_EQ(fingerprint_differences(here, there),
            (std::vector<std::string>{"b: x here, y in the interrupted run",
                                      "c: [1,2] here, not set in the interrupted run",
                                      "d: not set here, 3 in the interrupted run"}));
  EXPECT_TRUE(fingerprint_differences(here, here).empty());
}

}  // namespace
}  // namespace cortiq::pipeline

// Continuing an interrupted run (docs/adr/0007-resume.md). The finished tensors are taken over from
// OUT.partial. Hidden states are not kept: a one-shot run passes them through the finished layers
// again without summing Hessians, a sequential one through both models.
#include <algorithm>

#include "cortiq/calib/sha256.hpp"
#include "cortiq/support/file.hpp"
#include "gptq_run.hpp"

namespace cortiq::pipeline {
namespace {

using cmf::Json;

std::string partial_name(const std::filesystem::path& output) {
  return output.string() + ".partial";
}

Json sources_json(const std::vector<calib::SourceReport>& sources) {
  Json list = Json::array();
  for (const auto& source : sources)
    list.push_back({source.sha256, source.share, source.tokens_used});
  return list;
}

/// What a run leaves behind that may go on: the cause lies outside of its options and inputs.
bool may_be_resumed(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInterrupted:
    case ErrorKind::kIo:
    case ErrorKind::kOutOfMemory:
    case ErrorKind::kDevice:
    case ErrorKind::kDeviceLost:
      return true;
    default:
      return false;
  }
}

}  // namespace

void GptqRun::find_leftover() {
  check_no_foreign_leftover(output_);
  left_ = read_leftover(output_);
  if (left_ && left_->tensors.empty()) left_.reset();
  if (!left_) {
    if (options_.resume)
      context_.log.info("--resume: there is no interrupted run of {}; starting anew",
                        output_.string());
    return;
  }
  if (options_.resume) {
    context_.log.info("--resume: an interrupted run has finished {} of {} tensors",
                      left_->tensors.size(), source_->tensors().size());
    return;
  }
  const std::string text = fmt::format(
      "{}: an interrupted run (or one that is still going on) has finished {} of {} tensors of "
      "this file",
      partial_name(output_), left_->tensors.size(), source_->tensors().size());
  left_.reset();
  if (options_.dry_run) {
    add_warning(text + "; --resume would continue it");
    return;
  }
  fail(ErrorKind::kRefused,
       "{}. Continue it with --resume, remove the file to start anew, or choose another --output",
       text);
}

Json GptqRun::fingerprint() const {
  Json json = report_.options;
  json["version"] = CORTIQ_VERSION;
  json["simd"] = simd_name(context_.pool.simd());
  json["hessians"] = report_.hessians;
  json["input"] = model_identity(*source_, context_.pool);
  if (calib_source_) json["calib_model"] = model_identity(*calib_source_, context_.pool);
  if (input_) {
    json["tokens"] = report_.tokens_used;
    json["window"] = report_.window;
    json["bos"] = input_->bos;
    json["calib"] = sources_json(report_.sources);
    json["tokenizer"] = input_->tokenizer_hash;
    json["hessian_cache"] =
        options_.hessians ? std::filesystem::absolute(*options_.hessians).string() : "none";
  }
  // All else that lies in the file: the input's header and vocabulary, the plan.
  const ByteSpan vocab = source_->vocab();
  calib::Sha256 rest;
  const std::string header = output_header().dump();
  rest.update(std::as_bytes(std::span(header)));
  rest.update(vocab);
  json["header"] = rest.finish();
  json["bytes"] = plan_.output_bytes;
  // Strings of the user may hold any bytes; the journal holds what this leaves of them.
  return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void GptqRun::check_leftover(const Json& run) const {
  const auto differences = fingerprint_differences(run, left_->fingerprint);
  if (differences.empty()) return;
  fail(ErrorKind::kRefused,
       "--resume: {} belongs to a run with other options or inputs: {}. Give the options of that "
       "run, or remove the file to start anew",
       partial_name(output_), fmt::join(differences, "; "));
}

void GptqRun::open_output() {
  const cmf::WriterSections sections{source_->masks(), source_->vocab(), source_->mask_index()};
  const cmf::Header header = output_header();
  const Json run = fingerprint();  // before the reports, which provenance counts
  report_.tensors = initial_reports(*source_, plan_);
  if (left_) {
    check_leftover(run);
    writer_ = cmf::Writer::reopen(output_, header, plan_.output, sections);
    adopt_leftover();
    journal_ = std::make_unique<RunJournal>(output_, *left_, *writer_);
  } else {
    writer_ = std::make_unique<cmf::Writer>(output_, header, plan_.output, sections);
    journal_ = std::make_unique<RunJournal>(output_, run, *writer_);
  }
}

void GptqRun::adopt_leftover() {
  for (const std::size_t index : good_tensors()) {
    const Leftover::Tensor& tensor = left_->tensors.at(index);
    writer_->adopt_tensor(index, tensor.hash);
    restore_tensor_report(tensor.report, report_.tensors[index]);
  }
  for (const std::string& warning : left_->warnings) report_.warnings.push_back(warning);
}

std::vector<std::size_t> GptqRun::good_tensors() const {
  std::vector<char> good(plan_.output.size(), 0);
  std::vector<std::size_t> listed;
  for (const auto& [index, tensor] : left_->tensors) {
    if (index < good.size()) listed.push_back(index);
  }
  context_.pool.for_each(static_cast<std::int64_t>(listed.size()), [&](std::int64_t i) {
    const std::size_t index = listed[static_cast<std::size_t>(i)];
    good[index] = writer_->holds_tensor(index, left_->tensors.at(index).hash) ? 1 : 0;
  });
  // The second half of a layer is calibrated on what its first half became, from its beginning on.
  if (plan_.sequential) keep_whole_layers(good);
  std::vector<std::size_t> result;
  for (const std::size_t index : listed) {
    if (good[index] != 0) result.push_back(index);
  }
  return result;
}

void GptqRun::keep_whole_layers(std::vector<char>& good) const {
  std::int64_t open = std::numeric_limits<std::int64_t>::max();
  for (const GroupPlan& group : plan_.groups) {
    for (const std::size_t index : group.tensors) {
      if (good[index] == 0) open = std::min(open, group.layer);
    }
  }
  for (const GroupPlan& group : plan_.groups) {
    if (group.layer < open) continue;
    for (const std::size_t index : group.tensors) good[index] = 0;
  }
}

bool GptqRun::is_done(const GroupPlan& group) const {
  return std::all_of(group.tensors.begin(), group.tensors.end(),
                     [&](std::size_t index) { return writer_->is_written(index); });
}

void GptqRun::record(const GroupPlan& group) {
  for (const std::size_t index : group.tensors) journal_->finished(index, report_.tensors[index]);
}

void GptqRun::end_early(const Error& error) {
  const std::size_t finished = journal_->count();
  if (!may_be_resumed(error.kind()) || finished == 0) {
    journal_->remove();
    throw error;
  }
  writer_->keep_partial();
  if (cache_writer_) cache_writer_->keep_partial();
  throw Error(error.kind(),
              fmt::format("{}; {} of {} tensors are finished and kept in {}: the same command with "
                          "--resume continues",
                          error.what(), finished, source_->tensors().size(),
                          partial_name(output_)));
}

}  // namespace cortiq::pipeline

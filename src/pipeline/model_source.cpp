#include "cortiq/pipeline/model_source.hpp"

#include <unistd.h>

#include <cmath>

#include "cortiq/calib/sha256.hpp"
#include "cortiq/cmf/hash64.hpp"
#include "cortiq/cmf/reader.hpp"
#include "cortiq/cmf/summary.hpp"
#include "cortiq/cmf/verify.hpp"
#include "cortiq/codec/codec.hpp"
#include "cortiq/hf/folder.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::pipeline {
namespace fs = std::filesystem;
namespace {

/// Bytes of a file name, so that those of its temporary files stay within the usual 255.
constexpr std::size_t kLongestOutputName = 239;

}  // namespace

std::unique_ptr<cmf::Source> open_source(const fs::path& path, NonFinite non_finite) {
  std::error_code code;
  const bool found = fs::exists(path, code);
  if (code == std::errc::permission_denied) {
    fail(ErrorKind::kIo, "{}: no permission to look into its folder; check the permissions",
         path.string());
  }
  if (!found) {
    fail(ErrorKind::kIo, "{}: no such file or folder; give a CMF file or a Hugging Face folder",
         path.string());
  }
  if (fs::is_directory(path, code)) {
    if (!hf::is_model_folder(path)) {
      fail(ErrorKind::kInput,
           "{}: this folder has no config.json, so it is no Hugging Face model; give the model's "
           "folder "
           "or a CMF file",
           path.string());
    }
    return hf::Folder::open(path, {.keep_non_finite = non_finite == NonFinite::kSanitize});
  }
  // Who accepts damaged weights has files whose hashes cannot fit.
  return cmf::Reader::open(path, non_finite == NonFinite::kSanitize ? cmf::Reader::Hashes::kIgnore : cmf::Reader::Hashes::kCheck);
}

std::vector<std::string> source_warnings(const cmf::Source& source) {
  const auto* folder = dynamic_cast<const hf::Folder*>(&source);
  return folder == nullptr ? std::vector<std::string>() : folder->warnings();
}

std::string refusal_to_quantize(const cmf::Source& source) {
  const auto* reader = dynamic_cast<const cmf::Reader*>(&source);
  return reader == nullptr ? std::string() : cmf::refuse_reason_for_quantize(*reader);
}

std::vector<std::string> section_problems(const cmf::Source& source) {
  const auto* reader = dynamic_cast<const cmf::Reader*>(&source);
  return reader == nullptr ? std::vector<std::string>() : cmf::section_problems(*reader);
}

DecodedTensor decode_tensor(const cmf::Source& source, std::size_t index, Pool& pool) {
  const cmf::TensorInfo& info = source.tensors()[index];
  const cmf::Payload payload = source.payload(index);  // its errors name file and tensor
  return with_context(source.path().string() + ": tensor " + info.name, [&] {
    const codec::RowDecoder decoder(info.dtype, info.shape, payload.bytes());
    DecodedTensor tensor;
    tensor.rows = decoder.rows();
    tensor.cols = decoder.cols();
    tensor.values.resize(static_cast<std::size_t>(tensor.rows * tensor.cols));
    decoder.decode_all({tensor.values.data(), tensor.rows, tensor.cols}, pool);
    return tensor;
  });
}

std::int64_t check_finite(DecodedTensor& tensor, std::string_view name, NonFinite policy,
                          Pool& pool) {
  const auto first = codec::find_non_finite(tensor.view(), pool);
  if (!first) return 0;
  if (policy == NonFinite::kRefuse) {
    fail(ErrorKind::kNumeric,
         "tensor {}: row {}, column {} is {}; the model is damaged. Repair it, or set such weights "
         "to "
         "zero with --sanitize",
         name, *first / tensor.cols, *first % tensor.cols,
         tensor.values[static_cast<std::size_t>(*first)]);
  }
  std::int64_t count = 0;
  for (float& value : tensor.values) {
    if (!std::isfinite(value)) {
      value = 0;
      ++count;
    }
  }
  return count;
}

void check_no_input(const fs::path& output, const std::vector<fs::path>& inputs) {
  if (output.empty()) {
    fail(ErrorKind::kUsage, "an output has an empty path; give the path of a file");
  }
  const fs::path partial = output.string() + ".partial";
  const auto identity = file_identity(output);
  const auto partial_identity = file_identity(partial);
  for (const fs::path& input : inputs) {
    const auto used = file_identity(input);
    if (identity && used == identity) {
      fail(ErrorKind::kUsage, "{}: is the input file {}; choose another output", output.string(),
           input.string());
    }
    if (partial_identity && used == partial_identity) {
      fail(ErrorKind::kUsage,
           "{}: is written as {} first, and that is the input file {}; choose another output",
           output.string(), partial.string(), input.string());
    }
  }
}

void check_output_path(const fs::path& output, const std::vector<fs::path>& inputs) {
  check_no_input(output, inputs);
  const fs::path folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  std::error_code code;
  if (!fs::is_directory(folder, code)) {
    fail(ErrorKind::kIo, "{}: the folder {} does not exist; create it first", output.string(),
         folder.string());
  }
  if (output.filename().string().size() > kLongestOutputName) {
    fail(ErrorKind::kIo, "{}: the file name has {} bytes; choose one of at most {}",
         output.string(), output.filename().string().size(), kLongestOutputName);
  }
  check_replaceable(output);
  if (::access(folder.c_str(), W_OK) != 0) {
    fail(ErrorKind::kIo, "{}: no permission to write in the folder {}; choose another output",
         output.string(), folder.string());
  }
}

std::string model_identity(const cmf::Source& source, Pool& pool) {
  const auto& tensors = source.tensors();
  std::vector<std::uint64_t> hashes(tensors.size());
  pool.for_each(static_cast<std::int64_t>(tensors.size()), [&](std::int64_t i) {
    const auto index = static_cast<std::size_t>(i);
    if (tensors[index].hash) {
      hashes[index] = *tensors[index].hash;
      return;
    }
    const cmf::Payload payload = source.payload(index);
    hashes[index] = cmf::hash64(payload.bytes());
    source.release(index);
  });
  std::string text;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    text += fmt::format("{} {} {} {:016x}\n", tensors[i].name, cmf::dtype_name(tensors[i].dtype),
                        fmt::join(tensors[i].shape, "x"), hashes[i]);
  }
  return calib::sha256_hex(text);
}

}  // namespace cortiq::pipeline

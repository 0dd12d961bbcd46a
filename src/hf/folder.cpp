#include "cortiq/hf/folder.hpp"

#include <numeric>
#include <unordered_map>

#include "cortiq/hf/config.hpp"
#include "cortiq/hf/names.hpp"
#include "cortiq/hf/values.hpp"
#include "fields.hpp"
#include "weight_files.hpp"

namespace cortiq::hf {
namespace {

namespace fs = std::filesystem;
using cmf::DType;
using cmf::Json;

constexpr std::uint64_t kMaxTextBytes = 64'000'000;  ///< of a configuration file

/// Where the content of one tensor comes from.
struct Origin {
  std::size_t file = 0;
  std::size_t entry = 0;
  Part part;
};

std::string read_optional_text(const fs::path& path) {
  return fs::exists(path) ? read_text_file(path, kMaxTextBytes) : std::string();
}

Json read_optional_object(const fs::path& path) {
  return fs::exists(path) ? parse_object(read_text_file(path, kMaxTextBytes), path.string())
                          : Json::object();
}

std::string folder_name(const fs::path& path) {
  fs::path name = fs::weakly_canonical(path).filename();
  // A path may hold any bytes; the header is UTF-8.
  const Json text(name.string());
  return Json::parse(text.dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

std::string_view label_of(DType dtype) {
  if (dtype == DType::kF16) return "F16";
  return dtype == DType::kBf16 ? "BF16" : "F32";
}

std::string lower_label(DType dtype) { return std::string(cmf::dtype_name(dtype)); }

/// Matrices in the wanted type. The small rest is f16 beside f16 matrices, and f32 otherwise: bf16
/// would lose bits of norms, f16 the range that the other types are chosen for.
DType storage_type(const Part& part, DType wanted) {
  const std::int64_t elements =
      std::accumulate(part.shape.begin(), part.shape.end(), std::int64_t{1}, std::multiplies<>());
  if (keeps_f32(part.name)) return DType::kF32;
  if (part.shape.size() == 2 && elements >= 32) return wanted;
  return wanted == DType::kF16 ? DType::kF16 : DType::kF32;
}

std::uint64_t width_of(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

FusedGeometry geometry_of(const Json& arch) {
  const auto number = [](const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? std::int64_t{0} : found->get<std::int64_t>();
  };
  FusedGeometry g;
  g.heads = number(arch, "num_attention_heads");
  g.kv_heads = number(arch, "num_kv_heads");
  g.head_dim = number(arch, "head_dim");
  if (arch.contains("moe")) g.expert_width = number(arch["moe"], "moe_intermediate_size");
  g.linear_key_heads = number(arch, "linear_num_key_heads");
  g.linear_value_heads = number(arch, "linear_num_value_heads");
  g.linear_key_dim = number(arch, "linear_key_head_dim");
  g.linear_value_dim = number(arch, "linear_value_head_dim");
  return g;
}

void check_not_quantized(const Json& config, const fs::path& folder) {
  const Fields fields(config, (folder / "config.json").string());
  const Json* record = fields.object("quantization_config");
  if (record == nullptr) return;
  const std::string method =
      Fields(*record, fields.where()).text({"quant_method"}).value_or("unknown");
  fail(ErrorKind::kUnsupported,
       "{}: the weights are already quantized (method {}); use the model's f16, bf16 or f32 form",
       fields.where(), method);
}

}  // namespace

struct Folder::State {
  fs::path path;
  FolderOptions options;
  std::vector<fs::path> files;
  std::vector<std::string> warnings;
  std::vector<WeightFile> weights;
  std::optional<MappedFile> tokenizer;
  cmf::Header header;
  std::vector<cmf::TensorInfo> tensors;
  std::vector<Origin> origins;  ///< beside `tensors`
  std::unordered_map<std::string, std::size_t> index;

  void read_texts(Json& config);
  void add_tensors(const FusedGeometry& geometry);
  void add_tensor(std::size_t file, std::size_t entry, Part part);
  void check_shapes() const;
  void check_biases(const Json& config) const;
  [[nodiscard]] const SafetensorsEntry& entry_of(const Origin& origin) const {
    return weights[origin.file].entries[origin.entry];
  }
  [[nodiscard]] ByteSpan source_bytes(const Origin& origin) const {
    const SafetensorsEntry& entry = entry_of(origin);
    return weights[origin.file].file.bytes().subspan(entry.offset, entry.nbytes);
  }
  [[nodiscard]] std::string where(const Origin& origin) const {
    return weights[origin.file].file.path().string();
  }
  [[nodiscard]] cmf::Payload make_payload(std::size_t i) const;
};

void Folder::State::read_texts(Json& config) {
  const fs::path config_path = path / "config.json";
  if (!fs::is_directory(path)) {
    fail(ErrorKind::kInput, "{}: is not a folder; give a Hugging Face model folder or a CMF file",
         path.string());
  }
  if (!fs::exists(config_path)) {
    fail(ErrorKind::kInput, "{}: has no config.json; give a complete Hugging Face model folder",
         path.string());
  }
  config = parse_object(read_text_file(config_path, kMaxTextBytes), config_path.string());
  Json& json = header.json();
  json["format"] = "cmf";
  json["version"] = 2;
  json["arch"] = arch_from_config(config, config_path.string(), &warnings);
  json["quant_type"] = label_of(options.dtype);
  json["provenance"] = Json{{"tool", "cortiq-quant " CORTIQ_VERSION},
                            {"source_model", folder_name(path)},
                            {"weight_quant", lower_label(options.dtype)}};
  json["tokenizer_config"] =
      tokenizer_from_config(config, read_optional_object(path / "generation_config.json"),
                            read_optional_object(path / "tokenizer_config.json"),
                            read_optional_text(path / "chat_template.jinja"), path.string());
  if (fs::exists(path / "tokenizer.json")) tokenizer.emplace(path / "tokenizer.json");
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer_config.json", "chat_template.jinja",
        "tokenizer.json", "model.safetensors.index.json"}) {
    if (fs::exists(path / name)) files.push_back(path / name);
  }
}

void Folder::State::add_tensor(std::size_t file, std::size_t entry, Part part) {
  const DType dtype = storage_type(part, options.dtype);
  constexpr std::size_t kMaxRank = 6;  // of the container
  Origin origin{file, entry, std::move(part)};
  if (origin.part.shape.size() > kMaxRank) {
    fail(ErrorKind::kUnsupported, "{}: tensor {} has {} dimensions, more than the {} of the format; leave it out of the model",
         where(origin), origin.part.name, origin.part.shape.size(), kMaxRank);
  }
  cmf::TensorInfo info;
  info.name = origin.part.name;
  info.dtype = dtype;
  info.shape = origin.part.shape;
  info.nbytes = static_cast<std::uint64_t>(info.elements()) * width_of(dtype);
  if (!index.emplace(info.name, tensors.size()).second) {
    fail(ErrorKind::kInput,
         "{}: tensor {} occurs twice in the model (the second as {}); a file of another model in "
         "the "
         "folder?",
         where(origin), info.name, entry_of(origin).name);
  }
  tensors.push_back(std::move(info));
  origins.push_back(std::move(origin));
}

void Folder::State::add_tensors(const FusedGeometry& geometry) {
  for (std::size_t f = 0; f < weights.size(); ++f) {
    const std::vector<SafetensorsEntry>& entries = weights[f].entries;
    const std::string file_name = weights[f].file.path().string();
    for (std::size_t e = 0; e < entries.size(); ++e) {
      const auto name = map_name(entries[e].name);
      if (!name) continue;
      if (!entries[e].type) {
        fail(ErrorKind::kUnsupported,
             "{}: tensor {} has dtype {}; only F32, F16 and BF16 weights are handled, use the "
             "model's f16 or bf16 form",
             file_name, entries[e].name, entries[e].dtype);
      }
      with_context(file_name, [&] {
        for (Part& part : split_fused(*name, entries[e].shape, geometry))
          add_tensor(f, e, std::move(part));
      });
    }
  }
}

/// What config.json and the weights both say must agree; the rest is checked by whoever runs the
/// model.
void Folder::State::check_shapes() const {
  const Json& arch = header.arch();
  const auto number = [&](const char* key) { return arch[key].get<std::int64_t>(); };
  const auto tensor = [&](const std::string& name) -> const cmf::TensorInfo* {
    const auto found = index.find(name);
    return found == index.end() ? nullptr : &tensors[found->second];
  };
  const std::string config_name = (path / "config.json").string();
  const cmf::TensorInfo* embedding = tensor("model.embed_tokens.weight");
  if (embedding == nullptr) {
    fail(ErrorKind::kInput,
         "{}: the weights have no model.embed_tokens.weight; is the folder a complete model?",
         path.string());
  }
  const std::vector<std::int64_t> expected = {number("vocab_size"), number("hidden_size")};
  if (embedding->shape != expected) {
    fail(ErrorKind::kInput,
         "{}: vocab_size and hidden_size say [{}], but model.embed_tokens.weight is [{}]; "
         "config.json "
         "and weights are from different models",
         config_name, fmt::join(expected, ", "), fmt::join(embedding->shape, ", "));
  }
  const std::int64_t rows = number("num_attention_heads") * number("head_dim");
  for (std::int64_t layer = 0; layer < number("num_layers"); ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    if (tensor(prefix + "input_layernorm.weight") == nullptr) {
      fail(ErrorKind::kInput,
           "{}: num_hidden_layers is {}, but the weights have no {}input_layernorm.weight; a "
           "weight file "
           "is missing or of another model",
           config_name, number("num_layers"), prefix);
    }
    const cmf::TensorInfo* query = tensor(prefix + "self_attn.q_proj.weight");
    if (query == nullptr || query->shape.size() != 2) continue;
    if (query->shape[0] != rows && query->shape[0] != 2 * rows) {
      fail(ErrorKind::kInput,
           "{}: num_attention_heads {} x head_dim {} is {}, but {} has {} rows; config.json and "
           "weights "
           "are from different models",
           config_name, number("num_attention_heads"), number("head_dim"), rows, query->name,
           query->shape[0]);
    }
  }
}

/// Biases that the configuration asks for must be there; without them the model would silently be
/// another one.
void Folder::State::check_biases(const Json& config) const {
  const fs::path config_path = path / "config.json";
  const Fields fields(config, config_path.string());
  const std::pair<const char*, std::string> keys[] = {
      {"attention_bias", "model.layers.0.self_attn.q_proj"},
      {"mlp_bias", "model.layers.0.mlp.up_proj"}};
  for (const auto& [key, linear] : keys) {
    if (!fields.boolean({key}).value_or(false) || !index.contains(linear + ".weight")) continue;
    if (index.contains(linear + ".bias")) continue;
    fail(ErrorKind::kInput,
         "{}: {} is true, but the weights have no {}.bias; config.json and weights are from "
         "different models",
         config_path.string(), key, linear);
  }
}

cmf::Payload Folder::State::make_payload(std::size_t i) const {
  const Origin& origin = origins[i];
  const SafetensorsEntry& entry = entry_of(origin);
  const Part& part = origin.part;
  const cmf::TensorInfo& info = tensors[i];
  const SourceType type = *entry.type;
  const ByteSpan source = source_bytes(origin);
  const auto width = static_cast<std::size_t>(source_type_bytes(type));
  const auto run_bytes = [&](const Run& run) {
    return source.subspan(static_cast<std::size_t>(run.begin) * width,
                          static_cast<std::size_t>(run.count) * width);
  };
  if (part.column_stride == 0 && part.runs.size() == 1 && same_encoding(type, info.dtype)) {
    const ByteSpan bytes = run_bytes(part.runs.front());
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % width == 0) {
      if (!options.keep_non_finite) check_values(bytes, type, 0, part.name);
      return cmf::Payload(bytes);
    }
  }
  std::vector<std::byte> payload(info.nbytes);
  const auto target_width = static_cast<std::int64_t>(width_of(info.dtype));
  if (part.column_stride == 0) {
    std::int64_t first = 0;
    for (const Run& run : part.runs) {
      convert_values(run_bytes(run), type, info.dtype, payload.data() + first * target_width, first,
                     part.name, options.keep_non_finite);
      first += run.count;
    }
    return cmf::Payload(std::move(payload));
  }
  // Transposed: gather one output row at a time, so that messages and conversion stay those of a
  // plain tensor.
  const std::int64_t cols = part.shape[1];
  std::vector<std::byte> row(static_cast<std::size_t>(cols) * width);
  for (std::int64_t r = 0; r < part.shape[0]; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto at =
          static_cast<std::size_t>(part.runs.front().begin + c * part.column_stride + r);
      std::memcpy(row.data() + static_cast<std::size_t>(c) * width, source.data() + at * width,
                  width);
    }
    convert_values(row, type, info.dtype, payload.data() + r * cols * target_width, r * cols,
                   part.name, options.keep_non_finite);
  }
  return cmf::Payload(std::move(payload));
}

bool is_model_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) && fs::exists(path / "config.json", ignored);
}

Folder::Folder() : state_(std::make_unique<State>()) {}
Folder::~Folder() = default;
const std::vector<std::string>& Folder::warnings() const { return state_->warnings; }

std::unique_ptr<Folder> Folder::open(const fs::path& path, const FolderOptions& options) {
  CORTIQ_ASSERT(cmf::is_float(options.dtype));
  std::unique_ptr<Folder> folder(new Folder());
  State& state = *folder->state_;
  state.path = path;
  state.options = options;
  Json config;
  state.read_texts(config);
  state.weights = open_weight_files(path);
  for (const WeightFile& weight : state.weights) state.files.push_back(weight.file.path());
  state.add_tensors(geometry_of(state.header.arch()));
  check_not_quantized(config, path);
  state.check_shapes();
  state.check_biases(config);
  return folder;
}

const fs::path& Folder::path() const { return state_->path; }
std::vector<fs::path> Folder::files() const { return state_->files; }
const cmf::Header& Folder::header() const { return state_->header; }
const std::vector<cmf::TensorInfo>& Folder::tensors() const { return state_->tensors; }

std::optional<std::size_t> Folder::find(std::string_view name) const {
  const auto found = state_->index.find(std::string(name));
  if (found == state_->index.end()) return std::nullopt;
  return found->second;
}

cmf::Payload Folder::payload(std::size_t index) const {
  return with_context(state_->where(state_->origins.at(index)),
                      [&] { return state_->make_payload(index); });
}

void Folder::release(std::size_t index) const {
  const Origin& origin = state_->origins.at(index);
  state_->weights[origin.file].file.release(state_->source_bytes(origin));
}

ByteSpan Folder::vocab() const {
  return state_->tokenizer ? state_->tokenizer->bytes() : ByteSpan();
}
ByteSpan Folder::masks() const { return {}; }
ByteSpan Folder::mask_index() const { return {}; }

}  // namespace cortiq::hf

// SPDX-License-Identifier: Apache-2.0
// config.json of a model, with the index of its checkpoint where there is one: the shape, the dtype that
// Transformers will load, and bitsandbytes quantisation of the stored weights.
#include <filesystem>
#include <iterator>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "base/folder.h"
#include "base/text.h"
#include "job/readers/resolve.h"
#include "job/value.h"
#include "model/catalog.h"
#include "model/hf_config.h"
#include "model/safetensors_index.h"

namespace plimsoll::job {

using document::Node;

namespace {

// Sizes of the checkpoint must agree with the parameters of the config; a note says why they were not compared.
Status check_index(std::string_view text, const Node& config, Draft& draft) {
  PLIMSOLL_TRY(root, document::parse_json(text));
  PLIMSOLL_TRY(index, model::read_safetensors_index(root));
  PLIMSOLL_TRY(note, model::check_safetensors_index(index, draft.model, config));
  if (!note.empty()) draft.warnings.push_back("model.safetensors.index.json: " + note);
  return {};
}

void read_dtype(const Node& config, Draft& draft) {
  const Node* inner = config.find("text_config");
  for (const Node* table : {&config, inner}) {
    if (table == nullptr) continue;
    for (const std::string_view key : {"dtype", "torch_dtype"}) {
      const Node* dtype = table->find(key);
      if (dtype == nullptr || !dtype->is_string() || !from_name<DType>(dtype->text)) continue;
      draft.assign("load_dtype", *dtype, key, true);
      return;
    }
  }
}

}  // namespace

Result<std::string> read_named_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !file_exists(path))
    return bad_input(fmt::format("{} is not a regular file", path));
  return read_file(path);
}

namespace {

namespace fs = std::filesystem;

// The folder and those above it, up to the root of the repository.
std::vector<fs::path> places_above(const fs::path& start) {
  std::error_code ignored;
  std::vector<fs::path> places;
  fs::path place = fs::absolute(start, ignored).lexically_normal();
  if (place.filename().empty()) place = place.parent_path();
  for (int level = 0; level < 8 && !place.empty(); ++level) {
    places.push_back(place);
    if (fs::exists(place / ".git", ignored) || place == place.parent_path()) break;
    place = place.parent_path();
  }
  return places;
}

// Beside the file that names it, in the working directory, or above one of them.
std::optional<std::string> find_above(const fs::path& given, const std::string& folder) {
  std::error_code ignored;
  for (const fs::path& start : {fs::path(folder.empty() ? "." : folder), fs::path(".")}) {
    const std::vector<fs::path> places = places_above(start);
    for (std::size_t level = 0; level < places.size(); ++level)
      if (fs::exists(places[level] / given, ignored))
        return level == 0 ? (start / given).string() : (places[level] / given).string();
  }
  return std::nullopt;
}

// In a folder beside the file or one level above it, where only one has a file of that name.
std::optional<std::string> find_in_neighbours(const fs::path& name, const std::string& folder) {
  constexpr std::size_t kMostFolders = 200;
  std::error_code ignored;
  const std::vector<fs::path> places = places_above(fs::path(folder.empty() ? "." : folder));
  for (std::size_t level = 0; level < places.size() && level < 2; ++level) {
    std::vector<std::string> found;
    const std::vector<std::string> names = names_in(places[level].string());
    for (std::size_t i = 0; i < names.size() && i < kMostFolders; ++i)
      if (const fs::path file = places[level] / names[i] / name; fs::is_regular_file(file, ignored))
        found.push_back(file.string());
    if (found.size() == 1) return found.front();
  }
  return std::nullopt;
}

}  // namespace

Result<std::string> locate(const std::string& name, const std::string& folder) {
  std::error_code ignored;
  const fs::path given(name);
  if (name.empty()) return bad_input("the name of a file is empty");
  if (given.is_absolute() && fs::exists(given, ignored)) return name;
  if (!given.is_absolute())
    if (auto found = find_above(given, folder)) return *std::move(found);
  // The path of another machine, or from another folder: its last parts may be here.
  fs::path rest = given.relative_path();
  while (rest.has_parent_path()) {
    fs::path shorter;
    for (auto part = std::next(rest.begin()); part != rest.end(); ++part) shorter /= *part;
    rest = std::move(shorter);
    if (rest.empty()) break;
    if (auto found = find_above(rest, folder)) return *std::move(found);
  }
  if (given.has_parent_path() && given.has_filename())
    if (auto found = find_in_neighbours(given.filename(), folder)) return *std::move(found);
  return tl::make_unexpected(
      Error{Code::kMissing,
            fmt::format("{}: no such file beside the file that names it, in the working directory or above", name),
            {},
            "give the file as an operand of its own, or run in its folder"});
}

void read_quantization(const Node& config, Draft& draft) {
  const Node* method = config.find("quant_method");
  const Node* four = config.find("load_in_4bit");
  const Node* eight = config.find("load_in_8bit");
  const bool is_four = four != nullptr && four->is_bool() && four->boolean;
  const bool is_eight = eight != nullptr && eight->is_bool() && eight->boolean;
  if (is_four) {
    draft.assign("load_in_4bit", bool_node(true), "quantization_config.load_in_4bit");
    if (const Node* twice = config.find("bnb_4bit_use_double_quant"); twice != nullptr)
      draft.assign("bnb_4bit_use_double_quant", *twice, "quantization_config.bnb_4bit_use_double_quant");
    if (const Node* compute = config.find("bnb_4bit_compute_dtype");
        compute == nullptr || !compute->is_string() || from_name<DType>(compute->text) == DType::kFp32)
      draft.warnings.emplace_back(
          "bnb_4bit_compute_dtype: is fp32 (the default), so inputs of 4-bit layers are cast to 4 bytes; bf16 is "
          "counted");
    return;
  }
  if (is_eight) {
    draft.assign("load_in_8bit", bool_node(true), "quantization_config.load_in_8bit");
    return;
  }
  const std::string name = method != nullptr && method->is_string() ? method->text : "quantised";
  draft.warnings.push_back(
      fmt::format("quantization_config: {} weights are counted as if they were loaded in 16 bits", name));
}

namespace {

// A checkpoint that is stored in 4 bits is loaded in 4 bits, whatever the file says of quantisation.
void note_quantised_name(const std::string& name, Draft& draft) {
  if (facts_of(draft.vocabulary).is_megatron) return;
  const std::string last = lower(name.substr(name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1));
  const auto ends = [&last](std::string_view word) { return last.ends_with(word); };
  if (ends("-bnb-4bit") || ends("-awq") || ends("-gptq-int4") || ends("-gptq") || ends("-int4")) {
    draft.assign("load_in_4bit", bool_node(true), "the model's name", true);
    if (!ends("-bnb-4bit"))
      draft.warnings.push_back(
          fmt::format("model: the 4-bit weights of '{}' are counted as those of bitsandbytes", name.substr(0, 200)));
  } else if (ends("-gptq-int8") || ends("-int8") || ends("-fp8")) {
    draft.warnings.push_back(fmt::format(
        "model: the 8-bit weights of '{}' are counted as if they were loaded in 16 bits", name.substr(0, 200)));
  }
}

}  // namespace

Result<Draft> read_hf_model(const InputFile& file, std::string_view index) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kHfConfig;
  draft.vocabulary = assumed_framework(Assumed::kForOneGpu);
  PLIMSOLL_TRY(root, document::parse_json(file.text));
  PLIMSOLL_TRY(model, model::read_hf_config(root));
  draft.model = std::move(model);
  if (draft.model.name.empty()) draft.model.name = file.path;
  read_dtype(root, draft);
  if (const Node* quantization = root.find("quantization_config"); quantization != nullptr && quantization->is_object())
    read_quantization(*quantization, draft);
  const std::string beside = parent_folder(file.path) + "/model.safetensors.index.json";
  std::string stored(index);
  if (stored.empty() && file.path != "-" && file_exists(beside)) {
    PLIMSOLL_TRY(text, read_named_file(beside));
    stored = std::move(text);
  }
  if (!stored.empty()) PLIMSOLL_TRY_STATUS(check_index(stored, root, draft));
  return draft;
}

Status name_model(const std::string& name, Draft& draft) {
  note_quantised_name(name, draft);
  auto model = find_model_or_file(name, parent_folder(draft.path));
  if (model) {
    model->model_is_weak = true;  // a config.json that is given wins
    draft.parts.push_back(*std::move(model));
    return {};
  }
  const bool is_file = std::filesystem::path(name).extension() == ".json" || model.error().context.size() > 0;
  if (is_file) return tl::make_unexpected(std::move(model.error()));
  if (const std::string ancestor = model::ancestor_in_name(name); !ancestor.empty()) {
    PLIMSOLL_TRY(shape, find_model_or_file(ancestor, {}));
    shape.model_is_weak = true;
    draft.parts.push_back(std::move(shape));
    draft.notes.push_back(fmt::format("model: '{}' is taken as {}, as its name says (--model names another)",
                                      name.substr(0, 200), ancestor));
    return {};
  }
  draft.unknown_model = name;
  return {};
}

Result<Draft> find_model_or_file(const std::string& name, const std::string& folder) {
  const std::filesystem::path given(name);
  std::error_code ignored;
  std::filesystem::path path = given.is_absolute() ? given : std::filesystem::path(folder) / given;
  if (std::filesystem::is_directory(path, ignored)) path /= "config.json";
  const bool looks_like_path = given.extension() == ".json";
  if (looks_like_path || file_exists(path.string())) {
    PLIMSOLL_TRY(text, read_named_file(path.string()));
    auto draft = read_hf_model(InputFile{path.string(), std::move(text)}, {});
    if (!draft) return tl::make_unexpected(std::move(draft.error()).with_context(path.string()));
    return draft;
  }
  Draft draft;
  draft.path = name;
  draft.kind = FileKind::kHfConfig;
  draft.vocabulary = assumed_framework(Assumed::kForOneGpu);
  PLIMSOLL_TRY(model, model::find_model(name));
  draft.model = std::move(model);
  return draft;
}

}  // namespace plimsoll::job

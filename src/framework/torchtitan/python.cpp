// SPDX-License-Identifier: Apache-2.0
// torchtitan's config_registry.py: functions that return a Trainer.Config. Nothing is run: of the function that
// --config names, the keywords of Trainer.Config(...) and the lines config.section.field = value are read where their
// values are literals or products of them; a function that starts from another one is laid over it.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/lines.h"
#include "base/text.h"
#include "framework/megatron_bridge/bridge.h"
#include "framework/torchtitan/torchtitan.h"
#include "job/format.h"
#include "job/readers/omega.h"
#include "job/readers/python_value.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

constexpr std::size_t kMaxFunctions = 1000;
constexpr int kMaxDepth = 8;
constexpr int kMaxNesting = 12;

struct Function {
  std::string body;  // without comments
  bool returns_config = false;
};

// The end of the bracket that opens at `start`, behind its closing one.
std::size_t end_of_bracket(std::string_view text, std::size_t start) {
  int open = 0;
  char quote = '\0';
  for (std::size_t i = start; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == '\\') {
        ++i;
      } else if (c == quote) {
        quote = '\0';
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '(' || c == '[' || c == '{') {
      ++open;
    } else if (c == ')' || c == ']' || c == '}') {
      if (--open == 0) return i + 1;
    }
  }
  return text.size();
}

std::string without_comments(std::string_view text) {
  std::string kept;
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '\0' && c == '#') {
      i = std::min(text.find('\n', i), text.size() - 1);
      kept += '\n';
      continue;
    }
    if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote || c == '\n') {
      quote = '\0';
    }
    kept += c;
  }
  return kept;
}

std::vector<std::string_view> split_arguments(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size() && parts.size() < 1000; ++i) {
    if (text[i] == '(' || text[i] == '[' || text[i] == '{') {
      i = end_of_bracket(text, i) - 1;
    } else if (text[i] == '#') {
      i = std::min(text.find('\n', i), text.size() - 1);
    } else if (text[i] == ',') {
      parts.push_back(trim(text.substr(start, i - start)));
      start = i + 1;
    }
  }
  if (start < text.size()) parts.push_back(trim(text.substr(start)));
  return parts;
}

// A literal, or whole numbers multiplied; nothing where it is more than that.
std::optional<Node> plain_value(std::string_view text) {
  text = trim(text);
  if (text.find('*') != std::string_view::npos) {
    std::int64_t product = 1;
    for (const std::string_view part : split(text, '*')) {
      const Node factor = document::parse_scalar(trim(part));
      const auto next = factor.is_integer() ? checked_mul(product, factor.integer) : std::nullopt;
      if (!next) return std::nullopt;
      product = *next;
    }
    return integer_node(product);
  }
  auto value = parse_python(text);
  if (!value || value->is_object()) return std::nullopt;
  return *std::move(value);
}

class Registry {
 public:
  explicit Registry(std::string_view text) {
    std::size_t at = text.starts_with("def ") ? 0 : text.find("\ndef ");
    while (at != std::string_view::npos && functions_.size() < kMaxFunctions) {
      const std::size_t start = at == 0 ? 4 : at + 5;
      const std::size_t next = text.find("\ndef ", start);
      const std::string_view whole = text.substr(start, next == std::string_view::npos ? next : next - start);
      const std::string_view head = whole.substr(0, whole.find(":\n"));
      Function function{without_comments(whole.substr(std::min(head.size() + 1, whole.size()))), false};
      function.returns_config = head.find("Config") != std::string_view::npos;
      functions_[std::string(head.substr(0, head.find('(')))] = function;
      at = next;
    }
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& [name, function] : functions_)
      if (function.returns_config && !name.starts_with('_')) found.push_back(name);
    return found;
  }

  [[nodiscard]] bool has(const std::string& name) const { return functions_.find(name) != functions_.end(); }

  // The sections that a function sets, `flavor` as model.flavor.
  void evaluate(const std::string& name, int depth, Node& root) const {
    const auto found = functions_.find(name);
    if (found == functions_.end() || depth > kMaxDepth) return;
    const std::string_view body = found->second.body;
    for (const std::string_view raw : lines(body)) {
      const std::string_view line = trim(raw);
      const std::size_t equals = line.find('=');
      if (equals == std::string_view::npos) continue;
      const std::string_view right = trim(line.substr(equals + 1));
      const std::string base{right.substr(0, right.find('('))};
      if (line.starts_with("config =") && has(base)) evaluate(base, depth + 1, root);
    }
    if (const std::size_t at = body.find("model_registry("); at != std::string_view::npos) {
      const std::size_t open = at + std::string_view("model_registry").size();
      const std::size_t end = end_of_bracket(body, open);
      const auto parts = split_arguments(body.substr(open + 1, end - open - 2));
      if (!parts.empty())
        if (const auto flavor = plain_value(parts.front()); flavor && flavor->is_string())
          put_path(root, "model.flavor", *flavor);
      if (body.substr(open, end - open).find("LoRAConverter") != std::string_view::npos)
        put_path(root, "model.converters", text_node("lora"));
      for (const std::string_view word : {"Float8", "MXFP8", "NVFP4"})
        if (body.substr(open, end - open).find(word) != std::string_view::npos)
          put_path(root, "model.quantized", text_node(std::string(word)));
    }
    if (const std::size_t at = body.find("Config("); at != std::string_view::npos) {
      const std::size_t start = body.find("return ");
      const std::size_t open = start == std::string_view::npos ? at + 6 : body.find('(', start);
      if (open != std::string_view::npos && body.substr(0, open).ends_with("Trainer.Config"))
        read_call(body, open, "", 0, root);
    }
    for (const std::string_view raw : lines(body)) {
      const std::string_view line = trim(raw);
      const std::size_t equals = line.find(" = ");
      if (!line.starts_with("config.") || equals == std::string_view::npos) continue;
      const std::string_view path = line.substr(7, equals - 7);
      if (const auto value = plain_value(line.substr(equals + 3))) put_path(root, path, *value);
    }
  }

 private:
  static void read_call(std::string_view body, std::size_t open, const std::string& prefix, int depth, Node& root) {
    if (depth > kMaxNesting) return;
    const std::size_t end = end_of_bracket(body, open);
    for (const std::string_view part : split_arguments(body.substr(open + 1, end - open - 2))) {
      const std::size_t equals = part.find('=');
      if (equals == std::string_view::npos) continue;
      const std::string key{trim(part.substr(0, equals))};
      const std::string_view value = trim(part.substr(equals + 1));
      const std::string path = prefix.empty() ? key : prefix + "." + key;
      if (const auto plain = plain_value(value)) {
        put_path(root, path, *plain);
        continue;
      }
      const std::size_t call = value.find('(');
      if (call == std::string_view::npos) continue;
      put_path(root, path + "._type_", text_node(std::string(trim(value.substr(0, call)))));
      read_call(value, call, path, depth + 1, root);
    }
  }

  std::map<std::string, Function, std::less<>> functions_;
};

const Node* at(const Node& root, std::string_view section, std::string_view key) {
  const Node* table = root.find(section);
  return table == nullptr || !table->is_object() ? nullptr : table->find(key);
}

// The registry's sections in the spelling of torchtitan's TOML.
Result<Node> as_sections(const Node& config, const std::string& family) {
  Node root;
  root.kind = Node::Kind::kObject;
  put_path(root, "model.name", text_node(family));
  if (const Node* flavor = at(config, "model", "flavor"); flavor != nullptr) put_path(root, "model.flavor", *flavor);
  for (const std::string_view section : {"parallelism", "compile"})
    if (const Node* table = config.find(section); table != nullptr && table->is_object())
      for (const auto& [key, value] : table->members)
        if (key != "_type_" && !value.is_object() && key != "spmd_backend")
          put_path(root, fmt::format("{}.{}", section, key), value);
  const Node* length = at(config, "training", "max_context_length");
  if (length == nullptr) length = at(config, "training", "seq_len");
  const Node* tokens = at(config, "training", "num_tokens_per_microbatch_per_dp_rank");
  const Node* batch = at(config, "training", "local_batch_size");
  if (length != nullptr) put_path(root, "training.seq_len", *length);
  if (batch != nullptr) {
    put_path(root, "training.local_batch_size", *batch);
  } else if (tokens != nullptr && tokens->is_integer() && length != nullptr && length->is_integer() &&
             length->integer > 0 && tokens->integer % length->integer == 0) {
    put_path(root, "training.local_batch_size", integer_node(tokens->integer / length->integer));
  }
  for (const std::string_view key : {"mixed_precision_param", "mixed_precision_reduce", "enable_cpu_offload"})
    if (const Node* value = at(config, "training", key); value != nullptr)
      put_path(root, fmt::format("training.{}", key), *value);
  const Node* kind = at(config, "activation_checkpoint", "_type_");
  std::string mode = "none";
  if (kind != nullptr && kind->text.find("Full") != std::string::npos) mode = "full";
  if (kind != nullptr && kind->text.find("Selective") != std::string::npos) mode = "selective";
  if (kind != nullptr && kind->text.find("Budget") != std::string::npos) mode = "memory_budget";
  put_path(root, "activation_checkpoint.mode", text_node(mode));
  if (mode == "selective") put_path(root, "activation_checkpoint.selective_ac_option", text_node("op"));
  return root;
}

}  // namespace

bool is_torchtitan_registry(std::string_view text) {
  return text.find("Trainer.Config") != std::string_view::npos &&
         text.find("model_registry(") != std::string_view::npos;
}

namespace {

// Converters of the registry, by their class.
void name_quantised(std::string_view word, Draft& draft) {
  if (word == "NVFP4") {
    draft.warnings.emplace_back("converters: NVFP4 linears are counted in bf16");
    return;
  }
  const bool scaled_in_blocks = word == "MXFP8";
  draft.assign("fp8", text_node(scaled_in_blocks ? "e4m3" : "hybrid"), "converters");
  draft.assign("fp8_recipe", text_node(scaled_in_blocks ? "mxfp8" : "tensorwise"), "converters");
  draft.notes.push_back(
      fmt::format("{}: linears of the converters ({}); which it leaves out is not read", draft.path, word));
}

}  // namespace

Result<Draft> read_torchtitan_python(const InputFile& file, const ReadOptions& options) {
  Draft draft;
  draft.path = file.path;
  const Registry registry(file.text);
  const std::vector<std::string> names = registry.names();
  if (names.empty()) return bad_input("no function that returns a Trainer.Config");
  std::string name = options.config;
  if (name.empty() && names.size() == 1) name = names.front();
  if (name.empty() || !registry.has(name)) {
    constexpr std::size_t kNamed = 12;
    std::vector<std::string> shown(names.begin(),
                                   names.begin() + static_cast<std::ptrdiff_t>(std::min(kNamed, names.size())));
    return bad_input(fmt::format("{} configurations are in the file: {}{}", names.size(), join(shown, ", "),
                                 names.size() > kNamed ? ", ..." : ""),
                     name.empty() ? "choose one with --config NAME" : fmt::format("'{}' is none of them", name));
  }
  Node config;
  config.kind = Node::Kind::kObject;
  registry.evaluate(name, 0, config);
  if (at(config, "model", "converters") != nullptr)
    return bad_input(fmt::format("{}: torchtitan's LoRA is not modelled", name));
  // models/llama3/config_registry.py: the folder names the family.
  const std::vector<std::string_view> parts = split(file.path, '/');
  std::string family = parts.size() > 1 ? std::string(parts[parts.size() - 2]) : name.substr(0, name.find('_'));
  PLIMSOLL_TRY(root, as_sections(config, family));
  PLIMSOLL_TRY_STATUS(read_torchtitan_tree(root, draft));
  const Node* loss = at(config, "loss", "_type_");
  if (loss != nullptr && loss->text.find("Chunked") != std::string::npos)
    draft.assign("loss", text_node("chunked"), "loss", true);
  if (const Node* quantized = at(config, "model", "quantized"); quantized != nullptr)
    name_quantised(quantized->text, draft);
  draft.kind = FileKind::kTorchtitanPython;
  draft.notes.push_back(fmt::format("{}: {} of torchtitan's registry", file.path, name));
  return draft;
}

}  // namespace plimsoll::job

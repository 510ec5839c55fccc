// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/adapted.h"

#include <algorithm>

#include <fmt/format.h>

namespace plimsoll::step::transformers {

namespace {

// PEFT's default targets (facts other-frameworks-memory.md 3.1).
bool is_default_target(Aliases names, bool phi) {
  for (const std::string_view name : names)
    if ((phi && (name == "fc1" || name == "fc2")) || name == "q_proj" || name == "v_proj" || name == "c_attn" ||
        name == "query_key_value" || name == "qkv_proj")
      return true;
  return false;
}

struct Paths {
  std::string_view type, layers, attention, mlp;
};

// Where families that are not written like Llama keep their modules.
constexpr Paths kPaths[] = {
    {"gpt2", "transformer.h.", "attn.", "mlp."},
    {"gpt_bigcode", "transformer.h.", "attn.", "mlp."},
    {"gptj", "transformer.h.", "attn.", "mlp."},
    {"falcon", "transformer.h.", "self_attention.", "mlp."},
    {"bloom", "transformer.h.", "self_attention.", "mlp."},
    {"mpt", "transformer.blocks.", "attn.", "ffn."},
    {"gpt_neox", "gpt_neox.layers.", "attention.", "mlp."},
    {"opt", "model.decoder.layers.", "self_attn.", ""},
};

bool ends_a_part(std::string_view key, std::string_view name) {
  return key == name || (key.size() > name.size() && key.ends_with(name) && key[key.size() - name.size() - 1] == '.');
}

}  // namespace

Adapted::Adapted(const job::Job& job) : job_(job), on_(job.adapter.kind != job::AdapterKind::kNone) {
  const bool projects = job.optimizer.projection_rank > 0;
  if (!on_ && !projects) return;
  const job::Adapter& adapter = job.adapter;
  layers_ = job.model.vision != nullptr ? "model.language_model.layers." : "model.layers.";
  attention_ = "self_attn.";
  mlp_ = "mlp.";
  for (const Paths& paths : kPaths)
    if (job.model.model_type == paths.type) {
      layers_ = paths.layers;
      attention_ = paths.attention;
      mlp_ = paths.mlp;
    }
  // What cannot be compiled was refused when the job was read; a name that matches nothing stands for it here.
  const auto compiled = [](const std::string& text) {
    auto pattern = NamePattern::parse(text);
    return pattern ? *std::move(pattern) : *NamePattern::parse("");
  };
  const auto name_of = [&](const std::string& text) {
    const bool is = is_pattern(text);
    return Name{text, compiled(is ? text : ""), is};
  };
  if (projects)
    for (const std::string& name : job.optimizer.projected) projected_.push_back(name_of(name));
  for (const std::string& target : adapter.targets) targets_.push_back(name_of(target));
  for (const std::string& name : adapter.excluded) excluded_.push_back(name_of(name));
  for (const auto& [name, rank] : adapter.ranks) ranks_.emplace_back(compiled("(.*\\.)?(" + name + ")"), rank);
  // A pattern for the decoder inside a model that has a tower, where the decoder alone is counted.
  if (job.model.vision == nullptr)
    for (const std::string& target : adapter.targets)
      for (const std::string_view part : {"language_model.", "text_model."})
        if (is_pattern(target) && target.find(part.substr(0, part.size() - 1)) != std::string::npos)
          wrapper_ = fmt::format("model.{}", part);
  needs_keys_ = !excluded_.empty() || !ranks_.empty() || !adapter.saved_modules.empty() ||
                std::any_of(targets_.begin(), targets_.end(), [](const Name& name) { return name.is_pattern; });
}

std::vector<std::string> Adapted::keys_of(const Module& module) const {
  std::vector<std::string> keys;
  for (const std::string_view name : module.names) {
    if (module.layer < 0) {
      keys.push_back(module.kind == ModuleKind::kHead ? std::string(name) : fmt::format("model.{}", name));
      continue;
    }
    const std::string_view inside = module.in_mlp ? mlp_ : attention_;
    const std::string_view block = module.kind == ModuleKind::kNorm ? std::string_view() : inside;
    keys.push_back(fmt::format("{}{}.{}{}", layers_, module.layer, block, name));
    if (!wrapper_.empty()) keys.push_back(fmt::format("{}layers.{}.{}{}", wrapper_, module.layer, block, name));
  }
  return keys;
}

bool Adapted::is_excluded(const std::vector<std::string>& keys) const {
  return std::any_of(excluded_.begin(), excluded_.end(), [&keys](const Name& name) {
    return std::any_of(keys.begin(), keys.end(), [&name](const std::string& key) {
      return name.is_pattern ? name.pattern.matches(key) : ends_a_part(key, name.text);
    });
  });
}

// A module is saved with all that is in it: PEFT compares the ends of the names of modules, not whole words.
bool Adapted::is_saved(const Module& module) {
  if (!on_ || job_.adapter.saved_modules.empty()) return false;
  matched_.resize(job_.adapter.saved_modules.size(), false);
  bool found = false;
  for (const std::string& key : keys_of(module))
    for (std::size_t i = 0; i < matched_.size(); ++i) {
      const std::string& name = job_.adapter.saved_modules[i];
      for (std::size_t dot = key.find('.');; dot = key.find('.', dot + 1)) {
        if (!name.empty() && std::string_view(key).substr(0, dot).ends_with(name)) found = matched_[i] = true;
        if (dot == std::string::npos) break;
      }
    }
  return found;
}

std::vector<std::string> Adapted::unmatched() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < matched_.size(); ++i)
    if (!matched_[i]) names.push_back(job_.adapter.saved_modules[i]);
  return names;
}

bool Adapted::is_target(const Module& module) const {
  const std::vector<std::int64_t>& layers = job_.adapter.layers;
  const bool in_chosen_layer =
      layers.empty() || (module.layer >= 0 && std::binary_search(layers.begin(), layers.end(), module.layer));
  const bool is_linear = module.kind == ModuleKind::kLinear;
  if (targets_.empty())
    return is_linear && in_chosen_layer && is_default_target(module.names, job_.model.model_type == "phi");
  for (const Name& target : targets_) {
    if (target.is_pattern) {
      for (const std::string& key : keys_of(module))
        if (target.pattern.matches(key)) return true;
      continue;
    }
    if (!in_chosen_layer) continue;
    if (is_linear && target.text == "all-linear") return true;
    for (const std::string_view name : module.names)
      if (target.text == name) return true;
  }
  return false;
}

// A part of the name is enough, and a pattern has to be all of it.
bool Adapted::is_projected(const Module& module) const {
  for (const Name& name : projected_) {
    if (name.text == "all-linear" || name.text == "all_linear") return true;
    for (const std::string& key : keys_of(module))
      if (name.is_pattern ? name.pattern.matches(key) : key.find(name.text) != std::string::npos) return true;
  }
  return false;
}

std::int64_t Adapted::rank_of(const Module& module) {
  if (!on_ || !is_target(module)) return 0;
  if (!needs_keys_) return job_.adapter.rank;
  const std::vector<std::string> keys = keys_of(module);
  if (is_excluded(keys) || is_saved(module)) return 0;
  for (const auto& [pattern, rank] : ranks_)
    for (const std::string& key : keys)
      if (pattern.matches(key)) return rank;
  return job_.adapter.rank;
}

}  // namespace plimsoll::step::transformers

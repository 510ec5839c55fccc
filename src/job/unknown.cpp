// SPDX-License-Identifier: Apache-2.0
#include "job/unknown.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/spelling.h"
#include "base/text.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::job {

namespace {

struct Subject {
  std::string_view word;
  std::string_view name;
};

constexpr std::string_view kParallelism = "parallelism";
constexpr std::string_view kBatch = "the batch";
constexpr std::string_view kSequence = "the sequence length";
constexpr std::string_view kPrecision = "precision";
constexpr std::string_view kAdapters = "adapters";
constexpr std::string_view kRecompute = "recomputation";
constexpr std::string_view kOffload = "offload";
constexpr std::string_view kTrained = "which weights are trained";

// Words of a name, between its underscores, dashes and points.
constexpr Subject kSubjects[] = {
    {"parallel", kParallelism},
    {"parallelism", kParallelism},
    {"tp", kParallelism},
    {"pp", kParallelism},
    {"cp", kParallelism},
    {"ep", kParallelism},
    {"etp", kParallelism},
    {"ulysses", kParallelism},
    {"zero", kParallelism},
    {"fsdp", kParallelism},
    {"shard", kParallelism},
    {"sharding", kParallelism},
    {"batch", kBatch},
    {"batchsize", kBatch},
    {"microbatch", kBatch},
    {"microbatches", kBatch},
    {"bsz", kBatch},
    {"seq", kSequence},
    {"seqlen", kSequence},
    {"sequence", kSequence},
    {"cutoff", kSequence},
    {"bf16", kPrecision},
    {"fp16", kPrecision},
    {"fp32", kPrecision},
    {"fp8", kPrecision},
    {"float8", kPrecision},
    {"mxfp8", kPrecision},
    {"fp4", kPrecision},
    {"nvfp4", kPrecision},
    {"amp", kPrecision},
    {"dtype", kPrecision},
    {"precision", kPrecision},
    {"quant", kPrecision},
    {"quantize", kPrecision},
    {"quantization", kPrecision},
    {"4bit", kPrecision},
    {"8bit", kPrecision},
    {"lora", kAdapters},
    {"qlora", kAdapters},
    {"dora", kAdapters},
    {"peft", kAdapters},
    {"adapter", kAdapters},
    {"adapters", kAdapters},
    {"recompute", kRecompute},
    {"recomputation", kRecompute},
    {"remat", kRecompute},
    {"checkpointing", kRecompute},
    {"offload", kOffload},
    {"offloading", kOffload},
    {"freeze", kTrained},
    {"frozen", kTrained},
    {"unfreeze", kTrained},
    {"unfrozen", kTrained},
};

// Words that say that a name is about something else: evaluation, data, files, logs.
constexpr std::string_view kElsewhere[] = {
    "eval",     "evaluation", "val",      "valid",    "validation", "test",      "predict", "prediction",  "inference",
    "infer",    "generation", "gen",      "rollout",  "vllm",       "sglang",    "log",     "logging",     "logger",
    "save",     "loader",     "dataset",  "datasets", "dataloader", "tokenizer", "wandb",   "metric",      "metrics",
    "comet",    "profile",    "profiler", "comment",  "path",       "dir",       "file",    "name",        "url",
    "seed",     "timeout",    "hub",      "cache",    "prompt",     "reward",    "shuffle", "prefetch",    "workers",
    "tags",     "template",   "lr",       "learning", "warmup",     "decay",     "clip",    "tensorboard", "init",
    "memmap",   "drop",       "tasks",    "map",      "tokens",     "scale",     "growth",  "margin",      "amax",
    "interval", "paths",      "prefix",   "regex",    "atol",       "rtol",      "pattern"};

bool is_elsewhere(std::string_view word) {
  return std::find(std::begin(kElsewhere), std::end(kElsewhere), word) != std::end(kElsewhere);
}

std::vector<std::string> words_of(std::string_view key) {
  std::vector<std::string> words(1);
  for (const char c : lower(key)) {
    if (c == '_' || c == '-' || c == '.') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

// A size of 1 splits nothing.
bool changes_nothing(const document::Node& value, std::string_view subject) {
  if (is_off(value)) return true;
  const std::string text = document::to_text(value);
  if (text.empty() || equals_ignoring_case(text, "null")) return true;
  if (subject == kAdapters && text == "-1") return true;  // as many as there are
  return subject == kParallelism && text == "1";
}

// "batch_method: sort": how samples are put together is no size.
bool is_manner(std::string_view key, const document::Node& value, std::string_view subject) {
  if (subject != kBatch || !value.is_string() || value.text.find_first_of("0123456789$") != std::string::npos)
    return false;
  const std::string last = words_of(key).back();
  for (const std::string_view manner : {"method", "strategy", "mode", "type", "sampler", "order"})
    if (last == manner) return true;
  return false;
}

// Names of which another spelling is likely a mistake: those that set something.
const std::vector<std::string>& names_with_effect(Framework framework) {
  static const auto tables = [] {
    std::array<std::vector<std::string>, kFrameworkCount> all;
    for (const Framework one : all_frameworks()) {
      std::vector<std::string>& names = all[static_cast<std::size_t>(one)];
      names = key_names();
      for (const Alias& alias : alias_table(one))
        if (alias.kind != AliasKind::kNoEffect && alias.name.back() != '*') names.emplace_back(alias.name);
    }
    return all;
  }();
  return tables[static_cast<std::size_t>(framework)];
}

// One letter in a short name, two in a longer one.
std::string near_miss(std::string_view key, const Draft& draft) {
  constexpr std::size_t kShort = 5;
  constexpr std::size_t kLong = 9;
  if (key.size() < kShort || key.size() > 80) return {};
  const std::size_t allowed = key.size() < kLong ? 1 : 2;
  const auto close = [&](std::string_view known) {
    const std::size_t longer = std::max(known.size(), key.size());
    const std::size_t shorter = std::min(known.size(), key.size());
    return longer - shorter <= allowed && edit_distance(key, known) <= allowed;
  };
  const bool is_path = key.find('.') != std::string_view::npos;  // no spelling of a name without one
  for (const std::string& known : names_with_effect(draft.vocabulary))
    if ((!is_path || known.find('.') != std::string::npos) && close(known)) return known;
  for (const Alias& alias : draft.names)
    if (alias.kind != AliasKind::kNoEffect && close(alias.name)) return std::string(alias.name);
  return {};
}

// "lora_alph": a letter away from a name that has no effect.
bool is_near_name_without_effect(std::string_view key, const Draft& draft) {
  constexpr std::size_t kLong = 9;
  if (key.size() < kLong || key.size() > 80) return false;
  for (const Alias& alias : alias_table(draft.vocabulary))
    if (alias.kind == AliasKind::kNoEffect && alias.name.back() != '*' && edit_distance(key, alias.name) <= 1)
      return true;
  return false;
}

// What is frozen beside the language model (a tower for images, its projector), or is too small to matter (a router),
// does not change what is counted.
bool is_of_another_part(std::string_view subject, std::string_view key) {
  if (subject != kTrained) return false;
  const std::vector<std::string> words = words_of(key);
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    for (const std::string_view other : {"router", "vision", "visual", "vit", "aligner", "projector", "projection",
                                         "tower", "modal", "image", "audio", "sound", "mm"})
      if (word == other) return true;
    return false;
  });
}

std::string named(std::string_view key) { return shown(text_node(std::string(key))); }

}  // namespace

std::string_view subject_of(std::string_view key) {
  // "fp8.enabled" speaks of fp8: a switch is about the table around it.
  for (const std::string_view wrapper : {".enabled", ".enable", ".name", ".type", ".mode"})
    if (key.ends_with(wrapper)) return subject_of(key.substr(0, key.size() - wrapper.size()));
  const std::string_view last = key.substr(key.rfind('.') == std::string_view::npos ? 0 : key.rfind('.') + 1);
  for (const std::string& word : words_of(last))
    if (is_elsewhere(word)) return {};
  for (const std::string_view outer : {"eval", "val", "validation", "generation", "inference", "logger", "wandb"})
    if (key.substr(0, outer.size()) == outer && key.size() > outer.size() && key[outer.size()] == '.') return {};
  const std::string spelled = lower(last);
  // "checkpointing_steps" is about files that are written.
  if (spelled.find("checkpointing_steps") != std::string::npos ||
      spelled.find("checkpointing_interval") != std::string::npos)
    return {};
  if (spelled == "target_modules" || spelled == "modules_to_save") return kAdapters;
  for (const std::string_view whole : {"max_length", "max_len", "block_size", "context_length", "max_tokens"})
    if (spelled == whole) return kSequence;
  const std::vector<std::string> words = words_of(last);
  // "in_batch_term_weight": how much a term of the loss counts.
  for (const std::string_view factor : {"weight", "coef", "coeff"})
    if (words.size() > 1 && words.back() == factor) return {};
  // "zero_emb", "zero_init": values, not DeepSpeed's.
  const bool starts_at_zero = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word == "query" || word == "emb" || word == "embedding" || word == "centered" || word == "loss" ||
           word == "advantage" || word == "shot" || word == "mean" || word == "grad" || word == "pad";
  });
  for (const std::string& word : words)
    for (const Subject& subject : kSubjects)
      if (word == subject.word && !(word == "zero" && starts_at_zero))
        return is_of_another_part(subject.name, last) ? std::string_view{} : subject.name;
  return {};
}

void UnknownKeys::add(const Draft& draft, const Assignment& given) {
  Name name{given.key, draft.path, given.where, near_miss(given.key, draft), subject_of(given.key), false};
  if (!name.near.empty()) name.subject = {};  // a mistake, whatever it is about
  const bool is_ours = draft.kind == FileKind::kJob;
  const bool is_near_nothing = name.near.empty() && is_near_name_without_effect(given.key, draft);
  name.matters = is_ours || !name.near.empty() ||
                 (!name.subject.empty() && !changes_nothing(given.value, name.subject) &&
                  !is_manner(given.key, given.value, name.subject) && !is_near_nothing);
  if (name.matters && name.near.empty())
    if (const std::string hint = unknown_key(given.key, draft.vocabulary).hint; !hint.empty())
      name.near = hint.substr(hint.find('\'') + 1, hint.rfind('\'') - hint.find('\'') - 1);
  names_.push_back(std::move(name));
}

Status UnknownKeys::finish(bool strict, std::vector<std::string>& notes) const {
  constexpr std::size_t kNamed = 8;
  std::vector<const Name*> refused;
  for (const Name& name : names_)
    if (strict || name.matters) refused.push_back(&name);
  if (refused.size() == 1) {
    const Name& name = *refused.front();
    std::string why = name.subject.empty() ? "" : fmt::format(", which speaks of {}", name.subject);
    std::string hint = name.near.empty() ? "" : fmt::format("did you mean '{}'?", name.near);
    if (hint.empty() && !name.subject.empty())
      hint = "give its meaning with a flag (plimsoll keys lists them) and take it out of the file";
    return tl::make_unexpected(
        Error{Code::kBadInput, fmt::format("unknown key {}{}", named(name.key), why), {name.where}, std::move(hint)});
  }
  if (!refused.empty()) {
    std::string list;
    for (std::size_t i = 0; i < refused.size() && i < kNamed; ++i) {
      const Name& name = *refused[i];
      list += fmt::format("{}{}{}", i == 0 ? "" : ", ", named(name.key),
                          name.near.empty() ? "" : fmt::format(" (did you mean '{}'?)", name.near));
    }
    if (refused.size() > kNamed) list += fmt::format(" and {} more", refused.size() - kNamed);
    return tl::make_unexpected(Error{Code::kBadInput,
                                     fmt::format("{} keys are not known: {}", refused.size(), list),
                                     {refused.front()->path},
                                     strict ? "--strict refuses every unknown key"
                                            : "their names speak of what decides memory, so they are not passed over; "
                                              "give their meaning with flags and take them out of the file"});
  }
  for (std::size_t start = 0; start < names_.size();) {
    std::size_t end = start;
    std::string list;
    std::size_t count = 0;
    for (; end < names_.size() && names_[end].path == names_[start].path; ++end, ++count)
      if (count < kNamed) list += (count == 0 ? "" : ", ") + std::string(shown(text_node(names_[end].key)));
    if (count > kNamed) list += fmt::format(" and {} more", count - kNamed);
    notes.push_back(fmt::format("{}: {} not known and not counted: {}", names_[start].path,
                                count == 1 ? "one key is" : fmt::format("{} keys are", count), list));
    start = end;
  }
  return {};
}

}  // namespace plimsoll::job

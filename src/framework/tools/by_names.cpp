// SPDX-License-Identifier: Apache-2.0
#include "framework/tools/by_names.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "framework/jax/jax.h"
#include "framework/tools/by_names_sayings.h"
#include "framework/tools/sections.h"
#include "framework/transformers/include.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/value.h"
#include "model/catalog.h"
#include "model/hf_config.h"

namespace plimsoll::job {

using document::Node;

namespace {

// The first name that the catalogue knows, else the first that looks like one of the Hub or of a folder.
void read_model(Sayings& sayings) {
  const Said* chosen = nullptr;
  for (const Said* said : sayings.all("model")) {
    if (!said->value.is_string() || said->value.text.empty() || said->value.text.find("://") != std::string::npos)
      continue;
    // The model that is learnt from is not the one that is trained.
    const std::vector<std::string_view> parts = split(said->path, '.');
    if (std::any_of(parts.begin(), parts.end(), [](std::string_view part) { return part.starts_with("teacher"); }))
      continue;
    const std::string& name = said->value.text;
    if (model::find_model(name.substr(name.rfind('/') + 1)) || model::find_model(name)) {
      chosen = said;
      break;
    }
    // Without a folder it may be a word for a class of models, unless the key speaks of its weights.
    const bool is_of_weights = contains_any(said->path.substr(said->path.rfind('.') + 1), {"pretrained", "or_path"});
    if (chosen == nullptr && (name.find('/') != std::string::npos || is_of_weights)) chosen = said;
  }
  if (chosen == nullptr) return;
  Node name = chosen->value;
  if (name.text.ends_with(".json"))
    if (const auto found = locate(name.text, parent_folder(sayings.draft().path)))
      name.text = std::filesystem::absolute(*found).string();
  sayings.put("model_name_or_path", std::move(name), chosen->path);
}

// Contrastive training with a cache of gradients (GradCache): of a batch that is compared as a whole, a chunk at a time
// is alive with what its backward pass needs.
bool read_cached_batch(Sayings& sayings) {
  const Said* whole = sayings.find("batch");
  if (whole == nullptr || !sayings.says_on("grad_cache")) return false;
  const Said* chunk = sayings.find("chunk_of_cache");
  if (chunk == nullptr || !to_integer(chunk->value, Range{1, 1 << 24})) return false;
  sayings.put("per_device_train_batch_size", chunk->value, chunk->path);
  sayings.put("global_batch_size", whole->value, whole->path);
  sayings.assume(fmt::format("{}: gradients are cached; {} sequences at a time are counted", whole->path,
                             document::to_text(chunk->value)));
  sayings.pass("gradient_accumulation_steps");
  return true;
}

bool is_at_least(const Node& value, std::int64_t least) {
  return value.is_number() && value.as_real() >= static_cast<double>(least);
}

void read_batch(Sayings& sayings) {
  if (read_cached_batch(sayings)) return;
  const std::optional<std::int64_t> micro = sayings.number("per_device_train_batch_size");
  const std::optional<std::int64_t> global = sayings.number("global_batch_size");
  const Said* plain = sayings.find("batch");
  const Said* written = sayings.find("per_device_train_batch_size");
  constexpr std::string_view kMicro = "per_device_train_batch_size";
  if (micro) {
    // Composer's is the most that a pass may take: a GPU's part of the batch may be less.
    const std::int64_t ranks = sayings.number("devices").value_or(1) * sayings.number("nodes").value_or(1);
    const bool is_most = written->path.ends_with("device_train_microbatch_size") && global && *global >= ranks;
    sayings.put(kMicro, integer_node(is_most ? std::min(*micro, *global / ranks) : *micro), written->path);
  } else if (plain != nullptr && !global) {
    sayings.put(kMicro, plain->value, plain->path);
    sayings.assume(
        fmt::format("{} is taken as the sequences of one GPU and micro-batch (--micro-batch-size)", plain->path));
  } else if (plain != nullptr && !is_at_least(plain->value, *global)) {
    sayings.put(kMicro, plain->value, plain->path);  // what one GPU's loader gives, beside the whole
  } else {
    sayings.put(kMicro, integer_node(1), {});
    sayings.assume("no size of a micro-batch is given; one sequence is assumed (--micro-batch-size)");
  }
  // "effective_batch_size" beside both of its factors says no more than they do.
  const Said* whole = global ? sayings.find("global_batch_size") : nullptr;
  const bool is_product = whole == nullptr || contains_any(lower(whole->path), {"effective", "total"});
  const Said* accumulates = micro && is_product ? sayings.find("gradient_accumulation_steps") : nullptr;
  if (global && (accumulates == nullptr || !to_integer(accumulates->value, Range{1, 1 << 20}))) {
    sayings.put("global_batch_size", integer_node(*global), sayings.find("global_batch_size")->path);
  } else if (micro && plain != nullptr && accumulates == nullptr) {
    sayings.put("global_batch_size", plain->value, plain->path);
  } else if (const Said* steps = sayings.find("gradient_accumulation_steps");
             steps != nullptr && to_integer(steps->value, Range{1, 1 << 20})) {
    sayings.put("gradient_accumulation_steps", steps->value, steps->path);
  }
  sayings.pass("gradient_accumulation_steps");
}

// "bf16-true" keeps weights in 16 bits, "bf16-mixed", "amp_bf16" and "bf16" cast fp32 weights.
void read_precision(Sayings& sayings) {
  bool known = false;
  const Said* pure = sayings.find("pure_bf16");
  const bool is_pure = pure != nullptr && !is_off(pure->value);
  if (is_pure) {
    sayings.put("load_dtype", text_node("bf16"), pure->path);
    sayings.pass("precision");
    known = true;
  }
  for (const Said* said : sayings.all("precision")) {
    const std::string word = lower(document::to_text(said->value));
    if (contains_any(word, {"fp8", "float8", "fp4", "int8"})) {
      sayings.leave(*said);
      continue;
    }
    if (known || !contains_any(word, {"16", "32", "no", "full"})) continue;
    known = true;
    const bool is_bf16 = contains_any(word, {"bf16", "bfloat16"});
    const bool is_half = !is_bf16 && contains_any(word, {"16"});
    if (!is_bf16 && !is_half) sayings.put("load_dtype", text_node("fp32"), said->path);
    if (contains_any(word, {"true", "pure"}) && (is_bf16 || is_half)) {
      sayings.put("load_dtype", text_node(is_bf16 ? "bf16" : "fp16"), said->path);
    } else if (is_bf16 || is_half) {
      sayings.put(is_bf16 ? "bf16" : "fp16", bool_node(true), said->path);
      if (contains_any(word, {"mixed", "amp"})) sayings.put("load_dtype", text_node("fp32"), said->path);
    }
  }
  for (const char* key : {"bf16", "fp16"})
    if (const Said* said = sayings.find(key); said != nullptr && !known) {
      sayings.put(key, said->value, said->path);
      known = true;
    }
  if (const Said* said = sayings.find("weights_dtype");
      said != nullptr && said->value.is_string() && !known && !names_four_bits(lower(said->value.text))) {
    sayings.put("load_dtype", said->value, said->path);
    known = true;
  }
  if (known) return;
  sayings.put("bf16", bool_node(true), {});
  // The base of an adapter is not trained, so nobody keeps it in fp32.
  const bool adapts = sayings.find("lora_r") != nullptr;
  sayings.put("load_dtype", text_node(adapts ? "bf16" : "fp32"), {});
  sayings.assume(fmt::format("no precision is given; bf16 over weights in {} is assumed (--load-dtype, --bf16)",
                             adapts ? "bf16" : "fp32"));
}

void read_recompute(Sayings& sayings) {
  if (const Said* said = sayings.find("gradient_checkpointing"); said != nullptr) {
    const std::string word = lower(document::to_text(said->value));
    const bool on = !is_off(said->value) && word != "none" && word != "no";
    const bool is_plain = said->value.is_bool() || word == "full" || word == "whole_layer" || word == "true";
    if (on && !is_plain)
      sayings.draft().warnings.push_back(fmt::format("{}: {}: every layer is counted as recomputed", said->path, word));
    sayings.put("gradient_checkpointing", bool_node(on), said->path);
  } else if (const Said* some = sayings.find("selective"); some != nullptr) {
    if (!is_off(some->value)) sayings.draft().warnings.push_back(some->path + ": every layer is counted as recomputed");
    sayings.put("gradient_checkpointing", bool_node(!is_off(some->value)), some->path);
  } else if (const Said* moved = sayings.find("activation_offloading");
             moved != nullptr && !is_off(moved->value) && contains_any(moved->path, {"checkpoint"})) {
    sayings.put("gradient_checkpointing", bool_node(true), moved->path);  // whose inputs are moved
  } else {
    sayings.assume("nothing says whether layers are recomputed; none is counted so (--gradient-checkpointing)");
  }
  sayings.pass("selective");
  sayings.pass("switch");
}

// Trainer's name of the optimizer; one that is not known stands as it is and is refused by name.
std::string optimizer_of(std::string_view written) {
  std::string name = lower(written.substr(written.rfind('.') + 1));
  const bool is_paged = contains_any(name, {"paged"});
  if (contains_any(name, {"8bit"}) && contains_any(name, {"adam"})) return is_paged ? "paged_adamw_8bit" : "adamw_8bit";
  if (contains_any(name, {"adafactor"})) return "adafactor";
  if (contains_any(name, {"adam"}) && !contains_any(name, {"mini", "lomo", "galore", "4bit"}))
    return is_paged ? "paged_adamw_32bit" : contains_any(name, {"fused"}) ? "adamw_torch_fused" : "adamw_torch";
  if (contains_any(name, {"lion"}) && !contains_any(name, {"8bit"})) return "lion_32bit";
  return name;
}

void read_optimizer(Sayings& sayings) {
  for (const Said* said : sayings.all("optim"))
    if (said->value.is_string() && !said->value.text.empty()) {
      sayings.put("optim", text_node(optimizer_of(said->value.text)), said->path);
      return;
    }
}

// Sizes that a table of overrides lays over the model that is named.
void read_changed_sizes(Sayings& sayings) {
  constexpr std::pair<std::string_view, std::string_view> kSizes[] = {
      {"num_hidden_layers", "num_layers"},         {"hidden_size", "hidden_size"},
      {"intermediate_size", "ffn_hidden_size"},    {"num_attention_heads", "num_attention_heads"},
      {"num_key_value_heads", "num_query_groups"}, {"vocab_size", "vocab_size"}};
  // Some sizes beside a name change the model of that name; all of them spell out one.
  const bool has_width = std::any_of(sayings.said().begin(), sayings.said().end(), [](const Said& said) {
    return said.path == "model.hidden_size" || said.path == "model.d_model" || said.path == "model.dim";
  });
  const bool is_named = !has_width && !sayings.all("model").empty();
  for (Said& said : sayings.said()) {
    const std::vector<std::string_view> parts = split(said.path, '.');
    const std::string_view table = parts.size() < 2 ? std::string_view{} : parts[parts.size() - 2];
    if (table != "config_kwargs" && table != "config_overrides" && table != "hf_config_overrides" &&
        table != "model_config" && table != "overwrite" && !(table == "model" && is_named))
      continue;
    for (const auto& [name, key] : kSizes)
      if (parts.back() == name) {
        said.done = true;
        sayings.put(key, said.value, said.path);
      }
  }
}

// "gpus: ['0', '1']", "gpus: 0,1": the devices by their numbers.
void count_listed_devices(Sayings& sayings) {
  for (Said& said : sayings.said()) {
    if (meaning_of(said.path) != "devices") continue;
    if (said.value.is_array()) {
      said.value = integer_node(static_cast<std::int64_t>(said.value.items.size()));
    } else if (said.value.is_string() && said.value.text.find(',') != std::string::npos) {
      said.value = integer_node(static_cast<std::int64_t>(split(said.value.text, ',').size()));
    }
  }
}

// Words that the Trainer has too, in a table around them ("model.trust_remote_code", "dpo.beta"), mean what they mean
// there.
void take_words_of_trainer(Sayings& sayings) {
  for (Said& said : sayings.said()) {
    const std::size_t dot = said.path.rfind('.');
    if (said.done || dot == std::string::npos || !meaning_of(said.path).empty()) continue;
    const std::string last = said.path.substr(dot + 1);
    const Alias* alias = find_alias(Framework::kTransformers, last);
    if (alias == nullptr || is_size_of_model(said.path)) continue;
    // A word alone may mean anything elsewhere ("bias", "r").
    const bool is_word = last.find('_') == std::string::npos && last != "beta" && last != "packing";
    if (alias->kind != AliasKind::kNoEffect && is_word) continue;
    said.done = true;
    if (alias->kind != AliasKind::kNoEffect) sayings.put(last, said.value, said.path);
  }
}

// "model_parallel: true" beside "model_parallel_size: 4": the switch of a split whose size is said.
void pass_over_switches_of_splits(Sayings& sayings) {
  if (sayings.find("tp_size") == nullptr) return;
  for (Said& said : sayings.said())
    if (said.path.ends_with("model_parallel") && said.value.is_bool()) said.done = true;
}

// "pp_engine: 1f1b" beside "pp_size: 1": how a split runs that is none.
void pass_over_splits_of_one(Sayings& sayings) {
  constexpr std::pair<std::string_view, std::string_view> kSplits[] = {{"tp_", "tp_size"},
                                                                       {"pp_", "pipeline_model_parallel_size"},
                                                                       {"cp_", "cp_size"},
                                                                       {"ep_", "expert_model_parallel_size"}};
  for (const auto& [start, meaning] : kSplits) {
    const Said* size = sayings.find(meaning);
    if (size == nullptr || document::to_text(size->value) != "1") continue;
    for (Said& said : sayings.said())
      if (std::string_view(said.path).substr(said.path.rfind('.') + 1).starts_with(start)) said.done = true;
  }
}

// "model: {type: liger}", "kernel: liger": kernels by the name of their library.
void read_kernels(Sayings& sayings) {
  for (const Said& said : sayings.said())
    if (said.value.is_string() && lower(said.value.text) == "liger" && !sayings.has_put("use_liger_kernel"))
      sayings.put("use_liger_kernel", bool_node(true), said.path);
}

void read_rest(Sayings& sayings) {
  pass_over_splits_of_one(sayings);
  pass_over_switches_of_splits(sayings);
  for (const std::string_view same :
       {"max_length", "tp_size", "cp_size", "pipeline_model_parallel_size", "expert_model_parallel_size",
        "use_liger_kernel", "torch_compile", "packing", "gpus", "freeze_vision_tower", "freeze_multi_modal_projector",
        "freeze_language_model", "vision_tower", "mm_projector_type", "trainable_layers", "activation_offloading"})
    if (const Said* said = sayings.find(same); said != nullptr)
      sayings.put(same == "packing" ? "packed_sequences" : same, said->value, said->path);
  read_kernels(sayings);
  if (sayings.find("trainable_layers") != nullptr)
    for (Said& said : sayings.said())
      if (said.path.ends_with("freeze_trainable_modules") && lower(document::to_text(said.value)) == "all")
        said.done = true;
  if (const Said* tower = sayings.find("vision_tower");
      tower != nullptr && sayings.find("freeze_vision_tower") == nullptr) {
    sayings.put("freeze_vision_tower", bool_node(true), {});
    sayings.assume(
        fmt::format("{}: nothing says that the tower is trained; it is counted as frozen "
                    "(--freeze-vision-tower)",
                    tower->path));
  }
  if (const Said* attention = sayings.find("attn_implementation");
      attention != nullptr && attention->value.is_string()) {
    const std::string word = lower(attention->value.text);
    const bool plain = word == "torch" || word == "eager";
    sayings.put("attn_implementation",
                text_node(contains_any(word, {"flash"}) ? "flash_attention_2"
                          : plain                       ? "eager"
                                                        : "sdpa"),
                attention->path);
  }
  if (sayings.find("max_length") == nullptr)
    if (const Said* cut = sayings.find("cut_length"); cut != nullptr) sayings.put("max_length", cut->value, cut->path);
  sayings.pass("cut_length");
  count_listed_devices(sayings);
  const std::optional<std::int64_t> devices = sayings.number("devices");
  const std::int64_t nodes = sayings.number("nodes").value_or(1);
  if (devices && *devices < (1 << 12) && nodes < (1 << 12))
    sayings.put("gpus", integer_node(*devices * nodes), sayings.find("devices")->path);
  // Copies times the GPUs of one.
  if (const auto copies = sayings.number("copies"); copies && !devices && sayings.find("gpus") == nullptr) {
    std::int64_t gpus = std::min<std::int64_t>(*copies, 1 << 12);
    for (const std::string_view split : {"tp_size", "cp_size", "pipeline_model_parallel_size"})
      gpus *= std::min<std::int64_t>(sayings.number(split).value_or(1), 1 << 8);
    sayings.put("gpus", integer_node(gpus), sayings.find("copies")->path);
  }
  for (const char* meaning : {"derived", "rate", "duration", "elsewhere"}) sayings.pass(meaning);
}

// "dp_replicate: 16, dp_shard: 4": copies of what is split, and with both of them the number of GPUs.
void read_replicas(Sayings& sayings) {
  const std::optional<std::int64_t> shards = sayings.number("dp_shard");
  const Said* copies = sayings.find("dp_replicate");
  const std::optional<std::int64_t> count = sayings.number("dp_replicate");
  if (copies != nullptr && (sayings.has_put("fsdp") || !count)) {
    sayings.put("dp_replicate", copies->value, copies->path);
  }
  if (!shards || !count || sayings.has_put("gpus") || *shards > (1 << 12) || *count > (1 << 12)) return;
  std::int64_t gpus = *shards * *count;
  for (const std::string_view split : {"tp_size", "cp_size", "pipeline_model_parallel_size"})
    gpus *= std::min<std::int64_t>(sayings.number(split).value_or(1), 1 << 8);
  if (gpus > 1) sayings.put("gpus", integer_node(gpus), copies->path);
}

// A DeepSpeed configuration in the table has words of its own; it goes on as it is.
std::optional<Node> take_engine(Node& root) {
  std::optional<Node> engine;
  for (const std::string_view name : {"deepspeed", "deepspeed_config", "ds_config"})
    if (const Node* found = root.find(name); is_table(found) && !engine) engine = *found;
  std::erase_if(root.members, [](const auto& member) {
    return member.second.is_object() && meaning_of(member.first) == "deepspeed";
  });
  return engine;
}

// A DeepSpeed configuration that is named and is here; it decides the precision where it speaks of one.
std::optional<Node> engine_in_file(Sayings& sayings) {
  for (const Said* named : sayings.all("deepspeed")) {
    if (!named->value.is_string()) continue;
    const auto found = locate(named->value.text, parent_folder(sayings.draft().path));
    const auto text = found ? read_named_file(*found) : Result<std::string>(bad_input("none"));
    auto root = text ? parse_json_or_yaml(*text) : Result<Node>(bad_input("none"));
    if (root && root->is_object()) return *std::move(root);
  }
  return std::nullopt;
}

void put_precision_of(const Node& engine, Sayings& sayings) {
  for (const char* type : {"fp16", "bf16"}) {
    const Node* table = engine.find(type);
    const Node* on = is_table(table) ? table->find("enabled") : nullptr;
    if (on != nullptr && on->is_bool() && on->boolean) sayings.put(type, bool_node(true), {});
  }
}

void put_engine(const Node& engine, Sayings& sayings) {
  sayings.put("deepspeed", engine, "deepspeed");
  for (const char* meaning : {"fsdp", "zero_stage"}) sayings.pass(meaning);
}

// A program with a loop of its own writes what it is told into the configuration that it hands to DeepSpeed.
constexpr std::string_view kBatchOfEngine[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                               "gradient_accumulation_steps"};
bool has_own_batch(const Node& engine) {
  return std::any_of(std::begin(kBatchOfEngine), std::end(kBatchOfEngine), [&engine](std::string_view key) {
    const Node* value = engine.find(key);
    return value != nullptr && value->is_integer();
  });
}
Node without_batch(Node engine) {
  std::erase_if(engine.members, [](const auto& member) {
    return std::find(std::begin(kBatchOfEngine), std::end(kBatchOfEngine), member.first) != std::end(kBatchOfEngine);
  });
  return engine;
}

bool says_precision(const Node& engine) {
  for (const char* type : {"fp16", "bf16"})
    if (const Node* table = engine.find(type); is_table(table))
      if (const Node* on = table->find("enabled"); on != nullptr && on->is_bool()) return true;
  return false;
}

}  // namespace

Result<Node> from_names(const Node& whole, Draft& draft) {
  Node root = whole;
  const std::optional<Node> engine = take_engine(root);
  Sayings sayings(root, draft);
  PLIMSOLL_TRY_STATUS(refuse_other_loops(sayings));
  read_model(sayings);
  read_batch(sayings);
  const std::optional<Node> file = engine ? engine : engine_in_file(sayings);
  if (file && says_precision(*file)) {
    put_precision_of(*file, sayings);
    for (const char* meaning : {"precision", "bf16", "fp16"}) sayings.pass(meaning);
  } else {
    read_precision(sayings);
  }
  read_recompute(sayings);
  read_optimizer(sayings);
  if (engine) {
    put_engine(*engine, sayings);
  } else if (file && has_own_batch(*file) && sayings.has_put("per_device_train_batch_size")) {
    put_engine(without_batch(*file), sayings);
    sayings.assume("the batch in DeepSpeed's file gives way to what the program is told");
  } else {
    read_sharding(sayings);
  }
  read_adapter(sayings);
  read_changed_sizes(sayings);
  PLIMSOLL_TRY_STATUS(read_preference(sayings));
  read_rest(sayings);
  read_replicas(sayings);
  take_words_of_trainer(sayings);
  PLIMSOLL_TRY_STATUS(refuse_adapters_by_type(sayings));
  return sayings.finish();
}

}  // namespace plimsoll::job

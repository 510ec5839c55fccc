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

void read_batch(Sayings& sayings) {
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
  } else {
    sayings.put(kMicro, integer_node(1), {});
    sayings.assume("no size of a micro-batch is given; one sequence is assumed (--micro-batch-size)");
  }
  if (global) {
    sayings.put("global_batch_size", integer_node(*global), sayings.find("global_batch_size")->path);
  } else if (micro && plain != nullptr) {
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
  if (const Said* said = sayings.find("weights_dtype"); said != nullptr && said->value.is_string() && !known) {
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

// Which linears have an adapter, one switch each.
Node targets_by_switch(Sayings& sayings) {
  constexpr std::pair<std::string_view, std::string_view> kSwitches[] = {
      {"lora_query", "q_proj"},  {"lora_key", "k_proj"},  {"lora_value", "v_proj"},  {"lora_projection", "o_proj"},
      {"lora_mlp", "gate_proj"}, {"lora_mlp", "up_proj"}, {"lora_mlp", "down_proj"}, {"lora_head", "lm_head"}};
  Node targets;
  targets.kind = Node::Kind::kArray;
  for (Said& said : sayings.said())
    for (const auto& [name, linear] : kSwitches) {
      if (said.path != name) continue;
      said.done = true;
      if (!is_off(said.value)) targets.items.push_back(text_node(std::string(linear)));
    }
  return targets;
}

// "all", "all-linear", "*_proj": every linear of the layers.
bool takes_all_linears(const Node& targets) {
  const Node& first = targets.is_array() && targets.items.size() == 1 ? targets.items.front() : targets;
  if (!first.is_string()) return false;
  const std::string word = lower(first.text);
  return word == "all" || word == "all-linear" || word == "*_proj" || word == "*proj";
}

void read_adapter(Sayings& sayings) {
  Node targets = targets_by_switch(sayings);
  const Said* asked = sayings.find("use_lora");
  const Said* rank = sayings.find("lora_r");
  const Said* listed = sayings.find("lora_target_modules");
  const Said* dropout = sayings.find("lora_dropout");
  const Said* quantize = sayings.find("quantize");
  for (Said& said : sayings.said())
    if (said.path.ends_with("lora_alpha")) said.done = true;
  const bool is_switch = asked != nullptr && (asked->value.is_bool() || is_off(asked->value));
  const bool on = is_switch ? !is_off(asked->value) : rank != nullptr && !is_off(rank->value);
  if (asked != nullptr && asked->value.is_string() &&
      contains_any(lower(asked->value.text), {"freeze", "ia3", "prompt"}))
    sayings.leave(*asked);  // another way to train a part of the model
  const std::string bits = quantize == nullptr ? "" : lower(document::to_text(quantize->value));
  const bool four = contains_any(bits, {"nf4", "fp4", "4bit", "true"}) || bits == "4";
  const bool is_whole = bits == "16" || bits == "32";  // of a number of bits: not quantised
  if (!on) {
    if (quantize != nullptr && !is_off(quantize->value) && !is_whole) sayings.leave(*quantize);
    return;
  }
  sayings.put("use_peft", bool_node(true), rank == nullptr ? "" : rank->path);
  if (rank != nullptr) sayings.put("lora_r", rank->value, rank->path);
  if (dropout != nullptr) sayings.put("lora_dropout", dropout->value, dropout->path);
  const bool takes_all = listed != nullptr && (takes_all_linears(listed->value) || is_off(listed->value));
  if (listed != nullptr && !takes_all) {
    sayings.put("lora_target_modules", listed->value, listed->path);
  } else {
    sayings.put("lora_target_modules", targets.items.empty() ? text_node("all-linear") : std::move(targets), {});
  }
  if (four) {
    sayings.put("load_in_4bit", bool_node(true), quantize->path);
    sayings.put("bnb_4bit_use_double_quant", bool_node(contains_any(bits, {"dq", "double"})), quantize->path);
  } else if (quantize != nullptr && !is_off(quantize->value) && !is_whole) {
    sayings.leave(*quantize);
  }
}

// Sizes that a table of overrides lays over the model that is named.
void read_changed_sizes(Sayings& sayings) {
  constexpr std::pair<std::string_view, std::string_view> kSizes[] = {
      {"num_hidden_layers", "num_layers"},         {"hidden_size", "hidden_size"},
      {"intermediate_size", "ffn_hidden_size"},    {"num_attention_heads", "num_attention_heads"},
      {"num_key_value_heads", "num_query_groups"}, {"vocab_size", "vocab_size"}};
  for (Said& said : sayings.said()) {
    const std::vector<std::string_view> parts = split(said.path, '.');
    const std::string_view table = parts.size() < 2 ? std::string_view{} : parts[parts.size() - 2];
    if (table != "config_kwargs" && table != "config_overrides" && table != "hf_config_overrides" &&
        table != "model_config")
      continue;
    for (const auto& [name, key] : kSizes)
      if (parts.back() == name) {
        said.done = true;
        sayings.put(key, said.value, said.path);
      }
  }
}

// "llama_type: llama_peft": what a kind of model says of adapters is not in its sizes.
Status refuse_adapters_by_type(Sayings& sayings) {
  const bool reads_adapter = sayings.find("lora_r") != nullptr || sayings.find("use_lora") != nullptr;
  for (Said& said : sayings.said()) {
    const std::string_view last = std::string_view(said.path).substr(said.path.rfind('.') + 1);
    if (last == "num_labels") {
      said.done = true;
      sayings.draft().warnings.push_back(said.path + ": the head of a classifier is counted as the language model's");
    }
    if (reads_adapter && last == "peft_type" && lower(document::to_text(said.value)) == "lora") said.done = true;
    if (said.done || reads_adapter || !last.ends_with("_type") || !said.value.is_string()) continue;
    if (contains_any(lower(said.value.text), {"peft", "lora", "adapter"}))
      return bad_input(
          fmt::format("{}: '{}' speaks of adapters, in words of a tool that is not known", said.path, said.value.text),
          "give the model and --peft, --lora-rank by flags");
  }
  return {};
}

void read_rest(Sayings& sayings) {
  for (const std::string_view same :
       {"max_length", "tp_size", "cp_size", "pipeline_model_parallel_size", "expert_model_parallel_size",
        "dp_replicate", "use_liger_kernel", "torch_compile", "packing", "gpus", "freeze_vision_tower",
        "freeze_multi_modal_projector", "freeze_language_model"})
    if (const Said* said = sayings.find(same); said != nullptr)
      sayings.put(same == "packing" ? "packed_sequences" : same, said->value, said->path);
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
  const std::optional<std::int64_t> devices = sayings.number("devices");
  const std::int64_t nodes = sayings.number("nodes").value_or(1);
  if (devices && *devices < (1 << 12) && nodes < (1 << 12))
    sayings.put("gpus", integer_node(*devices * nodes), sayings.find("devices")->path);
  for (const char* meaning : {"derived", "rate", "duration", "elsewhere"}) sayings.pass(meaning);
}

// "algo: SFT", "algorithm_type: sft": a program of many loops is told which one to run.
bool is_told_to_imitate(Sayings& sayings) {
  for (const Said& said : sayings.said()) {
    const std::string_view last = std::string_view(said.path).substr(said.path.rfind('.') + 1);
    const bool chooses = last == "algo" || last == "algorithm" || last == "algorithm_type" || last == "trainer_type";
    if (chooses && said.value.is_string() && lower(said.value.text) == "sft") return true;
  }
  return false;
}

Status refuse_other_loops(Sayings& sayings) {
  if (is_told_to_imitate(sayings)) {
    for (Said& said : sayings.said())
      if (contains_any(said.path, {"rollout", "critic", "buffer"})) said.done = true;
    return {};
  }
  for (const std::string_view word : {"teacher", "distillation"})
    if (sayings.any_segment(word))
      return bad_input(
          fmt::format("{}: distillation holds a second model beside the one that is trained, whose weights "
                      "and outputs are not modelled",
                      word),
          "without the teacher's keys the student alone is answered");
  if (sayings.any_segment("reward_model"))
    return bad_input("reward_model: a reward model has another head and loss, which are not modelled");
  for (const std::string_view word : {"ppo", "grpo", "dpo", "kto", "orpo", "rollout", "critic", "reward_funcs"})
    if (sayings.any_segment(word))
      return bad_input(
          fmt::format("{}: preference and reinforcement training of a tool that is not known is not read", word),
          "plimsoll rl reads verl, OpenRLHF, NeMo-RL, prime-rl, slime, AReaL and TRL");
  return {};
}

}  // namespace

int signs_of_training(const Node& root) {
  bool length = false, batch = false, rate = false, duration = false;
  for_each_leaf(root, [&](const std::string& path, const Node&) {
    const std::string_view meaning = meaning_of(path);
    length = length || meaning == "max_length";
    batch = batch || meaning == "per_device_train_batch_size" || meaning == "global_batch_size" || meaning == "batch";
    rate = rate || meaning == "rate" || meaning == "optim";
    duration = duration || meaning == "duration";
  });
  return int{length} + int{batch} + int{rate} + int{duration};
}

bool speaks_of_training(const Node& root) {
  if (signs_of_training(root) < 3) return false;
  bool model = false;
  for_each_leaf(root, [&model](const std::string& path, const Node& value) {
    model = model || (value.is_string() && meaning_of(path) == "model");
  });
  const Node* sizes = root.find("model");
  const bool is_spelled_out = sizes != nullptr && sizes->is_object() && sizes->members.size() > 1;
  return model || is_spelled_out || architecture_of_names(root).has_value();
}

namespace {

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

void put_engine(const Node& engine, Sayings& sayings) {
  for (const char* type : {"fp16", "bf16"}) {
    const Node* table = engine.find(type);
    const Node* on = is_table(table) ? table->find("enabled") : nullptr;
    if (on != nullptr && !is_off(*on)) sayings.put(type, bool_node(true), {});
  }
  sayings.put("deepspeed", engine, "deepspeed");
  for (const char* meaning : {"fsdp", "zero_stage"}) sayings.pass(meaning);
}

bool says_precision(const Node& engine) {
  for (const char* type : {"fp16", "bf16"})
    if (is_table(engine.find(type))) return true;
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
  if (engine && says_precision(*engine)) {
    for (const char* meaning : {"precision", "bf16", "fp16"}) sayings.pass(meaning);
  } else {
    read_precision(sayings);
  }
  read_recompute(sayings);
  read_optimizer(sayings);
  if (engine) {
    put_engine(*engine, sayings);
  } else {
    read_sharding(sayings);
  }
  read_adapter(sayings);
  read_changed_sizes(sayings);
  read_rest(sayings);
  PLIMSOLL_TRY_STATUS(refuse_adapters_by_type(sayings));
  return sayings.finish();
}

namespace {

// NeMo Automodel: Transformers' models under FSDP2, loaded as the checkpoint has them (components/_transformers).
bool is_automodel(const Node& root) {
  const Node* model = root.find("model");
  const Node* target = is_table(model) ? model->find("_target_") : nullptr;
  return target != nullptr && target->is_string() && target->text.starts_with("nemo_automodel");
}

std::string_view name_of_family(std::string_view type) {
  return type == "mpt" ? "MPT" : type == "olmo2" ? "OLMo 2" : type == "olmo" ? "OLMo" : "Llama";
}

// Without what chooses kernels and loads data, and with the types that weights have there.
Node with_automodel_defaults(Node root) {
  const auto drop = [](Node& table, std::initializer_list<std::string_view> names) {
    std::erase_if(table.members, [names](const auto& member) {
      return std::find(names.begin(), names.end(), member.first) != names.end();
    });
  };
  drop(root, {"recipe", "ci", "dataloader", "validation_dataloader"});
  for (auto& [key, value] : root.members) {
    if (key == "model") drop(value, {"backend"});
    const Node* stages = key == "distributed" ? value.find("pp_size") : nullptr;
    if (key == "distributed" && (stages == nullptr || document::to_text(*stages) == "1"))
      drop(value, {"pipeline", "moe"});
    if (key == "model" && !value.has("torch_dtype")) value.members.emplace_back("torch_dtype", text_node("bf16"));
    // A packed length of 0 is no packing.
    if (key == "packed_sequence" && value.is_object())
      std::erase_if(value.members,
                    [](const auto& member) { return member.first == "packed_sequence_size" && is_off(member.second); });
  }
  return root;
}

// A table that is switched off ("fp8_config: {enabled: false, fp8_format: HYBRID}") says nothing more.
void clear_what_is_off(Node& table) {
  for (auto& [key, value] : table.members) {
    if (!value.is_object()) continue;
    const Node* on = value.find("enabled");
    if (on != nullptr && value.members.size() > 1 && is_off(*on)) {
      value.members.clear();
    } else {
      clear_what_is_off(value);
    }
  }
}

// A job for a cluster that carries the program's own file: "parameters" beside "command" and "compute: {gpus: 8}".
void unwrap_parameters(Node& root) {
  const Node* parameters = root.find("parameters");
  const Node* compute = root.find("compute");
  if (!is_table(parameters) || !has_any(root, {"command", "compute"})) return;
  Node inner = *parameters;
  interpolate(inner);  // its references are to the file as the program sees it
  const Node* gpus = is_table(compute) ? compute->find("gpus") : nullptr;
  if (gpus != nullptr && !gpus->is_null() && !inner.has("gpus")) inner.members.emplace_back("gpus", *gpus);
  root = std::move(inner);
}

}  // namespace

Result<Draft> read_by_names(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kTrainingArguments;
  draft.vocabulary = Framework::kTransformers;
  draft.framework = Framework::kTransformers;
  draft.read_as = "a tool that is not known, by the names of its keys";
  PLIMSOLL_TRY(root, parse_omega(file.text, file.path));
  if (!root.is_object()) return bad_input("wanted a table of keys");
  unwrap_parameters(root);
  if (is_nemo_megatron(root)) return read_nemo_megatron(file);
  if (is_flagscale(root)) return read_flagscale(file);
  if (is_jax_config(root)) return refuse_jax_config(root);
  if (is_automodel(root)) {
    draft.read_as = "NeMo Automodel";
    root = with_automodel_defaults(std::move(root));
  }
  clear_what_is_off(root);
  if (has_other_layers(root))
    return bad_input(
        "model: its keys speak of state spaces or recurrence; such layers of a tool that is not known are "
        "not modelled",
        "give the model's config.json, if it is one of Transformers");
  PLIMSOLL_TRY(arguments, from_names(root, draft));
  PLIMSOLL_TRY_STATUS(read_training_tree(arguments, draft));
  PLIMSOLL_TRY_STATUS(build_of_sizes(root, draft));
  return draft;
}

Status build_of_sizes(const Node& root, Draft& draft) {
  const bool is_named = !draft.parts.empty() && !draft.parts.front().model.kinds.empty();
  if (is_named) return {};
  const std::string& path = draft.path;
  if (const std::optional<Node> sizes = architecture_of_names(root)) {
    std::erase_if(draft.assignments, [](const Assignment& given) { return is_size_of_model(given.key); });
    PLIMSOLL_TRY(model, model::read_hf_config(*sizes));
    draft.model = std::move(model);
    draft.model.name = fmt::format("the model of {}", path.substr(path.rfind('/') + 1));
    draft.model_is_weak = true;
    draft.unknown_model.clear();
    draft.notes.push_back(fmt::format("{}: the model is built of the sizes in the file, with layers as {} has them",
                                      path, name_of_family(sizes->find("model_type")->text)));
    if (!sizes->has("vocab_size"))
      draft.assignments.push_back({"vocab_size", Node{}, path, false,
                                   "vocab_size is not known: the file names a tokenizer alone; give --vocab-size"});
  }
  return {};
}

// A table in the common words of training programs with sections that neither Megatron-Bridge nor a job file has, or
// without sections and without the words that only the Trainer and Megatron-LM have.
bool is_of_unknown_tool(const Node& root) {
  const Node* model = root.find("model");
  if (is_automodel(root) || is_nemo_megatron(root) || is_flagscale(root) || is_jax_config(root)) return true;
  if ((is_table(model) && model->has("_target_")) || has_any(root, {"comm_overlap", "rerun_state_machine"}))
    return false;
  bool has_section = false;
  int foreign = 0;
  for (const auto& [key, value] : root.members) {
    has_section = has_section || value.is_object();
    bool is_known = is_key(key) || key.starts_with("_");
    for (const std::string_view section :
         {"model",     "train",           "optimizer", "scheduler",   "dataset",   "logger",
          "tokenizer", "checkpoint",      "dist",      "ft",          "straggler", "profiling",
          "peft",      "mixed_precision", "rng",       "env_vars",    "cluster",   "parallel",
          "batch",     "precision",       "recompute", "sharding",    "offload",   "kernels",
          "adapter",   "environment",     "moe",       "description", "name"})
      is_known = is_known || key == section;
    foreign += is_known ? 0 : 1;
  }
  constexpr int kSeveral = 4;  // beside a ddp of its own, which Megatron-Bridge has too
  if (foreign == 0 || (root.has("ddp") && foreign < kSeveral)) return false;
  const bool has_tables = is_table(root.find("peft_config")) || is_table(root.find("dist_config"));
  if (!has_tables &&
      has_any(root, {"per_device_train_batch_size", "num_train_epochs", "output_dir", "model_name_or_path"}))
    return false;
  if (!has_section && has_any(root, {"num_layers", "num-layers", "tensor_model_parallel_size", "train_batch_size",
                                     "zero_optimization"}))
    return false;
  for (const auto& member : root.members)
    if (member.first.starts_with("--")) return false;
  return speaks_of_training(root);
}

}  // namespace plimsoll::job

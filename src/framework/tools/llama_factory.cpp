// SPDX-License-Identifier: Apache-2.0
// LLaMA-Factory's YAML and command line (names from its examples; defaults as remembered): TrainingArguments with names
// of its own for the model, the data and the adapter.
#include <fmt/format.h>

#include "base/text.h"
#include "framework/tools/dialect_rows.h"
#include "framework/tools/dialects.h"
#include "framework/transformers/preference.h"
#include "job/alias_rows.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

using enum AliasKind;

const Alias kLlamaFactoryRows[] = {
    {"use_badam", kRefused, "BAdam's blocks are not modelled"},
    {"use_llama_pro", kRefused, "LLaMA Pro's frozen and added blocks are not modelled"},
    {"use_unsloth", kNotModelled, "Unsloth's kernels hold less than Transformers' own"},
    {"use_unsloth_gc", kNotModelled, "Unsloth's checkpointing holds less"},
    {"additional_target", kKey, "modules_to_save"},
    {"mixture_of_depths", kRefused, "mixture of depths is not modelled"},
    {"use_adam_mini", kRefused, "Adam-mini's states are not modelled"},
    {"use_kt", kNotModelled, "experts that KTransformers keeps on the host are counted on the GPU"},
    {"kt_*", kNoEffect},
    {"use_muon", kNotModelled, "Muon's states are counted as Adam's"},
    {"shift_attn", kNoEffect},
    {"quantization_method", kNoEffect},  // bitsandbytes unless quantization_bit names another
    {"fp8_backend", kNoEffect},
    {"fp8_enable_fsdp_float8_all_gather", kNoEffect},
    {"ref_model_adapters", kNoEffect},
    {"ref_model_quantization_bit", kNotModelled, "the reference is counted in 16 bits"},
    {"use_hyper_parallel", kRefused, "HyperParallel's sharding is not modelled"},
    {"rope_scaling", kNoEffect},
    {"low_cpu_mem_usage", kNoEffect},
};

constexpr std::string_view kLlamaFactoryWithoutEffect = R"(
    model_class template dataset_dir mask_history streaming buffer_size mix_strategy interleave_probs overwrite_cache preprocessing_*
    max_samples eval_num_beams ignore_pad_token_for_loss val_size eval_on_each_dataset tokenized_path data_shared_file_system
    plot_loss ray_* resources_per_worker placement_strategy adapter_name_or_path adapter_folder cache_dir use_fast_tokenizer
    resize_vocab split_special_tokens add_tokens add_special_tokens new_special_tokens_config init_special_tokens
    image_max_pixels image_min_pixels video_* audio_* image_* crop_to_patches use_audio_in_video train_mm_proj_only compute_accuracy use_swanlab swanlab_*
    lora_alpha lora_dropout create_new_adapter loraplus_* use_rslora pissa_* early_stopping_steps disable_shuffling
    enable_thinking tool_format default_system train_on_prompt infer_backend infer_dtype vllm_* sglang_* do_sample
    temperature top_p top_k max_new_tokens hf_hub_token ms_hub_token om_hub_token print_param_status trust_remote_code
    upcast_layernorm upcast_lmhead_output moe_aux_loss_coef use_kv_cache offload_folder export_* ddp_timeout eval_dataset
    dataset ref_model reward_model pref_* use_v1_kernels include_effective_tokens_per_second use_reentrant_gc
    quantization_type quantization_device_map flash_attn_kwargs media_dir skip_special_tokens warmup_steps dataset_map
)";

const std::vector<Alias>& names() {
  static const std::vector<Alias> table = with_names_without_effect(kLlamaFactoryRows, kLlamaFactoryWithoutEffect);
  return table;
}

void read_adapter(Translation& to, const std::string& tuning) {
  const bool is_lora = tuning == "lora";
  const std::string bits = to.takes_word("quantization_bit");
  const bool twice = to.take("double_quantization") == nullptr || to.takes_true("double_quantization");
  const Node* targets = to.take("lora_target");
  const Node* rank = to.take("lora_rank");
  to.put("use_peft", bool_node(is_lora), "finetuning_type");
  if (!is_lora) return;
  to.put("lora_r", rank == nullptr ? integer_node(8) : *rank, "lora_rank");
  const bool all = targets == nullptr || (targets->is_string() && lower(targets->text) == "all");
  Node words = text_node("all-linear");
  if (!all) words = targets->is_string() ? text_node(replace(targets->text, ',', ' ')) : *targets;
  to.put("lora_target_modules", std::move(words), "lora_target");
  if (bits == "4") {
    to.put("load_in_4bit", bool_node(true));
    to.put("bnb_4bit_use_double_quant", bool_node(twice));
  } else if (bits == "8") {
    to.put("load_in_8bit", bool_node(true));
  }
}

constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

// Of every matrix of the layers, or of the modules that it names (train/trainer_utils.py); the optimizer is the one
// that is asked for, in the form of GaLore or APOLLO.
Status read_projection(std::string_view method, Translation& to) {
  const auto key = [method](std::string_view what) { return fmt::format("{}_{}", method, what); };
  const std::string use = fmt::format("use_{}", method);
  const bool on = to.takes_true(use);
  const Node* targets = to.take(key("target"));
  const Node* rank = to.take(key("rank"));
  const bool layerwise = to.takes_true(key("layerwise"));
  for (const std::string_view what : {"update_interval", "scale", "proj_type", "proj", "scale_type", "scale_front"})
    static_cast<void>(to.take(key(what)));
  if (!on) return {};
  std::string optimizer = to.takes_word("optim");
  if (optimizer.empty()) optimizer = "adamw_torch";
  const bool narrow = optimizer == "adamw_bnb_8bit" || optimizer == "adamw_8bit" || optimizer == "paged_adamw_8bit";
  if (optimizer != "adamw_torch" && !(narrow && method == "galore"))
    return bad_input(fmt::format("{}: its form of optim {} is not modelled", use, optimizer));
  to.put("optim", text_node(fmt::format("{}_adamw{}{}", method, narrow ? "_8bit" : "", layerwise ? "_layerwise" : "")),
         use);
  constexpr std::int64_t kRank = 16;  // hparams/finetuning_args.py
  to.put("projection_rank", rank == nullptr ? integer_node(kRank) : *rank, key("rank"));
  const bool all = targets == nullptr || (targets->is_string() && lower(targets->text) == "all");
  Node words = text_node("layers. .h. .blocks.");  // where families keep their layers
  if (!all) words = targets->is_string() ? text_node(replace(targets->text, ',', ' ')) : *targets;
  to.put("optim_target_modules", std::move(words), key("target"));
  return {};
}

// The last or first so many layers, whole or the named modules of each (hparams/finetuning_args.py).
Status read_chosen_layers(Translation& to) {
  const Node* count = to.take("freeze_trainable_layers");
  const std::string modules = to.takes_word("freeze_trainable_modules");
  if (!modules.empty() && modules != "all") {
    Node chosen;
    chosen.kind = Node::Kind::kArray;
    for (const std::string_view module : split(modules, ',')) {
      const std::string_view name = trim(module);
      if (name.empty() || name.find_first_not_of(kNameCharacters) != std::string_view::npos)
        return bad_input(fmt::format("freeze_trainable_modules: '{}' is no name of a module", name.substr(0, 60)));
      chosen.items.push_back(text_node(fmt::format(R"(.*\.\d+\.{})", name)));
    }
    to.put("trainable_parameters", std::move(chosen), "freeze_trainable_modules");
  }
  if (const std::string more = to.takes_word("freeze_extra_modules"); !more.empty())
    return bad_input("freeze_extra_modules: modules beside the layers that are trained are not modelled");
  to.put("trainable_layers", count == nullptr ? integer_node(2) : *count, "freeze_trainable_layers");
  return {};
}

Result<Node> from_llama_factory(const Node& root, Draft& draft) {
  draft.names = names();
  Translation to(root);
  PLIMSOLL_TRY(preference, preference_named("stage", to.takes_word("stage")));
  if (preference) {
    // DPO's loss decides whether there is a reference (hparams/finetuning_args.py).
    const std::string loss = to.takes_word("pref_loss");
    if (loss == "orpo" || loss == "simpo") preference->reference = false;
    put_preference(*preference, to, draft);
    if (preference->scores) to.put("value_head", bool_node(true), "stage");  // AutoModelForCausalLMWithValueHead
  }
  std::string tuning = to.takes_word("finetuning_type");
  if (tuning.empty()) tuning = "lora";  // its default
  if (tuning == "freeze") {
    PLIMSOLL_TRY_STATUS(read_chosen_layers(to));
    tuning = "full";
  }
  if (tuning != "lora" && tuning != "full")
    return bad_input(fmt::format("finetuning_type: found '{}'; only full, freeze and lora are modelled", tuning));
  read_adapter(to, tuning);
  for (const std::string_view method : {"galore", "apollo"}) PLIMSOLL_TRY_STATUS(read_projection(method, to));
  // A tower and its projector are not trained unless the file says so (hparams/finetuning_args.py).
  for (const std::string_view part : {"freeze_vision_tower", "freeze_multi_modal_projector"})
    if (!root.has(part) && may_have_tower(root.find("model_name_or_path"))) to.put(part, bool_node(true));
  const Node* length = to.take("cutoff_len");
  to.put("max_length", length == nullptr ? integer_node(2048) : *length, "cutoff_len");
  // Layers are checkpointed unless that is switched off.
  to.put("gradient_checkpointing", bool_node(!to.takes_true("disable_gradient_checkpointing")),
         "disable_gradient_checkpointing");
  const bool packs = to.takes_true("packing") || to.takes_true("neat_packing");
  static_cast<void>(to.take("neat_packing"));
  if (packs) to.put("packed_sequences", bool_node(true));
  const std::string attention = to.takes_word("flash_attn");
  if (attention == "fa2" || attention == "fa3") to.put("attn_implementation", text_node("flash_attention_2"));
  if (attention == "sdpa") to.put("attn_implementation", text_node("sdpa"));
  if (attention == "disabled") to.put("attn_implementation", text_node("eager"));
  to.rename("enable_liger_kernel", "use_liger_kernel");
  const bool pure = to.takes_true("pure_bf16");
  const Node* half = root.find("bf16");
  const bool is_half = pure || (half != nullptr && !is_off(*half));
  const bool shards = root.has("deepspeed") || root.has("fsdp");
  // Weights are loaded in 16 bits; those that are trained whole, without a sharding engine, are turned to fp32.
  if (is_half) to.put("load_dtype", text_node(tuning == "full" && !pure && !shards ? "fp32" : "bf16"));
  if (const Node* deepspeed = root.find("deepspeed"); deepspeed != nullptr && deepspeed->is_string())
    if (auto preset = deepspeed_preset(deepspeed->text)) to.put("deepspeed", *std::move(preset));
  return to.finish(draft);
}

}  // namespace

bool is_llama_factory(const Node& root) {
  // Its next generation has tables of its own (peft_config, dist_config) and is read by names.
  const bool is_v1 = root.has("model_class") && root.has("model");
  return (root.has("cutoff_len") && !is_v1) || root.has("finetuning_type") ||
         (root.has("stage") && root.has("model_name_or_path") && root.has("template"));
}

namespace {

constexpr Command kCommands[] = {{"llamafactory-cli", ""}, {"lmf", "train"}};

bool starts(std::string_view program) { return program == "llamafactory-cli train" || program == "lmf train"; }

bool has_flags(const Launch& launch) {
  return !flag_value(launch, "finetuning_type").empty() && !flag_value(launch, "model_name_or_path").empty();
}

}  // namespace

constinit const Dialect llama_factory_dialect = {FileKind::kLlamaFactory, "LLaMA-Factory", starts, has_flags,
                                                 from_llama_factory,      kCommands};

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
// axolotl's YAML (names from its examples; defaults as remembered).
#include <algorithm>

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

const Alias kAxolotlRows[] = {
    {"sequence_parallel_degree", kKey, "context_parallel_size"},
    {"layer_offloading", kNotModelled, "layers on the host are counted on the GPU"},
    {"selective_checkpointing", kNotModelled, "every layer's input alone is counted as kept"},
    {"recompute_layer_types", kNotModelled, "every layer is counted as recomputed"},
    {"fp32_norms", kNotModelled, "norms in fp32 are counted in bf16"},
    {"fp8_enable_fsdp_float8_all_gather", kNoEffect},
    {"nvfp4_merge_aware", kNoEffect},
    {"model_quantization_config", kNotModelled, "weights are counted as if they were loaded in 16 bits"},
    {"model_quantization_config_kwargs", kNoEffect},
    {"expert_parallel_size", kKey, "expert_model_parallel_size"},
    {"relora", kNotModelled, "ReLoRA is counted as LoRA"},
    {"relora_steps", kNotModelled, "ReLoRA is counted as LoRA"},
    {"relora_prune_ratio", kNoEffect},
    {"lisa_n_layers", kRefused, "LISA's changing layers are not modelled"},
    {"lora_mlp_kernel", kNoEffect},
    {"lora_qkv_kernel", kNoEffect},
    {"lora_o_kernel", kNoEffect},
    {"lora_embedding_kernel", kNoEffect},
    {"lora_on_cpu", kNoEffect},
    {"lora_fan_in_fan_out", kNoEffect},
    {"lora_model_dir", kNoEffect},
    {"peft_use_dora", kNoEffect},  // read with the adapter
    {"peft_layers_to_transform", kKey, "layers_to_transform"},
    {"lora_target_parameters", kNotModelled, "adapters on bare parameters are not counted"},
    {"quantize_moe_experts", kNotModelled, "quantised experts are counted as their base"},
    {"sample_packing_eff_est", kNoEffect},
    {"eval_sample_packing", kNoEffect},
    {"pad_to_sequence_len", kNoEffect},
    {"eval_sequence_len", kNoEffect},
    {"dp_shard_size", kNoEffect},
    {"torch_compile_backend", kNoEffect},
    {"gptq", kNotModelled, "GPTQ weights are counted as if they were loaded in 16 bits"},
    {"qat", kNoEffect},  // read with the checkpointing
    {"diffusion", kNotModelled, "masked diffusion is counted as plain training"},
    {"use_kernels", kNoEffect},
    {"trl", kRefused, "reinforcement training is not modelled here; plimsoll rl is for that"},
};

constexpr std::string_view kAxolotlWithoutEffect = R"(
    model_type tokenizer_type tokenizer_config tokenizer_use_fast tokenizer_legacy processor_type is_llama_derived_model is_mistral_derived_model
    is_falcon_derived_model is_qwen_derived_model strict datasets dataset_prepared_path dataset_processes dataset_exact_deduplication
    shuffle_merged_datasets test_datasets val_set_size output_dir chat_template chat_template_jinja default_system_message
    special_tokens tokens num_epochs warmup_ratio train_on_inputs resume_from_checkpoint auto_resume_from_checkpoints
    early_stopping_patience saves_per_epoch evals_per_epoch eval_table_size eval_max_new_tokens loss_watchdog_* local_rank
    plugins liger_rope liger_rms_norm liger_glu_activation liger_swiglu liger_layer_norm liger_rms_norm_gated
    skip_prepare_dataset remove_unused_columns wandb_* mlflow_* comet_* use_wandb use_mlflow hub_model_id hub_strategy
    logging_steps save_* flex_attn_compile_kwargs rope_theta rope_scaling max_packed_sequence_len cosine_* lr_quadratic_warmup
    lr_scheduler lr_scheduler_kwargs adam_* lora_alpha ddp_* unsloth_* bnb_config_kwargs device_map max_memory low_cpu_mem_usage
    group_by_length overrides_of_model_config overrides_of_model_kwargs model_config pretraining_dataset streaming dataloader_* sdp_attention
    trust_remote_code revision_of_model base_model_ignore_patterns base_model_config loraplus_* neftune_noise_alpha image_size
    image_resize_algorithm save_first_step include_tokens_per_second message_property_mappings fix_untrained_tokens
    swanlab_* use_swanlab gpu_memory_limit embeddings_skip_upcast load_best_model_at_end noisy_embedding_alpha flash_attn_* rl_beta
    pretrain_multipack_* sampling_* sample_packing_* multipack_real_batches curriculum_sampling batch_flattening axolotl_config_path
    use_ray ray_* xformers_attention_kwargs chat_template_kwargs dataset_num_proc llama4_linearized_experts excess_length_strategy
    merge_lora qlora_sharded_model_loading peft_init_lora_weights peft_use_rslora peft_ensure_weight_tying
    peft_autocast_adapter_dtype lora_alpha_pattern relora_cpu_offload streaming_partial_batch fp32_norm_classes
    debug seed learning_rate weight_decay cut_cross_entropy_* scaling_softmax use_scattermoe gc_steps activation_offloading_kwargs
    mean_resizing_embeddings resize_token_embeddings_to_32x added_tokens_overrides shrink_embeddings tiled_mlp_*
)";

const std::vector<Alias>& names() {
  static const std::vector<Alias> table = with_names_without_effect(kAxolotlRows, kAxolotlWithoutEffect);
  return table;
}

bool plugs_in(const Node& root, std::string_view part) {
  const Node* plugins = root.find("plugins");
  if (plugins == nullptr || !plugins->is_array()) return false;
  return std::any_of(plugins->items.begin(), plugins->items.end(), [part](const Node& item) {
    return item.is_string() && item.text.find(part) != std::string::npos;
  });
}

Status read_adapter(const Node& root, Translation& to, Draft& draft) {
  const std::string adapter = to.takes_word("adapter");
  const bool four = to.takes_true("load_in_4bit");
  const bool eight = to.takes_true("load_in_8bit");
  const Node* rank = to.take("lora_r");
  const Node* targets = to.take("lora_target_modules");
  const Node* dropout = to.take("lora_dropout");
  const bool linear = to.takes_true("lora_target_linear");
  const bool dora = to.takes_true("peft_use_dora");
  to.put("use_peft", bool_node(!adapter.empty() && adapter != "none"), "adapter");
  if (adapter.empty() || adapter == "none") {
    if (root.has("lora_r")) draft.notes.emplace_back("adapter: is not given, so the lora_* keys have no effect");
    return {};
  }
  if (adapter != "lora" && adapter != "qlora")
    return bad_input(fmt::format("adapter: found '{}'; only lora and qlora are modelled", adapter));
  if (rank == nullptr) return bad_input("lora_r: is not given");
  to.put("lora_r", *rank);
  if (dropout != nullptr) to.put("lora_dropout", *dropout);
  if (dora) to.put("use_dora", bool_node(true));
  if (linear) {
    to.put("lora_target_modules", text_node("all-linear"), "lora_target_linear");
  } else if (targets != nullptr) {
    to.put("lora_target_modules", *targets);
  }
  if (four || adapter == "qlora") {
    to.put("load_in_4bit", bool_node(true));
    to.put("bnb_4bit_use_double_quant", bool_node(true));  // axolotl's BitsAndBytesConfig
  } else if (eight) {
    to.put("load_in_8bit", bool_node(true));
  }
  return {};
}

void read_checkpointing(Translation& to) {
  const Node* value = to.take("gradient_checkpointing");
  if (value == nullptr) return;
  const std::string word = value->is_string() ? lower(value->text) : "";
  const bool offloads = word == "offload" || word == "offload_disk" || word == "unsloth";
  to.put("gradient_checkpointing", bool_node(offloads || !is_off(*value)));
  if (offloads) to.put("activation_offloading", bool_node(true));
}

// fsdp_version beside fsdp_config, or a configuration alone.
void read_fsdp(const Node& root, Translation& to) {
  const Node* version = to.take("fsdp_version");
  const Node* table = root.find("fsdp_config");
  const bool has_table = table != nullptr && table->is_object() && !table->members.empty();
  if (!has_table && version == nullptr) return;
  if (root.find("fsdp") == nullptr || is_off(*root.find("fsdp"))) {
    static_cast<void>(to.take("fsdp"));
    to.put("fsdp", bool_node(true));
  }
  Node config;
  config.kind = Node::Kind::kObject;
  if (has_table) config = *table;
  if (version != nullptr && !config.has("version") && !config.has("fsdp_version"))
    config.members.emplace_back("fsdp_version", *version);
  static_cast<void>(to.take("fsdp_config"));
  to.put("fsdp_config", std::move(config));
}

void read_precision(const Node& root, Translation& to) {
  const Node* half = root.find("bf16");
  if (half == nullptr) half = root.find("bfloat16");
  static_cast<void>(to.take("bfloat16"));
  static_cast<void>(to.take("bf16"));
  static_cast<void>(to.take("float16"));
  const bool is_auto = half != nullptr && half->is_string() && lower(half->text) == "auto";
  const bool is_full = half != nullptr && half->is_string() && lower(half->text) == "full";
  const bool is_bf16 = half != nullptr && (is_auto || is_full || !is_off(*half));
  if (is_bf16) {
    to.put("bf16", bool_node(true));
    to.put("load_dtype", text_node("bf16"), "bf16");
  }
}

// Expressions, of which one may end in rows: "^lm_head.weight$[:32000]" sets the gradients of the other rows to zero,
// but they and their optimizer states are there (utils/freeze.py).
Status read_unfrozen(Translation& to, Draft& draft) {
  const Node* given = to.take("unfrozen_parameters");
  if (given == nullptr || given->is_null() || (given->is_array() && given->items.empty())) return {};
  Node chosen = *given;
  for (Node& item : chosen.items) {
    if (!item.is_string()) return bad_input("unfrozen_parameters: wanted a list of strings");
    const std::size_t open = item.text.rfind('[');
    if (open == std::string::npos || !item.text.ends_with(']')) continue;
    const std::string_view rows = std::string_view(item.text).substr(open + 1, item.text.size() - open - 2);
    if (rows.find(':') == std::string_view::npos || rows.find_first_not_of("0123456789:") != std::string_view::npos)
      continue;
    draft.notes.push_back(
        fmt::format("unfrozen_parameters: all rows of {} are counted as trained; gradients of the "
                    "others are zeros that are there",
                    item.text.substr(0, std::min<std::size_t>(open, 80))));
    item.text.resize(open);
  }
  to.put("trainable_parameters", std::move(chosen), "unfrozen_parameters");
  return {};
}

Result<Node> from_axolotl(const Node& root, Draft& draft) {
  draft.names = names();
  Translation to(root);
  PLIMSOLL_TRY(preference, preference_named("rl", to.takes_word("rl")));
  if (to.takes_true("reward_model")) preference = Preference{true, false, true};
  if (to.takes_true("process_reward_model")) preference = Preference{false, false, true};  // a score for every step
  PLIMSOLL_TRY_STATUS(read_adapter(root, to, draft));
  PLIMSOLL_TRY_STATUS(read_unfrozen(to, draft));
  if (const Node* own = to.take("peft"); own != nullptr && own->is_object() && own->has("loftq_config"))
    draft.warnings.emplace_back("peft.loftq_config: LoftQ's quantised start is counted as plain LoRA");
  to.rename("base_model", "model_name_or_path");
  to.rename("sequence_len", "max_length");
  to.rename("micro_batch_size", "per_device_train_batch_size");
  if (!to.has("per_device_train_batch_size")) to.put("per_device_train_batch_size", integer_node(1));
  if (preference) put_preference(*preference, to, draft);
  to.rename("tensor_parallel_size", "tp_size");
  to.rename("context_parallel_size", "cp_size");
  if (to.takes_true("sample_packing")) to.put("packed_sequences", bool_node(true), "sample_packing");
  static_cast<void>(to.take("pad_to_sequence_len"));
  to.rename("optimizer", "optim");
  const bool flash = to.takes_true("flash_attention");
  const bool sdpa = to.takes_true("sdp_attention") || to.takes_true("xformers_attention");
  const bool eager = to.takes_true("eager_attention");
  static_cast<void>(to.takes_true("flex_attention"));
  if (flash) to.put("attn_implementation", text_node("flash_attention_2"), "flash_attention");
  if (!flash && sdpa) to.put("attn_implementation", text_node("sdpa"));
  if (!flash && !sdpa && eager) to.put("attn_implementation", text_node("eager"));
  const bool fused = to.takes_true("liger_fused_linear_cross_entropy");
  const bool fused_loss = to.takes_true("liger_cross_entropy");
  const bool cut = to.takes_true("cut_cross_entropy") || plugs_in(root, "cut_cross_entropy");
  static_cast<void>(fused_loss);
  if (fused || cut) to.put("loss", text_node("liger"));
  if (cut) draft.warnings.emplace_back("cut_cross_entropy: counted as Liger's fused linear loss");
  read_checkpointing(to);
  if (const Node* qat = root.find("qat"); qat != nullptr && !qat->is_null() && !is_off(*qat))
    PLIMSOLL_TRY_STATUS(allow_fake_quantisation("qat", to, draft));
  if (const Node* offload = to.take("activation_offloading"); offload != nullptr)
    to.put("activation_offloading", bool_node(!is_off(*offload)));  // "legacy" and "disk" name how
  read_fsdp(root, to);
  // The batch of one rank, in the oldest files.
  if (const Node* batch = to.take("batch_size"); batch != nullptr && batch->is_integer()) {
    const Node* micro = root.find("micro_batch_size");
    const bool divides = micro != nullptr && micro->is_integer() && micro->integer > 0 && batch->integer > 0;
    if (divides && !root.has("gradient_accumulation_steps"))
      to.put("gradient_accumulation_steps", integer_node(std::max<std::int64_t>(1, batch->integer / micro->integer)));
  }
  read_precision(root, to);
  return to.finish(draft);
}

}  // namespace

bool is_axolotl(const Node& root) {
  if (is_table(root.find("adapter"))) return false;  // a tool that has a table of it
  return root.has("base_model") &&
         has_any(root, {"sequence_len", "micro_batch_size", "datasets", "adapter", "num_epochs"});
}

namespace {

constexpr Command kCommands[] = {{"axolotl", "train"}};

bool starts(std::string_view program) { return program == "axolotl train" || program == "axolotl.cli.train"; }

}  // namespace

constinit const Dialect axolotl_dialect = {FileKind::kAxolotl, "axolotl", starts, nullptr, from_axolotl, kCommands};

}  // namespace plimsoll::job

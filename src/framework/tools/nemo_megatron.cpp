// SPDX-License-Identifier: Apache-2.0
// YAML of tools that run Megatron-LM's layers under sections of their own: NeMo before 2.0 (trainer, model,
// exp_manager; examples/nlp/language_modeling/conf) and FlagScale (system, model, data). The values are Megatron-LM's
// arguments.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/megatron_lm/flags.h"
#include "framework/megatron_lm/tokenizer.h"
#include "framework/tools/sections.h"
#include "job/alias_rows.h"
#include "job/format.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

using enum AliasKind;

const Alias kNemoRows[] = {
    {"encoder_seq_length", kKey, "seq_length"},
    {"activations_checkpoint_granularity", kKey, "recompute_granularity"},
    {"activations_checkpoint_method", kKey, "recompute_method"},
    {"activations_checkpoint_num_layers", kKey, "recompute_num_layers"},
    {"activations_checkpoint_layers_per_pipeline", kRefused, "layers recomputed by stage are not modelled"},
    {"num_micro_batches_with_partial_activation_checkpoints", kRefused,
     "micro-batches that are recomputed in part are not modelled"},
    {"ub_tp_comm_overlap", kKey, "tp_comm_overlap"},
    {"bias", kKey, "add_bias_linear"},
    {"qkv_bias", kKey, "add_qkv_bias"},
    {"override_vocab_size", kKey, "vocab_size"},
    {"fsdp", kRefused, "PyTorch's FSDP under NeMo is not modelled"},
    {"sharp", kNoEffect},
    {"rampup_batch_size", kNoEffect},
};

// Initialisation, fusions that Megatron-LM has on as well, timers, files, and what is read below.
constexpr std::string_view kNemoWithoutEffect = R"(
    mcore_gpt mcore_bert megatron_amp_O2 activation precision transformer_engine megatron_legacy name hysteresis
    apply_query_key_layer_scaling normalize_attention_scores headscale openai_gelu onnx_safe pre_process post_process
    transformer_block_type attention_type native_amp_* grad_div_ar_fusion gradient_as_bucket_view persist_layer_norm
    grad_allreduce_chunk_size_mb batch_p2p_comm overlap_p2p_comm sync_batch_comm get_attention_mask_from_fusion
    ub_tp_comm_overlap_cfg use_emha reduce_amax tp_only_amax_red seq_len_interpolation_factor gc_interval use_scaled_init_method
    init_method_std layernorm_epsilon do_layer_norm_weight_decay ffn_dropout seed resume_from_checkpoint restore_from_path
    restore_from_ckpt apex_transformer_log_level dist_ckpt_* use_flash_attention scale_positional_embedding
    fp8_margin fp8_interval fp8_amax_history_len fp8_amax_compute_algo fp8_hybrid fp8_e4m3 fp8_params fp8_wgrad rotary_percentage rotary_interleaved use_cpu_initialization nccl_communicator_config_path fsdp_* deterministic_mode
    enable_megatron_timers logits_soft_cap apply_embedding_scaling layernorm_zero_centered_gamma bias_dropout_add_fusion
    defer_embedding_wgrad_compute wgrad_deferral_limit tp_comm_atomic_* validation_param_sync_overlap answer_only_loss
    add_lm_head bert_binary_head add_pooler skip_train reset_lr reset_lr_steps nemo_path activations_checkpoint_recurrent
)";

const std::vector<Alias>& nemo_names() {
  static const std::vector<Alias> table = with_names_without_effect(kNemoRows, kNemoWithoutEffect);
  return table;
}

Draft megatron_draft(const InputFile& file, std::string_view tool) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kMegatronArgs;
  draft.vocabulary = Framework::kMegatronLm;
  draft.framework = Framework::kMegatronLm;
  draft.read_as = tool;
  return draft;
}

std::string word_of(const Node* table, std::string_view key) {
  const Node* value = is_table(table) ? table->find(key) : nullptr;
  return value == nullptr || value->is_null() || value->is_object() ? std::string{} : document::to_text(*value);
}

// GPUs of a node times nodes, where both are said.
void take_gpus(const Node* table, std::string_view per_node, std::string_view nodes, Draft& draft) {
  if (!is_table(table) || table->find(per_node) == nullptr || table->find(nodes) == nullptr) return;
  const auto devices = to_integer(*table->find(per_node), Range{1, 1 << 10});
  const auto machines = to_integer(*table->find(nodes), Range{1, 1 << 14});
  if (devices && machines) draft.assign("gpus", integer_node(*devices * *machines), per_node);
}

// A key of a section under its own path in messages.
void assign_in(std::string_view section, const std::string& key, const Node& value, Draft& draft) {
  if (value.is_null() || value.is_object()) return;
  draft.assign(key, value, fmt::format("{}.{}", section, key));
}

Status read_nemo_precision(const Node& root, Draft& draft) {
  const Node* model = root.find("model");
  std::string word = lower(word_of(root.find("trainer"), "precision"));
  if (word.empty()) word = lower(word_of(model, "precision"));
  const bool is_bf16 = word.find("bf16") != std::string::npos;
  const bool is_fp16 = !is_bf16 && word.find("16") != std::string::npos;
  if (is_bf16 || is_fp16) draft.assign(is_bf16 ? "bf16" : "fp16", bool_node(true), "trainer.precision");
  const Node* keeps = model->find("megatron_amp_O2");
  if ((is_bf16 || is_fp16) && (keeps == nullptr || is_off(*keeps)))
    draft.warnings.emplace_back(
        "megatron_amp_O2: off, so weights stay in fp32 and are cast layer by layer; they are counted in 16 bits with "
        "an "
        "fp32 copy in the optimizer");
  if (const Node* fp8 = model->find("fp8"); fp8 != nullptr && !is_off(*fp8)) {
    const Node* plain = model->find("fp8_e4m3");
    draft.assign("fp8", text_node(plain != nullptr && !is_off(*plain) ? "e4m3" : "hybrid"), "model.fp8");
    if (const Node* weights = model->find("fp8_params"); weights != nullptr && !is_off(*weights))
      draft.assign("fp8_param_gather", bool_node(true), "model.fp8_params");
  }
  return {};
}

Status read_nemo_layers(const Node& model, Draft& draft) {
  const std::string activation = lower(word_of(&model, "activation"));
  if (activation.ends_with("swiglu")) {
    draft.assign("swiglu", bool_node(true), "model.activation");
  } else if (activation == "squared-relu") {
    draft.assign("squared_relu", bool_node(true), "model.activation");
  } else if (activation.ends_with("glu")) {
    return bad_input(fmt::format("model.activation: found '{}'; gelu, swiglu and squared-relu are read", activation),
                     "--model with the model's config.json answers for its layers");
  }
  const std::string norm = lower(word_of(&model, "normalization"));
  draft.assign("normalization", text_node(norm == "rmsnorm" ? "RMSNorm" : "LayerNorm"), "model.normalization");
  if (const Node* groups = model.find("num_query_groups"); groups != nullptr && !groups->is_null())
    draft.assign("group_query_attention", bool_node(true), "model.num_query_groups");
  for (const std::string_view other :
       {"retro", "hyena", "peft", "hybrid_override_pattern", "kd_teacher_restore_from_path"}) {
    const Node* table = model.find(other);
    if (table == nullptr || table->is_null()) continue;
    const std::string scheme = lower(word_of(table, "peft_scheme"));
    if (other == "peft" && (scheme.empty() || scheme == "none" || scheme == "null")) continue;
    return bad_input(fmt::format("model.{}: such layers and adapters of NeMo before 2.0 are not modelled", other));
  }
  return {};
}

Status read_nemo_optimizer(const Node& model, Draft& draft) {
  const std::string name = lower(word_of(model.find("optim"), "name"));
  if (name.empty()) return {};
  if (name.find("distributed") != std::string::npos)
    draft.assign("use_distributed_optimizer", bool_node(true), "model.optim.name");
  const bool is_adam = name.find("adam") != std::string::npos || name == "mcore_distributed_optim";
  if (!is_adam) return bad_input(fmt::format("model.optim.name: the optimizer '{}' is not modelled", name));
  if (lower(word_of(model.find("optim"), "grad_sync_dtype")) == "bf16")
    draft.assign("grad_reduce_in_bf16", bool_node(true), "model.optim.grad_sync_dtype");
  return {};
}

}  // namespace

bool is_nemo_megatron(const Node& root) {
  const Node* model = root.find("model");
  return is_table(model) && is_table(root.find("trainer")) && model->has("num_layers") && model->has("hidden_size") &&
         (model->has("encoder_seq_length") || model->has("mcore_gpt"));
}

Result<Draft> read_nemo_megatron(const InputFile& file) {
  Draft draft = megatron_draft(file, "NeMo before 2.0");
  PLIMSOLL_TRY(root, parse_omega(file.text, file.path));
  const Node& model = *root.find("model");
  draft.names = nemo_names();
  for (const auto& [key, value] : model.members)
    if (key != "normalization" && key != "fp8") assign_in("model", key, value, draft);
  PLIMSOLL_TRY_STATUS(read_nemo_precision(root, draft));
  PLIMSOLL_TRY_STATUS(read_nemo_layers(model, draft));
  PLIMSOLL_TRY_STATUS(read_nemo_optimizer(model, draft));
  take_gpus(root.find("trainer"), "devices", "num_nodes", draft);
  Node others = root;
  for (auto& [key, value] : others.members)
    if (key == "model") std::erase_if(value.members, [](const auto& member) { return member.first != "optim"; });
  keep_unread(others, "precision grad_sync_dtype accumulate_grad_batches limit_test_batches param_sync_dtype",
              "exp_manager run data", draft);
  const Node* tokenizer = model.find("tokenizer");
  for (const std::string_view key : {"type", "model", "vocab_file"})
    if (const std::string name = word_of(tokenizer, key); !name.empty()) take_vocabulary_of_tokenizer(name, draft);
  add_parser_defaults(draft);
  return draft;
}

bool is_flagscale(const Node& root) {
  const Node* train = is_table(root.find("train")) ? root.find("train") : &root;
  const Node* system = train->find("system");
  const Node* model = train->find("model");
  return is_table(system) && is_table(model) && (model->has("num_layers") || system->has("tensor_model_parallel_size"));
}

Result<Draft> read_flagscale(const InputFile& file) {
  Draft draft = megatron_draft(file, "FlagScale");
  PLIMSOLL_TRY(root, parse_omega(file.text, file.path));
  const Node& train = is_table(root.find("train")) ? *root.find("train") : root;
  static const std::vector<Alias> names = with_names_without_effect(
      {}, "no_shared_fs hetero finetune legacy_tokenizer norm_init_weight norm_init_method_std");
  draft.names = names;
  for (const std::string_view section : {"system", "model"})
    for (const auto& [key, value] : train.find(section)->members) {
      assign_in(section, key, value, draft);
      if (!value.is_object() || key == "logging" || key == "checkpoint" || key == "straggler") continue;
      for (const auto& [inner, leaf] : value.members) assign_in(fmt::format("{}.{}", section, key), inner, leaf, draft);
    }
  if (const Node* data = train.find("data"); is_table(data))
    if (const Node* tokenizer = data->find("tokenizer"); is_table(tokenizer)) {
      for (const char* key : {"vocab_size", "make_vocab_size_divisible_by", "padded_vocab_size"})
        if (const Node* value = tokenizer->find(key); value != nullptr) assign_in("data.tokenizer", key, *value, draft);
      take_vocabulary_of_tokenizer(word_of(tokenizer, "tokenizer_path"), draft);
    }
  if (const Node* experiment = root.find("experiment"); is_table(experiment))
    take_gpus(experiment->find("runner"), "nproc_per_node", "nnodes", draft);
  add_parser_defaults(draft);
  return draft;
}

}  // namespace plimsoll::job

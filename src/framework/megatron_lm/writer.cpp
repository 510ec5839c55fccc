// SPDX-License-Identifier: Apache-2.0
// launch.sh of Megatron-LM: every flag on a line of its own with its reason. The flags are those of
// megatron/training/arguments.py and of the dataclasses that it makes flags of.
#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "emit/host.h"
#include "emit/targets.h"
#include "emit/text.h"
#include "framework/megatron_lm/terms.h"
#include "job/hybrid_model.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::emit {

using document::Node;
using job::bool_node;
using job::integer_node;
using job::Job;
using job::text_node;

namespace {

struct Flag {
  std::string_view key;
  std::string_view flag;      // with a value, or alone for true
  std::string_view off = {};  // alone for false
};

constexpr Flag kFlags[] = {
    {"num_layers", "--num-layers"},
    {"hidden_size", "--hidden-size"},
    {"ffn_hidden_size", "--ffn-hidden-size"},
    {"num_attention_heads", "--num-attention-heads"},
    {"group_query_attention", "--group-query-attention"},
    {"num_query_groups", "--num-query-groups"},
    {"kv_channels", "--kv-channels"},
    {"max_position_embeddings", "--max-position-embeddings"},
    {"position_embedding_type", "--position-embedding-type"},
    {"normalization", "--normalization"},
    {"add_bias_linear", "", "--disable-bias-linear"},
    {"add_qkv_bias", "--add-qkv-bias"},
    {"share_embeddings_and_output_weights", "", "--untie-embeddings-and-output-weights"},
    {"hidden_dropout", "--hidden-dropout"},
    {"attention_dropout", "--attention-dropout"},
    {"qk_layernorm", "--qk-layernorm"},
    {"qk_l2_norm", "--qk-l2-norm"},
    {"softmax_type", "--softmax-type"},
    {"attention_output_gate", "--attention-output-gate"},
    {"window_size", "--window-size"},
    {"window_attn_skip_freq", "--window-attn-skip-freq"},
    {"num_moe_experts", "--num-experts"},
    {"moe_router_topk", "--moe-router-topk"},
    {"moe_ffn_hidden_size", "--moe-ffn-hidden-size"},
    {"moe_shared_expert_intermediate_size", "--moe-shared-expert-intermediate-size"},
    {"moe_shared_expert_gate", "--moe-shared-expert-gate"},
    {"moe_layer_freq", "--moe-layer-freq"},
    {"multi_latent_attention", "--multi-latent-attention"},
    {"q_lora_rank", "--q-lora-rank"},
    {"kv_lora_rank", "--kv-lora-rank"},
    {"qk_head_dim", "--qk-head-dim"},
    {"qk_pos_emb_head_dim", "--qk-pos-emb-head-dim"},
    {"v_head_dim", "--v-head-dim"},
    {"mtp_num_layers", "--mtp-num-layers"},
    {"mtp_use_repeated_layer", "--mtp-use-repeated-layer"},
    {"moe_latent_size", "--moe-latent-size"},
    {"hybrid_layer_pattern", "--hybrid-layer-pattern"},
    {"mamba_state_dim", "--mamba-state-dim"},
    {"mamba_head_dim", "--mamba-head-dim"},
    {"mamba_num_heads", "--mamba-num-heads"},
    {"mamba_num_groups", "--mamba-num-groups"},
    {"make_vocab_size_divisible_by", "--make-vocab-size-divisible-by"},

    {"tensor_model_parallel_size", "--tensor-model-parallel-size"},
    {"pipeline_model_parallel_size", "--pipeline-model-parallel-size"},
    {"virtual_pipeline_model_parallel_size", "--num-virtual-stages-per-pipeline-rank"},
    {"context_parallel_size", "--context-parallel-size"},
    {"expert_model_parallel_size", "--expert-model-parallel-size"},
    {"expert_tensor_parallel_size", "--expert-tensor-parallel-size"},
    {"sequence_parallel", "--sequence-parallel"},
    {"cp_comm_type", "--cp-comm-type"},
    {"use_tp_pp_dp_mapping", "--use-tp-pp-dp-mapping"},
    {"num_layers_in_first_pipeline_stage", "--decoder-first-pipeline-num-layers"},
    {"num_layers_in_last_pipeline_stage", "--decoder-last-pipeline-num-layers"},
    {"num_layers_per_virtual_pipeline_stage", "--num-layers-per-virtual-pipeline-stage"},
    {"account_for_embedding_in_pipeline_split", "--account-for-embedding-in-pipeline-split"},
    {"account_for_loss_in_pipeline_split", "--account-for-loss-in-pipeline-split"},
    {"pipeline_model_parallel_layout", "--pipeline-model-parallel-layout"},
    {"microbatch_group_size_per_vp_stage", "--microbatch-group-size-per-virtual-pipeline-stage"},
    {"overlap_p2p_comm", "", "--no-overlap-p2p-communication"},
    {"overlap_p2p_comm_warmup_flush", "--overlap-p2p-communication-warmup-flush"},
    {"defer_embedding_wgrad_compute", "--defer-embedding-wgrad-compute"},
    {"wgrad_deferral_limit", "--wgrad-deferral-limit"},
    {"overlap_moe_expert_parallel_comm", "--overlap-moe-expert-parallel-comm"},
    {"delay_wgrad_compute", "--delay-wgrad-compute"},
    {"tp_comm_overlap", "--tp-comm-overlap"},

    {"seq_length", "--seq-length"},
    {"micro_batch_size", "--micro-batch-size"},
    {"global_batch_size", "--global-batch-size"},

    {"bf16", "--bf16"},
    {"fp16", "--fp16"},
    {"fp8", "--fp8-format"},
    {"fp8_recipe", "--fp8-recipe"},
    {"fp8_param_gather", "--fp8-param-gather"},
    {"fp4", "--fp4-format"},
    {"fp4_param_gather", "--fp4-param-gather"},
    {"first_last_layers_bf16", "--first-last-layers-bf16"},
    {"num_layers_at_start_in_bf16", "--num-layers-at-start-in-bf16"},
    {"num_layers_at_end_in_bf16", "--num-layers-at-end-in-bf16"},
    {"reuse_grad_buf_for_mxfp8_param_ag", "--reuse-grad-buf-for-mxfp8-param-ag"},
    {"fp32_residual_connection", "--fp32-residual-connection"},

    {"recompute_granularity", "--recompute-granularity"},
    {"recompute_method", "--recompute-method"},
    {"recompute_num_layers", "--recompute-num-layers"},
    {"recompute_modules", "--recompute-modules"},
    {"distribute_saved_activations", "--distribute-saved-activations"},

    {"optimizer", "--optimizer"},
    {"use_distributed_optimizer", "--use-distributed-optimizer"},
    {"num_distributed_optimizer_instances", "--num-distributed-optimizer-instances"},
    {"grad_reduce_in_fp32", "--accumulate-allreduce-grads-in-fp32", "--grad-reduce-in-bf16"},
    {"use_precision_aware_optimizer", "--use-precision-aware-optimizer"},
    {"main_grads_dtype", "--main-grads-dtype"},
    {"main_params_dtype", "--main-params-dtype"},
    {"exp_avg_dtype", "--exp-avg-dtype"},
    {"exp_avg_sq_dtype", "--exp-avg-sq-dtype"},
    {"sgd_momentum", "--sgd-momentum"},
    {"optimizer_cpu_offload", "--optimizer-cpu-offload"},
    {"optimizer_offload_fraction", "--optimizer-offload-fraction"},
    {"overlap_grad_reduce", "--overlap-grad-reduce"},
    {"overlap_param_gather", "--overlap-param-gather"},
    {"ddp_bucket_size", "--ddp-bucket-size"},
    {"pad_buckets_for_high_nccl_busbw", "--ddp-pad-buckets-for-high-nccl-busbw"},
    {"nccl_ub", "--use-nccl-ub"},
    {"reduce_scatter_with_fp32_accumulation", "--ddp-reduce-scatter-with-fp32-accumulation"},
    {"clip_grad", "--clip-grad"},

    {"use_megatron_fsdp", "--use-megatron-fsdp"},
    {"use_torch_fsdp2", "--use-torch-fsdp2"},
    {"reshard_after_forward", "", "--torch-fsdp2-no-reshard-after-forward"},
    {"data_parallel_sharding_strategy", "--data-parallel-sharding-strategy"},
    {"outer_dp_sharding_strategy", "--outer-dp-sharding-strategy"},
    {"fsdp_double_buffer", "--fsdp-double-buffer"},
    {"init_model_with_meta_device", "--init-model-with-meta-device"},
    {"megatron_fsdp_main_grads_dtype", "--megatron-fsdp-main-grads-dtype"},
    {"megatron_fsdp_main_params_dtype", "--megatron-fsdp-main-params-dtype"},

    {"cpu_offloading", ""},  // on with a number of layers
    {"cpu_offloading_num_layers", "--cpu-offloading-num-layers"},
    {"fine_grained_activation_offloading", "--fine-grained-activation-offloading"},
    {"offload_modules", "--offload-modules"},
    {"activation_offload_fraction", "--activation-offload-fraction"},
    {"min_offloaded_tensor_size", "--min-offloaded-tensor-size"},

    {"moe_grouped_gemm", "--moe-grouped-gemm"},
    {"moe_token_dispatcher_type", "--moe-token-dispatcher-type"},
    {"moe_flex_dispatcher_backend", "--moe-flex-dispatcher-backend"},
    {"moe_permute_fusion", "--moe-permute-fusion"},
    {"moe_expert_capacity_factor", "--moe-expert-capacity-factor"},
    {"moe_pad_expert_input_to_capacity", "--moe-pad-expert-input-to-capacity"},
    {"moe_router_dtype", "--moe-router-dtype"},

    {"transformer_impl", "--transformer-impl"},
    {"attention_backend", "--attention-backend"},
    {"apply_rope_fusion", "", "--no-rope-fusion"},
    {"bias_gelu_fusion", "", "--no-bias-gelu-fusion"},
    {"bias_swiglu_fusion", "", "--no-bias-swiglu-fusion"},
    {"use_fused_weighted_squared_relu", "--use-fused-weighted-squared-relu"},
    {"bias_dropout_fusion", "", "--no-bias-dropout-fusion"},
    {"gradient_accumulation_fusion", "", "--no-gradient-accumulation-fusion"},
    {"masked_softmax_fusion", "", "--no-masked-softmax-fusion"},
    {"attention_softmax_in_fp32", "--attention-softmax-in-fp32"},
    {"apply_query_key_layer_scaling", "--apply-query-key-layer-scaling"},
    {"create_attention_mask_in_dataloader", "", "--no-create-attention-mask-in-dataloader"},
    {"cross_entropy_loss_fusion", "--cross-entropy-loss-fusion"},
    {"cross_entropy_fusion_impl", "--cross-entropy-fusion-impl"},
    {"calculate_per_token_loss", "--calculate-per-token-loss"},
    {"cuda_graph_impl", "--cuda-graph-impl"},
    {"cuda_graph_modules", "--cuda-graph-modules"},
};

const Flag* find_flag(std::string_view key) {
  const auto* const found =
      std::find_if(std::begin(kFlags), std::end(kFlags), [key](const Flag& flag) { return flag.key == key; });
  return found == std::end(kFlags) ? nullptr : found;
}

// optimizer_implementation is which Adam is installed, not a flag.
bool carries(std::string_view key) {
  return find_flag(key) != nullptr || is_fact(key) || key == "optimizer_implementation";
}

// Of the first layer that has one: hybrid models begin with a mixer.
const model::FeedForward& first_mlp(const model::Architecture& model) {
  for (std::int64_t i = 0; i < model.depth(); ++i)
    if (!model.layer(i).ffn.is_empty()) return model.layer(i).ffn;
  return model.layer(0).ffn;
}

// The flag and its values; empty where the default says it.
std::string flag_text(const Setting& setting) {
  const Flag* flag = find_flag(setting.key);
  if (flag == nullptr || setting.value.is_null()) return {};
  // Without the flag the query is projected directly, nothing is recomputed, a rank has one chunk; the parser
  // refuses "none", and validation asserts on one chunk without a pipeline.
  if (setting.key == "q_lora_rank" && setting.value.integer == 0) return {};
  if (setting.key == "recompute_granularity" && setting.value.text == "none") return {};
  if (setting.key == "virtual_pipeline_model_parallel_size" && setting.value.integer == 1) return {};
  if (setting.value.is_bool()) return std::string(setting.value.boolean ? flag->flag : flag->off);
  if (flag->flag.empty()) return {};
  std::string text(flag->flag);
  if (setting.value.is_array()) {
    if (setting.value.items.empty()) return {};
    for (const Node& item : setting.value.items) text += " " + shell_word(document::to_text(item));
    return text;
  }
  return text + " " + shell_word(document::to_text(setting.value));
}

// Activations have flags of their own; plain GELU is the default, which the fused kernel computes by tanh, as GPT-2
// and GPT-3 do.
std::vector<Line> activation_flags(const Job& job) {
  const model::FeedForward& ffn = first_mlp(job.model);
  // OpenAI's: x * sigmoid(1.702 x) with both halves clamped at 7, and one added to the linear half.
  if (job.model.model_type == "gpt_oss")
    return {{"--quick-geglu", "quick GELU with a gate projection"},
            {"--glu-linear-offset 1.0", "added to the half without a gate"},
            {"--activation-func-clamp-value 7.0", "both halves are clamped"}};
  if (ffn.gated && ffn.activation == model::Activation::kSilu) return {{"--swiglu", "SiLU with a gate projection"}};
  if (ffn.gated && ffn.activation == model::Activation::kGelu && job.stated.contains("quick_geglu"))
    return {{"--quick-geglu", "quick GELU with a gate projection"}};
  if (!ffn.gated && ffn.activation == model::Activation::kSquaredRelu)
    return {{"--squared-relu", "squared ReLU without a gate projection"}};
  return {};
}

// What a file of the job said in a key that no field holds.
std::string stated(const Job& job, const char* key) {
  const auto found = job.stated.find(key);
  return found == job.stated.end() ? std::string{} : found->second;
}

// n where every n-th layer of a rotary model does not rotate; 0 where all do, or no number says it.
std::int64_t no_rope_period(const model::Architecture& model) {
  std::int64_t period = 1;
  while (period <= model.depth() && model.layer(period - 1).attention.rotates) ++period;
  if (!model.rope || period > model.depth() || period == 1 || model.depth() % period != 0) return 0;
  for (std::int64_t i = 0; i < model.depth(); ++i)
    if (model.layer(i).attention.rotates == ((i + 1) % period == 0)) return 0;
  return period;
}

// Flags that shape nothing and without which another model would be trained: Megatron's defaults are a base of
// 10000, whole heads, no scaling and an epsilon of 1e-5. A line without text is a comment.
std::vector<Line> numeric_flags(const Job& job) {
  const model::Architecture& model = job.model;
  std::vector<Line> lines;
  std::vector<std::string> unknown;
  if (const std::string base = stated(job, "rotary_base"); !base.empty()) {
    lines.push_back({"--rotary-base " + shell_word(base), "base of the rotary positions, as the job has it"});
  } else if (model.rope && model.rope_base == 0) {
    unknown.emplace_back("rope_theta (--rotary-base)");
  } else if (model.rope && model.rope_base != 0 && model.rope_base != 10000) {
    lines.push_back({fmt::format("--rotary-base {}", model.rope_base), "rope_theta of the model"});
  }
  if (model.rope && model.rope_share != 1)
    lines.push_back({fmt::format("--rotary-percent {}", model.rope_share), "part of a head that rotates"});
  if (model.rope && model.rope_scaling == "llama3" && model.rope_factor > 0) {
    lines.push_back({"--use-rope-scaling", "rope_scaling of Llama 3.1 and later"});
    lines.push_back({fmt::format("--rope-scaling-factor {}", model.rope_factor), "its factor"});
  } else if (model.rope && !model.rope_scaling.empty()) {
    unknown.push_back(fmt::format("rope_scaling of type {}", comment(model.rope_scaling.substr(0, 40))));
  }
  if (const std::string epsilon = stated(job, "norm_epsilon"); !epsilon.empty()) {
    lines.push_back({"--norm-epsilon " + shell_word(epsilon), "epsilon of the norms, as the job has it"});
  } else if (model.norm_epsilon == 0) {
    unknown.emplace_back("the epsilon of the norms (--norm-epsilon)");
  } else if (model.norm_epsilon != 0 && model.norm_epsilon != 1e-5) {
    lines.push_back({fmt::format("--norm-epsilon {}", model.norm_epsilon), "epsilon of the norms"});
  }
  if (const std::int64_t period = no_rope_period(model); period > 0)
    lines.push_back({fmt::format("--no-rope-freq {}", period), "layers without rotation"});
  // Megatron refuses a softmax over the one expert that was chosen; Llama 4 scores by sigmoid.
  const bool one_expert = std::any_of(model.kinds.begin(), model.kinds.end(),
                                      [](const model::Layer& kind) { return kind.ffn.experts_per_token == 1; });
  if (one_expert)
    lines.push_back(model.model_type.starts_with("llama4")
                        ? Line{"--moe-router-score-function sigmoid", "how its router scores"}
                        : Line{"--moe-router-pre-softmax", "scores of all experts, of which one is chosen"});
  if (model.has_moe()) unknown.emplace_back("how its router scores, groups and balances (--moe-router-*)");
  if (!unknown.empty())
    lines.push_back({{}, fmt::format("not known here, take from the model's config.json: {}", join(unknown, ", "))});
  return lines;
}

std::string array(std::string_view name, const std::vector<Line>& lines) {
  return lines.empty() ? std::string{} : fmt::format("\n{}=(\n{})\n", name, with_comments(lines, "  "));
}

}  // namespace

std::vector<Setting> megatron_terms(const Job& job, job::Framework framework) {
  std::vector<Setting> terms;
  const auto say = [&terms](const char* key, Node value) { terms.push_back({key, std::move(value)}); };
  if (job.precision.params == job::DType::kBf16) say("bf16", bool_node(true));
  if (job.precision.params == job::DType::kFp16) say("fp16", bool_node(true));
  say("global_batch_size", integer_node(job.micro_batches * job.batch.micro_batch * job.data_parallel));
  const bool fused = job.kernels.loss == job::LossKind::kNativeFused || job.kernels.loss == job::LossKind::kTe;
  if (fused) {
    say("cross_entropy_loss_fusion", bool_node(true));
    say("cross_entropy_fusion_impl", text_node(std::string(job::name_of(job.kernels.loss))));
  } else if (framework == job::Framework::kMegatronBridge) {
    say("cross_entropy_loss_fusion", bool_node(false));
  }
  if (framework == job::Framework::kMegatronLm && !job.kernels.bias_activation_fusion) {
    const model::FeedForward& ffn = first_mlp(job.model);
    const bool swiglu = ffn.gated && ffn.activation == model::Activation::kSilu;
    if (swiglu) say("bias_swiglu_fusion", bool_node(false));
    if (!swiglu && ffn.bias) say("bias_gelu_fusion", bool_node(false));
  }
  if (job.model.has_moe()) {
    const bool flex =
        job.moe.dispatcher == job::DispatcherKind::kDeepEp || job.moe.dispatcher == job::DispatcherKind::kHybridEp;
    say("moe_token_dispatcher_type", text_node(flex ? "flex" : std::string(job::name_of(job.moe.dispatcher))));
    if (flex) say("moe_flex_dispatcher_backend", text_node(std::string(job::name_of(job.moe.dispatcher))));
  }
  if (job.sharding.kind == job::ShardingKind::kMegatronFsdp) say("use_megatron_fsdp", bool_node(true));
  if (job.sharding.kind == job::ShardingKind::kFsdp2) say("use_torch_fsdp2", bool_node(true));
  if (job.kernels.cuda_graphs == job::CudaGraphs::kPerLayer) {
    const auto found = job.stated.find("cuda_graph_impl");
    say("cuda_graph_impl",
        text_node(found != job.stated.end() && found->second == "local" ? "local" : "transformer_engine"));
  }
  if (framework == job::Framework::kMegatronBridge) {
    say("should_pad_vocab", bool_node(job.vocab_rows != job.model.vocab));
    if (job.vocab_rows == job.model.vocab) return terms;
  }
  // The padding unit that gives the job's rows: its own, Megatron's, or the smallest that does.
  const std::int64_t tensor = job.parallel.tensor;
  const auto pads = [&](std::int64_t unit) { return round_up(job.model.vocab, unit * tensor) == job.vocab_rows; };
  std::int64_t unit = job.make_vocab_size_divisible_by;
  if (!pads(unit)) unit = 128;
  constexpr std::int64_t kMost = 1 << 20;
  for (std::int64_t smallest = 1; !pads(unit) && smallest <= kMost; ++smallest)
    if (pads(smallest)) unit = smallest;
  say("make_vocab_size_divisible_by", integer_node(unit));
  return terms;
}

Result<std::vector<File>> write_megatron_lm(const Order& order) {
  const Job& job = order.job;
  Choice choice{job::Framework::kMegatronLm, carries, {}, {}, {}, megatron_terms(job, job::Framework::kMegatronLm)};
  choice.always = {"global_batch_size", "tensor_model_parallel_size", "pipeline_model_parallel_size",
                   "seq_length",        "micro_batch_size",           "gpus",
                   "gpus_per_node"};
  choice.model = model_settings(job);
  // NullTokenizer adds one row, so the script runs on mock data with exactly the model's rows.
  std::vector<Setting> model = choice.model;
  choice.model.push_back({"vocab_size", integer_node(job.model.vocab)});
  const std::vector<Setting> settings = chosen_settings(job, choice);

  std::vector<Line> model_lines;
  for (const Setting& setting : model)
    if (const std::string text = flag_text(setting); !text.empty())
      model_lines.push_back({text, why_value(setting.key, setting.value, order.reasons)});
  for (Line& line : activation_flags(job)) model_lines.push_back(std::move(line));
  for (Line& line : numeric_flags(job)) model_lines.push_back(std::move(line));
  struct Group {
    std::string_view section;
    std::string_view name;
    std::vector<Line> lines = {};
  };
  Group groups[] = {{"model", "MODEL", model_lines}, {"parallel", "PARALLEL"},   {"batch", "BATCH"},
                    {"precision", "PRECISION"},      {"recompute", "RECOMPUTE"}, {"optimizer", "OPTIMIZER"},
                    {"sharding", "SHARDING"},        {"offload", "OFFLOAD"},     {"moe", "EXPERTS"},
                    {"kernels", "KERNELS"}};
  for (Group& group : groups)
    for (const job::KeyInfo& info : job::key_table())
      for (const Setting& setting : settings)
        if (setting.key == info.name && info.section == group.section)
          if (const std::string text = flag_text(setting); !text.empty())
            group.lines.push_back({text, why_value(setting.key, setting.value, order.reasons)});
  if (job.sharding.kind == job::ShardingKind::kMegatronFsdp)
    std::find_if(std::begin(groups), std::end(groups), [](const Group& group) {
      return group.section == "sharding";
    })->lines.push_back({"--ckpt-format fsdp_dtensor", "the only format of Megatron-FSDP (R237)"});
  std::string script = script_head(job, "Trains with Megatron-LM. Read it again: plimsoll fit launch.sh plimsoll.toml",
                                   order.environment);
  std::string arguments;
  for (const Group& group : groups) {
    script += array(group.name, group.lines);
    if (!group.lines.empty()) arguments += fmt::format("\"${{{}[@]}}\" ", group.name);
  }
  script += array("DATA", {{"--mock-data", "sample data; put yours here"},
                           {"--tokenizer-type NullTokenizer", "adds one row for its end-of-document token"},
                           {fmt::format("--vocab-size {}", job.model.vocab - 1), "rows of the vocabulary without it"},
                           {"--lr \"${LR:-1e-4}\"", "memory and time do not depend on it"},
                           {"--train-iters \"${TRAIN_ITERS:-100}\"", "optimizer steps"}});
  script +=
      array("HOST", {{"--manual-gc", "all ranks collect garbage at the same step: none waits for another's pause"},
                     {"--manual-gc-interval 100", "steps between two collections"}});
  script +=
      profiler_switch({"HOST",
                       {"--profile", "--profile-step-start 10", "--profile-step-end 12", "--profile-ranks 0"},
                       {"--record-memory-history", "--memory-snapshot-path snapshot.pickle", "--profile-ranks 0"}});
  script += fmt::format("\n{}  \"${{MEGATRON_LM:-.}}/pretrain_{}.py\" \\\n  {}\"${{DATA[@]}}\" \"${{HOST[@]}}\"\n",
                        torchrun(order.nodes), job::is_hybrid(job.model) ? "hybrid" : "gpt", arguments);
  return std::vector<File>{{"launch.sh", std::move(script), true, true},
                           facts_file(facts_among(settings), {}, order.reasons, "plimsoll fit launch.sh plimsoll.toml"),
                           slurm_script(job, order.nodes),
                           numa_script(job, order.nodes)};
}

}  // namespace plimsoll::emit

// SPDX-License-Identifier: Apache-2.0
// Megatron-Bridge: overrides.yaml holds the fields of its ConfigContainer, and launch.sh hands the same fields to
// Bridge's run_recipe.py, which lays them over a recipe.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "emit/host.h"
#include "emit/model_source.h"
#include "emit/targets.h"
#include "emit/text.h"
#include "framework/megatron_bridge/bridge.h"
#include "framework/megatron_lm/terms.h"
#include "job/keys.h"
#include "job/read.h"
#include "job/value.h"

namespace plimsoll::emit {

using document::Node;
using job::bool_node;
using job::integer_node;
using job::Job;
using job::text_node;

namespace {

struct Place {
  std::string_view section;
  std::string_view keys;  // separated by spaces
};
constexpr Place kPlaces[] = {
    {"ddp",
     " overlap_grad_reduce overlap_param_gather ddp_bucket_size pad_buckets_for_high_nccl_busbw nccl_ub "
     "reduce_scatter_with_fp32_accumulation num_distributed_optimizer_instances use_distributed_optimizer "
     "use_megatron_fsdp data_parallel_sharding_strategy outer_dp_sharding_strategy fsdp_double_buffer "
     "megatron_fsdp_main_grads_dtype megatron_fsdp_main_params_dtype "},
    {"optimizer",
     " optimizer use_precision_aware_optimizer store_param_remainders main_grads_dtype main_params_dtype exp_avg_dtype "
     "exp_avg_sq_dtype sgd_momentum optimizer_cpu_offload optimizer_offload_fraction clip_grad "},
    {"train", " micro_batch_size global_batch_size "},
    {"dist", " use_tp_pp_dp_mapping use_torch_fsdp2 "},
    {"comm_overlap",
     " tp_comm_overlap overlap_p2p_comm overlap_moe_expert_parallel_comm delay_wgrad_compute "
     "defer_embedding_wgrad_compute wgrad_deferral_limit "},
    {"mixed_precision",
     " bf16 fp16 fp8 fp8_recipe fp8_param_gather fp4 fp4_param_gather reuse_grad_buf_for_mxfp8_param_ag "
     "first_last_layers_bf16 num_layers_at_start_in_bf16 num_layers_at_end_in_bf16 grad_reduce_in_fp32 "},
    {"peft", " lora_rank lora_dropout lora_target_modules adapter_dtype "},
};

// Keys that Bridge has no field for.
constexpr std::string_view kNotCarried =
    " sharding loss params_dtype compute_dtype autocast fsdp_units sync_each_micro_batch "
    "reshard_after_forward reduce_dtype stored_dtype fsdp_cpu_offload dp_replicate gradient_as_bucket_view loss_chunks "
    "keeps_outputs own_loop use_liger_kernel torch_compile paged_optimizer load_in_4bit bnb_4bit_use_double_quant "
    "prepare_model_for_kbit_training enable_input_require_grads offload_checkpointed_inputs "
    "recompute_every_nth_layer activation_memory_budget pipeline_schedule zero_stage padded_vocab_size "
    "bias_gelu_fusion bias_swiglu_fusion gradient_accumulation_steps peft use_flash_attn recipe recompute_activations "
    "gradient_checkpointing moe_enable_deepep shard_within_node logit_dtype load_dtype ";

bool holds(std::string_view names, std::string_view key) {
  return names.find(fmt::format(" {} ", key)) != std::string_view::npos;
}

bool carries(std::string_view key) {
  return !holds(kNotCarried, key) && !key.starts_with("stage3_") && !key.starts_with("offload_optimizer") &&
         !key.starts_with("offload_param");
}

std::string_view section_of(std::string_view key) {
  for (const Place& place : kPlaces)
    if (holds(place.keys, key)) return place.section;
  return "model";
}

// Bridge's own name of a canonical key.
std::string field_of(std::string_view key) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"ddp_bucket_size", "bucket_size"}, {"lora_rank", "dim"},
      {"lora_dropout", "dropout"},        {"lora_target_modules", "target_modules"},
      {"adapter_dtype", "lora_dtype"},    {"fp4_param_gather", "fp4_param"},
  };
  for (const auto& [canonical, name] : kNames)
    if (key == canonical) return std::string(name);
  return std::string(key);
}

Node function_node(std::string path) {
  Node node = object_node();
  put(node, "_target_", text_node(std::move(path)));
  put(node, "_call_", bool_node(false));
  return node;
}

// The value as Bridge writes it: None for what is off, functions by their path.
Node field_value(const Setting& setting) {
  const std::string& text = setting.value.text;
  if (setting.key == "recompute_granularity" && text == "none") return {};
  if (setting.key == "virtual_pipeline_model_parallel_size" && setting.value.integer == 1) return {};
  if (setting.key == "q_lora_rank" && setting.value.integer == 0) return {};
  if (setting.key == "activation_func")
    return function_node(text == "squared_relu" ? "megatron.core.activations.squared_relu"
                                                : "torch.nn.functional." + (text == "gelu_new" ? "gelu" : text));
  if (setting.key == "cp_comm_type" && setting.value.items.size() == 1) return setting.value.items.front();
  return setting.value;
}

// KEY=VALUE for Hydra's parser, as one word of the shell.
std::string override_word(std::string_view path, const Node& value) {
  return shell_word(fmt::format("{}={}", path, value_text(value)));
}

struct Row {
  std::string section;
  std::string field;
  Node value;
  std::string why;
};

std::string yaml_text(const std::vector<Row>& rows) {
  std::vector<std::string> sections;
  for (const Row& row : rows)
    if (std::find(sections.begin(), sections.end(), row.section) == sections.end()) sections.push_back(row.section);
  std::string text;
  for (const std::string& section : sections) {
    std::vector<Line> lines;
    for (const Row& row : rows)
      if (row.section == section) lines.push_back({fmt::format("{}: {}", row.field, value_text(row.value)), row.why});
    text += fmt::format("\n{}:\n{}", section, with_comments(lines, "  "));
  }
  return text;
}

// What the recipe says and the job does not repeat would come from the recipe: the job's own value is written instead.
void add_what_the_recipe_sets(const Job& job, std::string_view recipe, std::vector<Row>& rows) {
  for (const auto& [path, value] : job::bridge_recipe_settings(recipe)) {
    const std::string section = path.substr(0, path.find('.'));
    const std::string field = path.substr(path.find('.') + 1);
    const bool is_written = std::any_of(rows.begin(), rows.end(), [&section, &field](const Row& row) {
      return row.section == section && row.field == field;
    });
    const std::string key = job::canonical_name(field);
    if (is_written || !job::is_key(key) || section == "peft" || (section == "ddp" && key == "grad_reduce_in_fp32"))
      continue;
    const auto held = held_value(job, key);
    rows.push_back({section, field, held ? field_value({key, *held}) : Node{},
                    fmt::format("the recipe has {}", value_text(value))});
  }
}

}  // namespace

Result<std::vector<File>> write_megatron_bridge(const Order& order) {
  const Job& job = order.job;
  const ModelSource source = model_source(job);
  Choice choice{
      job::Framework::kMegatronBridge, carries, {}, {}, {}, megatron_terms(job, job::Framework::kMegatronBridge)};
  choice.always = {"tensor_model_parallel_size",
                   "pipeline_model_parallel_size",
                   "context_parallel_size",
                   "expert_model_parallel_size",
                   "sequence_parallel",
                   "virtual_pipeline_model_parallel_size",
                   "seq_length",
                   "micro_batch_size",
                   "global_batch_size",
                   "recompute_granularity",
                   "use_distributed_optimizer",
                   "overlap_grad_reduce",
                   "overlap_param_gather",
                   "grad_reduce_in_fp32",
                   "bf16",
                   "gpus",
                   "gpus_per_node",
                   "cross_entropy_loss_fusion",
                   "make_vocab_size_divisible_by",
                   "should_pad_vocab"};
  if (job.adapter.kind != job::AdapterKind::kNone)
    choice.always.insert(choice.always.end(), {"lora_rank", "lora_dropout", "lora_target_modules", "adapter_dtype"});
  if (source.name.empty()) {
    choice.model = model_settings(job);
    choice.model.push_back({"vocab_size", integer_node(job.model.vocab)});
  } else {
    choice.base = source.base;
    choice.model = source.changes;
  }
  const std::vector<Setting> settings = chosen_settings(job, choice);

  std::vector<Row> rows;
  if (!source.name.empty())
    rows.push_back({"model", "hf_model_id", text_node(source.hub.empty() ? source.name : source.hub),
                    "the model's shape comes from here or from the recipe"});
  if (job.adapter.kind != job::AdapterKind::kNone) {
    const bool dora = job.adapter.kind == job::AdapterKind::kDora;
    rows.push_back({"peft", "_target_",
                    text_node(dora ? "megatron.bridge.peft.dora.DoRA" : "megatron.bridge.peft.lora.LoRA"),
                    why("peft", order.reasons)});
  }
  const std::vector<Setting>* const lists[] = {&choice.model, &settings};
  for (const std::vector<Setting>* list : lists)
    for (const Setting& setting : *list)
      if (!is_fact(setting.key) && setting.key != "optimizer_implementation")
        rows.push_back({std::string(section_of(setting.key)), field_of(setting.key), field_value(setting),
                        why_value(setting.key, field_value(setting), order.reasons)});
  // The recipe may bring its own, and MCore asserts that layout and number agree.
  if (job.parallel.layout.empty()) {
    rows.push_back({"model", "pipeline_model_parallel_layout", {}, "not the recipe's: the sizes decide"});
  } else {
    rows.push_back(
        {"model", "virtual_pipeline_model_parallel_size", {}, "not the recipe's: the layout says how many chunks"});
  }
  // A model without a name is laid over a recipe of Llama 3, whose base is not Megatron's default of 10000.
  if (source.name.empty() && job.model.rope) {
    const auto stated = job.stated.find("rotary_base");
    const bool in_keys = job.base_model.layers.empty() && !job.launch_is_whole;  // scripts are read without it
    const std::int64_t base = job.model.rope_base > 0 ? job.model.rope_base : in_keys ? 10000 : 0;
    const Node written = stated != job.stated.end() ? document::parse_scalar(stated->second) : integer_node(base);
    if (written.is_number() && written.as_real() > 0)
      rows.push_back({"model", "rotary_base", written, "base of the rotary positions"});
    if (job.model.norm_epsilon > 0)
      rows.push_back({"model", "layernorm_epsilon", job::real_node(job.model.norm_epsilon), "epsilon of the norms"});
  }
  if (job.sharding.kind == job::ShardingKind::kMegatronFsdp)
    rows.push_back({"checkpoint", "ckpt_format", text_node("fsdp_dtensor"), "the only format of Megatron-FSDP (R237)"});
  rows.push_back({"dataset", "seq_length", integer_node(job.batch.seq_length), "must equal the model's"});

  std::string recipe;
  for (const char c : source.name.empty() ? std::string("llama3-8b") : source.name)
    if (c != '.') recipe += c == '-' ? '_' : c;
  const char* mode = job.adapter.kind == job::AdapterKind::kLora   ? "lora"
                     : job.adapter.kind == job::AdapterKind::kDora ? "dora"
                                                                   : "pretrain";
  add_what_the_recipe_sets(job, job::bridge_recipe_name(recipe, mode), rows);
  std::vector<Line> overrides;
  for (const Row& row : rows)
    if (row.field != "hf_model_id" && row.field != "_target_")
      overrides.push_back({override_word(row.section + "." + row.field, row.value), row.why});
  std::string script = script_head(
      job, "Trains with Megatron-Bridge. Read it again: plimsoll fit overrides.yaml plimsoll.toml", order.environment);
  script += fmt::format("\n# The fields of overrides.yaml, which are laid over the recipe.\nOVERRIDES=(\n{})\n",
                        with_comments(overrides, "  "));
  if (job::bridge_recipe_settings(job::bridge_recipe_name(recipe, mode)).empty())
    script += fmt::format("\n# Bridge has no recipe {} that is known here: name one of the same model in RECIPE.\n",
                          job::bridge_recipe_name(recipe, mode));
  script += profiler_switch({"OVERRIDES",
                             {"profiling.use_nsys_profiler=true", "profiling.profile_step_start=10",
                              "profiling.profile_step_end=12", "'profiling.profile_ranks=[0]'"},
                             {"profiling.record_memory_history=true", "profiling.memory_snapshot_path=snapshot.pickle",
                              "'profiling.profile_ranks=[0]'"}});
  script += fmt::format(
      "\n{}  \"${{MEGATRON_BRIDGE:-.}}/scripts/training/run_recipe.py\" \\\n"
      "  --model \"${{RECIPE:-{}}}\" --mode {} --dataset \"${{DATASET:-mock}}\" \"${{OVERRIDES[@]}}\"\n",
      torchrun(order.nodes), shell_word(recipe), mode);
  return std::vector<File>{
      {"overrides.yaml",
       "# Fields of Megatron-Bridge's ConfigContainer: plimsoll fit overrides.yaml plimsoll.toml\n" + yaml_text(rows),
       false},
      {"launch.sh", std::move(script), true},
      facts_file(facts_among(settings), order.environment, order.reasons, "plimsoll fit overrides.yaml plimsoll.toml"),
      slurm_script(job, order.nodes),
      numa_script(job, order.nodes)};
}

}  // namespace plimsoll::emit

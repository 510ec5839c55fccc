// SPDX-License-Identifier: Apache-2.0
// Primus's experiments (modules.pre_trainer) over Megatron-LM: a model by name and overrides of Megatron's arguments.
// What Primus itself sets (its trainer_base and pre_trainer files) comes first.
#include <fmt/format.h>

#include "base/text.h"
#include "job/aliases/table.h"
#include "job/draft.h"
#include "job/keys.h"
#include "job/readers/include.h"
#include "job/readers/megatron_flags.h"
#include "job/readers/parse.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

using enum AliasKind;

const Alias kRows[] = {
    {"use_turbo_*", kNotModelled, "Primus Turbo's kernels are counted as Megatron's"},
    {"enable_primus_turbo", kNotModelled, "Primus Turbo's kernels are counted as Megatron's"},
    {"turbo_*", kNoEffect},
    {"patch_primus_pipeline", kNotModelled, "its pipeline schedules are counted as 1F1B"},
    {"pp_algorithm", kNotModelled, "its pipeline schedules are counted as 1F1B", "1f1b"},
    {"patch_zero_bubble", kRefused, "zero-bubble schedules are not modelled"},
    {"odc_*", kNotModelled, "its gradient reduction is counted as Megatron's"},
    {"moe_use_fused_router_with_aux_score", kNoEffect},
    {"enable_zero_bubble", kRefused, "zero-bubble schedules are not modelled"},
    {"recompute_layer_ids", kRefused, "recomputation of listed layers is not modelled"},
    {"multi_latent_attention", kKey, "multi_latent_attention"},
    {"use_torch_fsdp2", kRefused, "Megatron on PyTorch's FSDP2 is not modelled"},
    {"use_flash_attn", kNoEffect},
};

constexpr std::string_view kWithoutEffect = R"(
    stderr_sink_level file_sink_level sink_level log_avg_* auto_continue_train disable_last_saving disable_wandb disable_tensorboard
    disable_compile_dependencies mock_data mlflow_* disable_mlflow dump_pp_data torch_profiler_* use_rocm_mem_info*
    decoder_pipeline_manual_split_list disable_profiler_activity_cpu profile_ranks enable_turbo_attention_float8 trainable
    cross_entropy_fusion_of moe_router_force_load_balancing_of te_* manual_gc_of dist_ckpt_format num_workers_of warmup_* seed_of
    generate_sidecar use_deprecated_* attn_warmup pp_warmup sync_free_moe_stage turbo_sync_free_moe_stage check_* pretrain_*
)";

const std::vector<Alias>& names() {
  static const std::vector<Alias> table = with_names_without_effect(kRows, kWithoutEffect);
  return table;
}

// "${NAME:default}" is its default where the environment says nothing.
Node with_default(const Node& value) {
  if (!value.is_string() || value.text.substr(0, 2) != "${" || value.text.back() != '}') return value;
  const std::string_view inside(value.text.data() + 2, value.text.size() - 3);
  const std::size_t colon = inside.find(':');
  return colon == std::string_view::npos ? value : document::parse_scalar(inside.substr(colon + 1));
}

std::string word_at(const Node& table, std::string_view key) {
  const Node* value = table.find(key);
  if (value == nullptr) return {};
  const Node plain = with_default(*value);
  return plain.is_string() ? plain.text : std::string{};
}

}  // namespace

Result<Draft> read_primus_config(const InputFile& file) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kPrimus;
  draft.vocabulary = Framework::kMegatronLm;
  draft.framework = Framework::kMegatronLm;
  draft.read_as = "Primus";
  draft.names = names();
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  const Node* modules = root.find("modules");
  if (modules == nullptr || !modules->is_object() || modules->members.empty())
    return bad_input("modules: wanted a table with pre_trainer");
  const Node* trainer = modules->find("pre_trainer");
  if (trainer == nullptr)
    return bad_input(fmt::format("modules.{}: only pre_trainer is read", modules->members.front().first));
  if (!trainer->is_object()) return bad_input("modules.pre_trainer: wanted a table");
  if (const std::string framework = word_at(*trainer, "framework"); framework != "megatron")
    return bad_input(fmt::format("modules.pre_trainer.framework: found '{}'; only megatron is read", framework));
  std::string model = word_at(*trainer, "model");
  if (model.ends_with(".yaml")) model.resize(model.size() - 5);
  if (model.empty()) return bad_input("modules.pre_trainer.model: is not given");
  PLIMSOLL_TRY_STATUS(name_model(model, draft));
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, Node>>{{"bf16", bool_node(true)},
                                                           {"use_distributed_optimizer", bool_node(true)},
                                                           {"micro_batch_size", integer_node(2)},
                                                           {"global_batch_size", integer_node(16)},
                                                           {"seq_length", integer_node(1024)},
                                                           {"sequence_parallel", bool_node(true)}})
    draft.assign(key, value, "Primus's default", true);
  const Node* overrides = trainer->find("overrides");
  if (overrides == nullptr || !overrides->is_object()) return draft;
  for (const auto& [key, raw] : overrides->members) {
    const Node value = with_default(raw);
    if (value.is_null()) continue;
    if (value.is_string() && value.text.substr(0, 2) == "${") {
      draft.assign(key, Node{});
      draft.assignments.back().problem = fmt::format("its value needs {}, which is not set", value.text);
      continue;
    }
    draft.assign(key, value);
  }
  return draft;
}

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
// torchtitan's TOML (the form before its Python configurations; facts other-frameworks-memory.md 6.4).
#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "framework/torchtitan/torchtitan.h"
#include "framework/transformers/include.h"
#include "job/format.h"
#include "job/readers/parse.h"
#include "job/value.h"
#include "model/catalog.h"

namespace plimsoll::job {

using document::Node;

namespace {

const Node* at(const Node& root, std::string_view section, std::string_view key) {
  const Node* table = root.find(section);
  return table == nullptr ? nullptr : table->find(key);
}

Result<std::int64_t> integer_at(const Node& root, std::string_view section, std::string_view key,
                                std::int64_t otherwise, Range range = {1, 1 << 24}) {
  const Node* value = at(root, section, key);
  if (value == nullptr) return otherwise;
  auto number = to_integer(*value, range);
  if (!number) return bad_input(fmt::format("{}.{}: {}", section, key, number.error().message));
  return number;
}

// llama3 + 8B -> llama3-8b. torchtitan keeps one model folder for releases that differ only in size.
Status read_model(const Node& root, Draft& draft) {
  const Node* name = at(root, "model", "name");
  const Node* flavor = at(root, "model", "flavor");
  const Node* config = at(root, "model", "config");  // of forks that take a model of the Hub
  if (name == nullptr && config != nullptr && config->is_string()) return name_model(config->text, draft);
  if (name == nullptr || !name->is_string()) return {};
  if (flavor == nullptr || !flavor->is_string())
    return bad_input("model.flavor is not given; wanted the size of the model, such as 8B");
  const std::string family = replace(lower(name->text), '_', '-');
  const std::string size = lower(flavor->text);
  struct Row {
    std::string_view family, size, catalogue;
  };
  constexpr Row kRows[] = {{"llama3", "1b", "llama3.2-1b"},
                           {"llama3", "3b", "llama3.2-3b"},
                           {"llama3", "8b", "llama3-8b"},
                           {"llama3", "70b", "llama3-70b"},
                           {"llama3", "405b", "llama3.1-405b"},
                           {"llama4", "17bx16e", "llama4-scout"},
                           {"llama4", "17bx128e", "llama4-maverick"},
                           {"deepseek-v3", "16b", "deepseek-v2-lite"},
                           {"deepseek-v3", "236b", "deepseek-v2"},
                           {"deepseek-v3", "671b", "deepseek-v3"}};
  std::string catalogue = family + "-" + size;
  for (const Row& row : kRows)
    if (family == row.family && size == row.size) catalogue = row.catalogue;
  auto model = model::find_model(catalogue);
  if (!model) return name_model(fmt::format("{} {}", name->text, flavor->text), draft);
  draft.model = *std::move(model);
  return {};
}

Status read_checkpointing(const Node& root, Draft& draft) {
  const Node* mode = at(root, "activation_checkpoint", "mode");
  const std::string name = mode != nullptr && mode->is_string() ? mode->text : "selective";
  constexpr std::string_view kMode = "activation_checkpoint.mode";
  if (name == "none") {
    draft.assign("recompute_granularity", text_node("none"), kMode);
  } else if (name == "full") {
    draft.assign("recompute_granularity", text_node("full"), kMode);
    draft.assign("recompute_every_nth_layer", integer_node(0), kMode);
  } else if (name == "memory_budget") {
    draft.assign("recompute_granularity", text_node("none"), kMode);
    if (at(root, "activation_checkpoint", "memory_budget") == nullptr)
      draft.assign("activation_memory_budget", real_node(0.5), kMode, true);
  } else if (name == "selective") {
    const Node* option = at(root, "activation_checkpoint", "selective_ac_option");
    const std::string text = option == nullptr ? "2" : document::to_text(*option);
    if (text == "op") {
      draft.assign("recompute_granularity", text_node("selective-ops"), "activation_checkpoint.selective_ac_option");
      draft.assign("recompute_every_nth_layer", integer_node(0), kMode);
    } else {
      auto every = to_integer(text_node(text), Range{1, 100'000});
      if (!every)
        return bad_input(
            fmt::format("activation_checkpoint.selective_ac_option: found '{}', wanted op or a number", text));
      draft.assign("recompute_granularity", text_node("full"), "activation_checkpoint.selective_ac_option");
      draft.assign("recompute_every_nth_layer", integer_node(*every), "activation_checkpoint.selective_ac_option");
    }
  } else {
    return bad_input(fmt::format("{}: found '{}', wanted none, full, selective or memory_budget", kMode, name));
  }
  return {};
}

// With a pipeline the local batch is cut into its micro-batches; without, it is one.
Status read_batch(const Node& root, std::int64_t pipeline, Draft& draft) {
  const bool old_name =
      at(root, "training", "local_batch_size") == nullptr && at(root, "training", "batch_size") != nullptr;
  const std::string_view key = old_name ? "batch_size" : "local_batch_size";
  PLIMSOLL_TRY(local, integer_at(root, "training", key, 8));
  PLIMSOLL_TRY(micro, integer_at(root, "parallelism", "pipeline_parallel_microbatch_size", 1));
  PLIMSOLL_TRY(global, integer_at(root, "training", "global_batch_size", -1, Range{-1, 1LL << 40}));
  const std::string where = fmt::format("training.{}", key);
  if (pipeline == 1) {
    draft.assign("micro_batch_size", integer_node(local), where);
    if (global > 0) draft.assign("global_batch_size", integer_node(global), "training.global_batch_size");
    return {};
  }
  if (local % micro != 0)
    return bad_input(fmt::format("training.{} {} is not divisible by parallelism.pipeline_parallel_microbatch_size {}",
                                 key, local, micro));
  draft.assign("micro_batch_size", integer_node(micro), "parallelism.pipeline_parallel_microbatch_size");
  draft.assign("gradient_accumulation_steps", integer_node(local / micro), where);
  return {};
}

// An error for whoever wants a job, and one problem among others for whoever wants all of them.
void refuse(Draft& draft, std::string key, std::string problem, bool is_ours = false) {
  const std::string where = fmt::format("{}: {}", draft.path, key);
  draft.assignments.push_back({std::move(key), Node{}, where, false, std::move(problem), is_ours});
}

Status read_parallelism(const Node& root, Draft& draft) {
  PLIMSOLL_TRY(tensor, integer_at(root, "parallelism", "tensor_parallel_degree", 1));
  PLIMSOLL_TRY(pipeline, integer_at(root, "parallelism", "pipeline_parallel_degree", 1));
  PLIMSOLL_TRY(context, integer_at(root, "parallelism", "context_parallel_degree", 1));
  PLIMSOLL_TRY(expert, integer_at(root, "parallelism", "expert_parallel_degree", 1));
  PLIMSOLL_TRY(expert_tensor, integer_at(root, "parallelism", "expert_tensor_parallel_degree", 1));
  PLIMSOLL_TRY(replicate, integer_at(root, "parallelism", "data_parallel_replicate_degree", 1));
  PLIMSOLL_TRY(shard, integer_at(root, "parallelism", "data_parallel_shard_degree", -1, Range{-1, 1 << 24}));
  if (shard == 0) refuse(draft, "parallelism.data_parallel_shard_degree", "Parallelism degree should be >= 1, or -1");
  if (shard > 0) {
    std::optional<std::int64_t> gpus = checked_mul(replicate, shard);
    for (const std::int64_t size : {tensor, pipeline, context}) gpus = gpus ? checked_mul(*gpus, size) : gpus;
    if (!gpus || *gpus > (1 << 24))
      return bad_input("parallelism: Invalid parallel dims: more GPUs than any cluster has");
    draft.assign("gpus", integer_node(*gpus), "parallelism");
    if (shard == 1 && context == 1) draft.assign("sharding", text_node(replicate > 1 ? "ddp" : "none"), "parallelism");
  }
  draft.assign("sequence_parallel", bool_node(true), "parallelism.enable_sequence_parallel", true);
  if (expert > 1) draft.assign("expert_tensor_parallel_size", integer_node(expert_tensor), "parallelism");

  const Node* schedule = at(root, "parallelism", "pipeline_parallel_schedule");
  if (schedule != nullptr && pipeline > 1) {
    PLIMSOLL_TRY(name, to_word(*schedule));
    if (from_name<PipelineSchedule>(name)) {
      draft.assign("pipeline_schedule", *schedule, "parallelism.pipeline_parallel_schedule");
    } else {
      refuse(draft, "parallelism.pipeline_parallel_schedule",
             fmt::format("'{}' is not modelled; wanted 1F1B, Interleaved1F1B or GPipe", name), true);
    }
    if (lower(name) == "interleaved1f1b" && at(root, "parallelism", "pipeline_parallel_layers_per_stage") == nullptr)
      draft.assign("virtual_pipeline_model_parallel_size", integer_node(2), "parallelism.pipeline_parallel_schedule");
  }
  const Node* reshard = at(root, "parallelism", "fsdp_reshard_after_forward");
  const std::string policy = reshard != nullptr && reshard->is_string() ? reshard->text : "default";
  const bool reshards = policy == "always" || (policy == "default" && pipeline == 1);
  draft.assign("reshard_after_forward", bool_node(reshards), "parallelism.fsdp_reshard_after_forward");
  // Norm and head stay gathered for their backward under every policy but "always"; a pipeline has no other that
  // reshards.
  if (policy == "always" && pipeline == 1)
    draft.assign("reshard_head", bool_node(true), "parallelism.fsdp_reshard_after_forward");
  if (policy != "default" && policy != "always" && policy != "never")
    refuse(draft, "parallelism.fsdp_reshard_after_forward",
           fmt::format("Invalid reshard_after_forward_policy: '{}', wanted default, always or never", policy));

  const Node* rotate = at(root, "parallelism", "context_parallel_rotate_method");
  const bool ring = rotate != nullptr && rotate->is_string() && rotate->text == "alltoall";
  if (context > 1)
    draft.assign("cp_comm_type", text_node(ring ? "p2p" : "all_gather"), "parallelism.context_parallel_rotate_method");
  return read_batch(root, pipeline, draft);
}

Status read_optimizer(const Node& root, Draft& draft) {
  const Node* name = at(root, "optimizer", "name");
  if (name != nullptr && name->is_string()) {
    const std::string kind = lower(name->text);
    const bool keeps_one = kind == "adam_mini";  // forks have it; its second moment is one number per block
    if (kind != "adam" && kind != "adamw" && kind != "sgd" && !keeps_one)
      return bad_input(fmt::format("optimizer.name: the optimizer '{}' is not modelled", name->text));
    draft.assign("optimizer", text_node(kind == "sgd" || keeps_one ? "sgd" : "adam"), "optimizer.name");
    if (keeps_one) {
      draft.assign("sgd_momentum", real_node(0.9), "optimizer.name", true);
      draft.warnings.emplace_back(
          "optimizer.name adam_mini: one state per weight is counted, as SGD with momentum has");
    }
  }
  const Node* implementation = at(root, "optimizer", "implementation");
  if (implementation == nullptr) return {};
  PLIMSOLL_TRY(word, to_word(*implementation));
  if (word == "fused_opt_states_bf16") {
    draft.assign("optimizer_implementation", text_node("fused"), "optimizer.implementation");
    draft.assign("exp_avg_dtype", text_node("bf16"), "optimizer.implementation");
    draft.assign("exp_avg_sq_dtype", text_node("bf16"), "optimizer.implementation");
    return {};
  }
  draft.assign("optimizer_implementation", *implementation, "optimizer.implementation");
  return {};
}

}  // namespace

Status read_torchtitan_tree(const Node& root, Draft& draft) {
  draft.kind = FileKind::kTorchtitanConfig;
  draft.vocabulary = Framework::kTorchtitan;
  draft.framework = Framework::kTorchtitan;
  constexpr std::string_view kElsewhere[] = {"model.name",
                                             "model.flavor",
                                             "training.local_batch_size",
                                             "training.batch_size",
                                             "training.global_batch_size",
                                             "parallelism.expert_tensor_parallel_degree",
                                             "parallelism.pipeline_parallel_microbatch_size",
                                             "parallelism.context_parallel_rotate_method",
                                             "activation_checkpoint.mode",
                                             "activation_checkpoint.selective_ac_option",
                                             "optimizer.name",
                                             "optimizer.implementation"};
  for_each_leaf(root, [&](const std::string& key, const Node& value) {
    if (std::find(std::begin(kElsewhere), std::end(kElsewhere), key) != std::end(kElsewhere)) return;  // read below
    if (is_of_quantisation(key)) return;
    if (key == "training.mixed_precision_param") {
      draft.assign("params_dtype", value, key);
      draft.assign("compute_dtype", value, key);
      return;
    }
    draft.assign(key, value);
  });
  PLIMSOLL_TRY_STATUS(read_model(root, draft));
  PLIMSOLL_TRY_STATUS(read_parallelism(root, draft));
  PLIMSOLL_TRY_STATUS(read_checkpointing(root, draft));
  PLIMSOLL_TRY_STATUS(read_torchtitan_quantisation(root, draft));
  return read_optimizer(root, draft);
}

Result<Draft> read_torchtitan_config(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  PLIMSOLL_TRY(root, parse_document(file.text));
  if (!root.is_object()) return bad_input("wanted tables such as [model] and [training]");
  PLIMSOLL_TRY_STATUS(read_torchtitan_tree(root, draft));
  return draft;
}

bool is_torchtitan(const Node& root) {
  const Node* model = root.find("model");
  const Node* training = root.find("training");
  return is_table(root.find("parallelism")) || is_table(root.find("activation_checkpoint")) ||
         (is_table(model) && model->has("flavor")) ||
         (is_table(training) && has_any(*training, {"seq_len", "local_batch_size", "mixed_precision_param"}));
}

}  // namespace plimsoll::job

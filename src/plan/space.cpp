// SPDX-License-Identifier: Apache-2.0
#include "plan/space.h"

#include <algorithm>

#include "base/text.h"

namespace plimsoll::plan {

namespace {

using job::RecomputeGranularity;
using job::RecomputeMethod;

std::vector<std::int64_t> divisors_up_to(std::int64_t of, std::int64_t most) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= std::min(of, most); ++d)
    if (of % d == 0) divisors.push_back(d);
  return divisors;
}

std::vector<std::int64_t> powers_up_to(std::int64_t most) {
  std::vector<std::int64_t> powers;
  for (std::int64_t p = 1; p <= most; p *= 2) powers.push_back(p);
  return powers;
}

std::int64_t heads_of(const job::Job& job) {
  std::int64_t heads = 1;
  for (const auto& kind : job.model.kinds) heads = std::max(heads, kind.attention.heads);
  return heads;
}

std::int64_t experts_of(const job::Job& job) {
  std::int64_t experts = 0;
  for (const auto& kind : job.model.kinds) experts = std::max(experts, kind.ffn.experts);
  return experts;
}

bool has_latents(const job::Job& job) {
  return std::any_of(job.model.kinds.begin(), job.model.kinds.end(),
                     [](const auto& kind) { return kind.attention.kind == model::AttentionKind::kMla; });
}

RecomputeChoice selective(const std::string& label, const job::RecomputeModules& modules) {
  return {label, RecomputeGranularity::kSelective, RecomputeMethod::kUniform, 1, modules};
}

// From what keeps most to what keeps least (facts megatron-memory.md 5). With fused attention core_attn frees nothing.
std::vector<RecomputeChoice> megatron_recompute(const job::Job& job) {
  std::vector<RecomputeChoice> choices;
  choices.push_back({"none", RecomputeGranularity::kNone, RecomputeMethod::kUniform, 1, {}});
  const bool unfused = job.kernels.attention == job::AttentionBackend::kUnfused;
  job::RecomputeModules base;
  base.core_attn = unfused;
  if (unfused) choices.push_back(selective("core_attn", base));
  const auto add = [&](const std::string& label, auto&& set) {
    job::RecomputeModules modules = base;
    set(modules);
    choices.push_back(selective(label, modules));
  };
  if (experts_of(job) > 0) {
    add("moe_act", [](auto& m) { m.moe_act = true; });
    if (has_latents(job)) {
      add("mla_up_proj", [](auto& m) { m.mla_up_proj = true; });
      add("mla_up_proj,moe_act", [](auto& m) { m.mla_up_proj = m.moe_act = true; });
      add("mla_up_proj,mlp,moe_act", [](auto& m) { m.mla_up_proj = m.mlp = m.moe_act = true; });
    }
    add("layernorm,moe_act", [](auto& m) { m.layernorm = m.moe_act = true; });
    add("moe", [](auto& m) { m.moe = true; });
  } else {
    add("layernorm", [](auto& m) { m.layernorm = true; });
    add("mlp", [](auto& m) { m.mlp = true; });
    add("layernorm,mlp", [](auto& m) { m.layernorm = m.mlp = true; });
  }
  for (const std::int64_t layers : {1, 2, 4, 8, 16})
    if (layers < job.model.depth())
      choices.push_back(
          {"block " + std::to_string(layers), RecomputeGranularity::kFull, RecomputeMethod::kBlock, layers, {}});
  choices.push_back({"full", RecomputeGranularity::kFull, RecomputeMethod::kUniform, 1, {}});
  return choices;
}

std::vector<RecomputeChoice> plain_recompute() {
  return {{"none", RecomputeGranularity::kNone, RecomputeMethod::kUniform, 1, {}},
          {"full", RecomputeGranularity::kFull, RecomputeMethod::kUniform, 1, {}}};
}

RecomputeChoice own_recompute(const job::Job& job) {
  return {"as given", job.recompute.granularity, job.recompute.method, job.recompute.num_layers, job.recompute.modules};
}

std::string module_list(const job::RecomputeModules& m) {
  std::vector<std::string> names;
  for (const auto& [on, name] :
       {std::pair{m.core_attn, "core_attn"}, std::pair{m.layernorm, "layernorm"},
        std::pair{m.mla_up_proj, "mla_up_proj"}, std::pair{m.mlp, "mlp"}, std::pair{m.moe, "moe"},
        std::pair{m.moe_act, "moe_act"}, std::pair{m.shared_experts, "shared_experts"}})
    if (on) names.emplace_back(name);
  return join(names, ",");
}

}  // namespace

const std::vector<std::string>& chosen_keys() {
  static const std::vector<std::string> kKeys = {"tensor_model_parallel_size",
                                                 "pipeline_model_parallel_size",
                                                 "virtual_pipeline_model_parallel_size",
                                                 "context_parallel_size",
                                                 "expert_model_parallel_size",
                                                 "expert_tensor_parallel_size",
                                                 "sequence_parallel",
                                                 "micro_batch_size",
                                                 "recompute_granularity",
                                                 "recompute_method",
                                                 "recompute_num_layers",
                                                 "recompute_modules",
                                                 "cp_comm_type",
                                                 "tp_comm_overlap",
                                                 "optimizer_cpu_offload",
                                                 "account_for_embedding_in_pipeline_split",
                                                 "account_for_loss_in_pipeline_split",
                                                 "pipeline_model_parallel_layout"};
  return kKeys;
}

Space make_space(const job::Job& job, const std::set<std::string, std::less<>>& pinned) {
  const bool megatron = job.is_megatron();
  const std::int64_t gpus = job.cluster.gpus;
  const std::int64_t experts = experts_of(job);
  Space space;
  const auto choose = [&](const char* key, std::int64_t own, std::vector<std::int64_t> values) {
    return pinned.contains(key) ? std::vector<std::int64_t>{own} : std::move(values);
  };
  const std::vector<std::int64_t> only_one = {1};
  // Tensor parallelism beyond a node is never faster; wider domains (NVL72) have gpus_per_node accordingly.
  space.tensor = choose("tensor_model_parallel_size", job.parallel.tensor,
                        megatron ? powers_up_to(std::min({gpus, heads_of(job), job.cluster.gpus_per_node})) : only_one);
  space.pipeline =
      choose("pipeline_model_parallel_size", job.parallel.pipeline,
             megatron ? divisors_up_to(gpus, std::min<std::int64_t>(job.model.depth() + 2, 64)) : only_one);
  space.virtual_pipeline = choose("virtual_pipeline_model_parallel_size", job.parallel.virtual_pipeline,
                                  megatron ? divisors_up_to(job.model.depth() + 2, 16) : only_one);
  if (megatron && !pinned.contains("virtual_pipeline_model_parallel_size")) {
    for (const std::int64_t more : divisors_up_to(job.model.depth(), 16)) space.virtual_pipeline.push_back(more);
    std::sort(space.virtual_pipeline.begin(), space.virtual_pipeline.end());
    space.virtual_pipeline.erase(std::unique(space.virtual_pipeline.begin(), space.virtual_pipeline.end()),
                                 space.virtual_pipeline.end());
  }
  // A chunk of fewer than 2,048 tokens leaves attention's kernels idle.
  const std::int64_t most_context = std::max<std::int64_t>(1, job.batch.seq_length / 2048);
  space.context = choose("context_parallel_size", job.parallel.context,
                         megatron ? powers_up_to(std::min(gpus, most_context)) : only_one);
  space.expert = choose("expert_model_parallel_size", job.parallel.expert,
                        megatron && experts > 0 ? divisors_up_to(experts, gpus) : only_one);
  space.expert_tensor = megatron && experts > 0 && !pinned.contains("expert_tensor_parallel_size")
                            ? std::vector<std::int64_t>{1, 0}
                            : std::vector<std::int64_t>{job.parallel.expert_tensor.value_or(0)};
  space.micro_batch = choose("micro_batch_size", job.batch.micro_batch, {1, 2, 4, 8, 16});
  const bool keeps_recompute = pinned.contains("recompute_granularity") || pinned.contains("recompute_modules");
  space.recompute = keeps_recompute ? std::vector<RecomputeChoice>{own_recompute(job)}
                    : megatron      ? megatron_recompute(job)
                                    : plain_recompute();
  for (const char* key :
       {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split",
        "pipeline_model_parallel_layout", "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"})
    space.keeps_layout = space.keeps_layout || pinned.contains(key);
  const bool transformer_engine = megatron && job.kernels.implementation == job::Implementation::kTransformerEngine;
  space.context_messages = {job::CpCommType::kP2p, job::CpCommType::kAllGather, job::CpCommType::kA2a};
  if (!transformer_engine || pinned.contains("cp_comm_type"))
    space.context_messages = {job.parallel.cp_comm_type.front()};
  space.tensor_overlap = {job.parallel.tp_comm_overlap};
  if (transformer_engine && !pinned.contains("tp_comm_overlap")) space.tensor_overlap = {false, true};
  space.optimizer_offload = {job.optimizer.cpu_offload};
  if (megatron && job.optimizer.distributed && !pinned.contains("optimizer_cpu_offload"))
    space.optimizer_offload = {false, true};
  space.stages = {-1};
  if (job.framework == job::Framework::kDeepSpeed && !pinned.contains("zero_stage")) space.stages = {1, 2, 3};
  return space;
}

std::string balanced_layout(std::int64_t layers, std::int64_t mtp, std::int64_t stages) {
  const std::int64_t units = layers + mtp + 2;
  std::string text = "E";
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    std::int64_t here = units / stages + (stage >= stages - units % stages ? 1 : 0);  // more in the later ones
    if (stage == 0) --here;
    if (stage == stages - 1) here -= 1 + mtp;
    if (here < 0) return {};
    text.append(static_cast<std::size_t>(here), 't');
    if (stage == stages - 1) text += std::string(static_cast<std::size_t>(mtp), 'm') + "L";
    if (stage + 1 < stages) text += '|';
  }
  return text;
}

namespace {

// The layouts worth pricing: even ones where they exist, ends counted where that divides, else a balanced one.
std::vector<LayoutChoice> layouts_of(const Space& space, const job::Job& job, std::int64_t pipeline,
                                     std::int64_t chunks) {
  if (space.keeps_layout) return {LayoutChoice::kAsGiven};
  if (pipeline == 1 || !job.is_megatron()) return {LayoutChoice::kEven};
  const std::int64_t stages = pipeline * chunks;
  std::vector<LayoutChoice> layouts;
  if (job.model.depth() % stages == 0 && job.model.mtp_layers == 0) layouts.push_back(LayoutChoice::kEven);
  if ((job.model.depth() + 2) % stages == 0 && job.model.mtp_layers == 0) layouts.push_back(LayoutChoice::kEndsCount);
  if (layouts.empty()) layouts.push_back(LayoutChoice::kBalanced);
  return layouts;
}

// Switches that change nothing where the group they act on has one member are tried once.
void visit_switches(const Space& space, Candidate c, const std::function<void(const Candidate&)>& visit) {
  for (const job::CpCommType messages : space.context_messages) {
    if (c.context == 1 && messages != space.context_messages.front()) continue;
    for (const bool overlap : space.tensor_overlap) {
      if (c.tensor == 1 && overlap != space.tensor_overlap.front()) continue;
      for (const bool offload : space.optimizer_offload) {
        c.context_messages = messages;
        c.tensor_overlap = overlap;
        c.optimizer_offload = offload;
        visit(c);
      }
    }
  }
}

}  // namespace

void for_each_split(const Space& space, const job::Job& job, const std::function<void(const Candidate&)>& visit) {
  const std::int64_t gpus = job.cluster.gpus;
  for (const std::int64_t tensor : space.tensor)
    for (const std::int64_t pipeline : space.pipeline)
      for (const std::int64_t context : space.context) {
        const std::int64_t model = tensor * pipeline * context;
        if (model > gpus || gpus % model != 0) continue;
        for (const std::int64_t chunks : space.virtual_pipeline) {
          if (chunks > 1 && pipeline == 1) continue;
          for (const std::int64_t expert : space.expert)
            for (const std::int64_t given : space.expert_tensor) {
              const std::int64_t expert_tensor = given == 0 ? tensor : given;
              if (given == 0 && tensor == 1 && space.expert_tensor.size() > 1) continue;  // the same as 1
              const std::int64_t experts = expert * expert_tensor * pipeline;
              if (expert > 1 && (experts > gpus || gpus % experts != 0)) continue;
              Candidate c;
              c.tensor = static_cast<std::int32_t>(tensor);
              c.pipeline = static_cast<std::int32_t>(pipeline);
              c.virtual_pipeline = static_cast<std::int32_t>(chunks);
              c.context = static_cast<std::int32_t>(context);
              c.expert = static_cast<std::int32_t>(expert);
              c.expert_tensor = static_cast<std::int32_t>(expert_tensor);
              for (const LayoutChoice layout : layouts_of(space, job, pipeline, chunks)) {
                c.layout = layout;
                visit_switches(space, c, visit);
              }
            }
        }
      }
}

void apply(const Space& space, const Candidate& c, job::Job& job) {
  job.parallel.tensor = c.tensor;
  job.parallel.pipeline = c.pipeline;
  job.parallel.virtual_pipeline = c.virtual_pipeline;
  job.parallel.context = c.context;
  job.parallel.expert = c.expert;
  if (job.model.has_moe()) job.parallel.expert_tensor = c.expert_tensor;
  if (job.is_megatron()) job.parallel.sequence_parallel = job.parallel.sequence_parallel_asked = c.tensor > 1;
  if (c.layout != LayoutChoice::kAsGiven) {
    job.parallel.account_for_embedding = job.parallel.account_for_loss = c.layout == LayoutChoice::kEndsCount;
    job.parallel.layers_in_first_stage.reset();
    job.parallel.layers_in_last_stage.reset();
    job.parallel.layout =
        c.layout == LayoutChoice::kBalanced
            ? balanced_layout(job.model.depth(), job.model.mtp_layers, std::int64_t{c.pipeline} * c.virtual_pipeline)
            : std::string{};
  }
  if (job.is_megatron()) {
    job.parallel.cp_comm_type = {c.context_messages};
    job.parallel.tp_comm_overlap = c.tensor_overlap;
    job.optimizer.cpu_offload = c.optimizer_offload;
  }
  job.batch.micro_batch = c.micro_batch;
  const RecomputeChoice& recompute = space.recompute[static_cast<std::size_t>(c.recompute)];
  job.recompute.granularity = recompute.granularity;
  job.recompute.method = recompute.method;
  job.recompute.num_layers = recompute.layers;
  job.recompute.modules = recompute.modules;
  if (const std::int64_t stage = space.stages[static_cast<std::size_t>(c.stage)]; stage >= 0)
    job.sharding.zero_stage = static_cast<int>(stage);
}

KeyValues settings_of(const Space& space, const Candidate& c, const job::Job& job) {
  KeyValues settings = {{"tensor_model_parallel_size", std::to_string(c.tensor)},
                        {"pipeline_model_parallel_size", std::to_string(c.pipeline)},
                        {"context_parallel_size", std::to_string(c.context)},
                        {"micro_batch_size", std::to_string(c.micro_batch)}};
  if (!job.is_megatron()) settings = {{"micro_batch_size", std::to_string(c.micro_batch)}};
  const auto add = [&settings](const char* key, const std::string& value) { settings.emplace_back(key, value); };
  if (c.virtual_pipeline > 1) add("virtual_pipeline_model_parallel_size", std::to_string(c.virtual_pipeline));
  if (c.layout == LayoutChoice::kEndsCount) {
    add("account_for_embedding_in_pipeline_split", "true");
    add("account_for_loss_in_pipeline_split", "true");
  }
  if (c.layout == LayoutChoice::kBalanced) add("pipeline_model_parallel_layout", job.parallel.layout);
  if (job.is_megatron() && c.context > 1) add("cp_comm_type", std::string(job::name_of(c.context_messages)));
  if (job.is_megatron() && c.tensor > 1) add("tp_comm_overlap", c.tensor_overlap ? "true" : "false");
  if (c.optimizer_offload) add("optimizer_cpu_offload", "true");
  if (job.is_megatron()) add("sequence_parallel", c.tensor > 1 ? "true" : "false");
  if (job.model.has_moe() && job.is_megatron()) {
    add("expert_model_parallel_size", std::to_string(c.expert));
    add("expert_tensor_parallel_size", std::to_string(c.expert_tensor));
  }
  const RecomputeChoice& recompute = space.recompute[static_cast<std::size_t>(c.recompute)];
  if (recompute.label != "as given") {
    if (recompute.granularity == RecomputeGranularity::kNone) add("recompute_granularity", "none");
    if (recompute.granularity == RecomputeGranularity::kSelective) {
      add("recompute_granularity", "selective");
      add("recompute_modules", module_list(recompute.modules));
    }
    if (recompute.granularity == RecomputeGranularity::kFull) {
      add("recompute_granularity", "full");
      if (job.is_megatron()) {
        add("recompute_method", recompute.method == RecomputeMethod::kBlock ? "block" : "uniform");
        add("recompute_num_layers", std::to_string(recompute.layers));
      }
    }
  }
  if (const std::int64_t stage = space.stages[static_cast<std::size_t>(c.stage)]; stage >= 0)
    add("zero_stage", std::to_string(stage));
  return settings;
}

}  // namespace plimsoll::plan

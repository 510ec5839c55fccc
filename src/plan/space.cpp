// SPDX-License-Identifier: Apache-2.0
#include "plan/space.h"

#include <algorithm>

#include "base/checked.h"
#include "plan/layouts.h"

namespace plimsoll::plan {

namespace {

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

// Tensor parallelism beyond a node is never faster; what heads or widths cannot be divided by is no choice.
std::vector<std::int64_t> tensor_sizes(const job::Job& job) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : powers_up_to(std::min(job.cluster.gpus, job.cluster.gpus_per_node))) {
    const bool divides = std::all_of(job.model.kinds.begin(), job.model.kinds.end(), [size](const model::Layer& kind) {
      const model::Attention& a = kind.attention;
      const bool linear = a.kind == model::AttentionKind::kLinear;
      const std::int64_t heads = linear ? a.linear_key_heads : a.heads;
      const bool groups = a.kind != model::AttentionKind::kGqa || a.kv_heads % size == 0 || size % a.kv_heads == 0;
      return heads % size == 0 && groups && kind.ffn.width % size == 0;
    });
    if (divides) sizes.push_back(size);
  }
  return sizes;
}

// The widest expert parallelism among the published runs that step times were checked against; what lies beyond is
// extrapolation, and has to be asked for.
constexpr std::int64_t kMostExpertRanks = 64;

std::int64_t experts_of(const job::Job& job) {
  std::int64_t experts = 0;
  for (const auto& kind : job.model.kinds) experts = std::max(experts, kind.ffn.experts);
  return experts;
}

// Chunks per rank: what divides the layers, and powers of two for written-out layouts.
constexpr std::int64_t kMostChunks = 16;
std::vector<std::int64_t> chunk_counts() {
  std::vector<std::int64_t> counts;
  for (std::int64_t chunks = 1; chunks <= kMostChunks; ++chunks) counts.push_back(chunks);
  return counts;
}
bool is_worth_writing_out(std::int64_t chunks) { return chunks == 1 || chunks == 2 || chunks == 4 || chunks == 8; }

std::vector<LayoutChoice> layouts_to_try(const Space& space, const job::Job& job, std::int64_t pipeline,
                                         std::int64_t chunks) {
  if (space.keeps_layout) return {LayoutChoice::kAsGiven};
  std::vector<LayoutChoice> layouts = layouts_of(job, pipeline, chunks);
  std::erase_if(layouts, [&space](LayoutChoice layout) {
    const bool written = layout == LayoutChoice::kBalanced || layout == LayoutChoice::kLossCounts;
    return (written && !space.writes_layouts) || (layout == LayoutChoice::kEndsCount && !space.counts_ends);
  });
  if (space.virtual_pipeline.size() > 1 && !is_worth_writing_out(chunks))
    std::erase_if(layouts, [](LayoutChoice layout) {
      return layout == LayoutChoice::kBalanced || layout == LayoutChoice::kLossCounts;
    });
  return layouts;
}

// Whether the ranks that share the optimizer can be parted into that many instances (R012, R013).
bool divides_optimizer(const job::Job& job, const Candidate& c, std::int64_t instances) {
  if (instances == 1) return true;
  const std::int64_t ranks = job.cluster.gpus / (std::int64_t{c.tensor} * c.pipeline);
  const std::int64_t expert_ranks = job.cluster.gpus / (std::int64_t{c.expert_tensor} * c.expert * c.pipeline);
  return ranks % instances == 0 && (!job.model.has_moe() || expert_ranks % instances == 0);
}

// Switches that change nothing where the group they act on has one member are tried once.
void visit_switches(const Space& space, const job::Job& job, Candidate c,
                    const std::function<void(const Candidate&)>& visit) {
  for (const job::CpCommType messages : space.context_messages) {
    if (c.context == 1 && messages != space.context_messages.front()) continue;
    for (const bool sequence : space.sequence_parallel) {
      if (c.tensor == 1 && sequence != space.sequence_parallel.front()) continue;
      for (const bool overlap : space.tensor_overlap) {
        const bool acts = c.tensor > 1 && sequence;
        if (!acts && overlap != space.tensor_overlap.front()) continue;
        for (const bool expert_overlap : space.expert_overlap) {
          if (c.expert == 1 && expert_overlap != space.expert_overlap.front()) continue;
          // Two micro-batches overlap only in an interleaved pipeline, or without one (R181).
          const bool interleaves = c.pipeline == 1 || c.virtual_pipeline > 1;
          if (expert_overlap && !interleaves && space.expert_overlap.size() > 1) continue;
          for (std::size_t state = 0; state < space.states.size(); ++state) {
            if (space.states.size() > 1 && !divides_optimizer(job, c, space.states[state].optimizer.instances))
              continue;
            // Megatron-FSDP in a pipeline has to be asked for: no run of it is recorded or published.
            if (space.states.size() > 1 && c.pipeline > 1 &&
                space.states[state].sharding.kind == job::ShardingKind::kMegatronFsdp)
              continue;
            c.context_messages = messages;
            c.sequence_parallel = sequence;
            c.tensor_overlap = overlap;
            c.expert_overlap = expert_overlap;
            c.state = static_cast<std::int16_t>(state);
            visit(c);
          }
        }
      }
    }
  }
}

void choose_parallel(const job::Job& job, const Pins& pinned, Space& space) {
  const bool megatron = job.is_megatron();
  const bool splits = job.facts().splits_model;
  const std::int64_t gpus = job.cluster.gpus;
  const std::int64_t experts = experts_of(job);
  const auto choose = [&](const char* key, std::int64_t own, bool has_choice, std::vector<std::int64_t> values) {
    return pinned.contains(key) || !has_choice ? std::vector<std::int64_t>{own} : std::move(values);
  };
  space.tensor = choose("tensor_model_parallel_size", job.parallel.tensor, splits, tensor_sizes(job));
  space.pipeline = choose("pipeline_model_parallel_size", job.parallel.pipeline, splits,
                          divisors_up_to(gpus, std::min<std::int64_t>(job.model.depth() + 2, 64)));
  space.virtual_pipeline =
      choose("virtual_pipeline_model_parallel_size", job.parallel.virtual_pipeline, megatron, chunk_counts());
  if (pinned.contains("num_layers_per_virtual_pipeline_stage"))
    space.virtual_pipeline = {job.parallel.virtual_pipeline};
  // A chunk of fewer than 2,048 tokens leaves attention's kernels idle.
  const std::int64_t most_context = std::max<std::int64_t>(1, job.batch.seq_length / 2048);
  space.context =
      choose("context_parallel_size", job.parallel.context, splits, powers_up_to(std::min(gpus, most_context)));
  space.expert = choose("expert_model_parallel_size", job.parallel.expert, megatron && experts > 0,
                        divisors_up_to(experts, std::min(gpus, kMostExpertRanks)));
  space.expert_tensor = megatron && experts > 0 && !pinned.contains("expert_tensor_parallel_size")
                            ? std::vector<std::int64_t>{1, 0}
                            : std::vector<std::int64_t>{job.parallel.expert_tensor.value_or(0)};
  for (const char* key :
       {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split",
        "pipeline_model_parallel_layout", "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"})
    space.keeps_layout = space.keeps_layout || pinned.contains(key);
  if (pinned.contains("pipeline_model_parallel_layout")) space.virtual_pipeline = {job.parallel.virtual_pipeline};
}

void choose_switches(const job::Job& job, const Pins& pinned, Space& space) {
  const bool megatron = job.is_megatron();
  const bool engine = megatron && job.kernels.implementation == job::Implementation::kTransformerEngine;
  space.context_messages = {job::CpCommType::kP2p, job::CpCommType::kAllGather, job::CpCommType::kA2a};
  if (!engine || pinned.contains("cp_comm_type")) space.context_messages = {job.parallel.cp_comm_type.front()};
  space.keeps_context_messages = pinned.contains("cp_comm_type") || !megatron;
  const bool keeps_sequence = pinned.contains("sequence_parallel") || !job.facts().splits_model;
  // Without it small layers wait for fewer messages; experts need it (R023).
  space.sequence_parallel = {true, false};
  if (job.model.has_moe()) space.sequence_parallel = {true};
  if (keeps_sequence) space.sequence_parallel = {job.parallel.sequence_parallel || job.asked.sequence_parallel};
  space.tensor_overlap = {job.parallel.tp_comm_overlap};
  if (engine && !pinned.contains("tp_comm_overlap")) space.tensor_overlap = {false, true};
  space.expert_overlap = {job.parallel.overlap_moe_expert_comm};
  if (megatron && job.model.has_moe() && !pinned.contains("overlap_moe_expert_parallel_comm"))
    space.expert_overlap = {false, true};
}

// What the launcher cannot pass on keeps the job's own value.
void leave_out_unsayable(const job::Job& job, const SpaceOptions& options, Space& space) {
  const auto keep_own = [&](const char* key, const char* value, std::vector<std::int64_t>& sizes, std::int64_t own) {
    if (!options.can_say({{key, value}})) sizes.assign(1, own);
  };
  keep_own("tensor_model_parallel_size", "2", space.tensor, job.parallel.tensor);
  keep_own("pipeline_model_parallel_size", "2", space.pipeline, job.parallel.pipeline);
  keep_own("virtual_pipeline_model_parallel_size", "2", space.virtual_pipeline, job.parallel.virtual_pipeline);
  keep_own("context_parallel_size", "2", space.context, job.parallel.context);
  keep_own("expert_model_parallel_size", "2", space.expert, job.parallel.expert);
  if (job.model.has_moe())
    keep_own("expert_tensor_parallel_size", "1", space.expert_tensor, job.parallel.expert_tensor.value_or(0));
  if (!options.can_say({{"cp_comm_type", "a2a"}})) {
    space.context_messages = {job.parallel.cp_comm_type.front()};
    space.keeps_context_messages = true;
  }
  // Launchers without a key for it follow Megatron's advice: with tensor parallelism.
  if (!options.can_say({{"sequence_parallel", "true"}})) space.sequence_parallel.resize(1);
  if (!options.can_say({{"tp_comm_overlap", "true"}})) space.tensor_overlap = {job.parallel.tp_comm_overlap};
  if (!options.can_say({{"overlap_moe_expert_parallel_comm", "true"}}))
    space.expert_overlap = {job.parallel.overlap_moe_expert_comm};
  space.writes_layouts = options.can_say({{"pipeline_model_parallel_layout", "Et|tL"}});
  space.counts_ends = options.can_say({{"account_for_embedding_in_pipeline_split", "true"}});
  for (std::vector<Variant>* variants : {&space.activations, &space.states}) {
    std::erase_if(*variants,
                  [&options](const Variant& v) { return !v.settings.empty() && !options.can_say(v.settings); });
    if (variants->empty()) variants->push_back(as_given(job));
  }
}

template <class Value>
void keep_first(std::vector<Value>& values) {
  if (values.size() > 1) values.resize(1);
}

// Of every knob what changes most: sizes, interleaving at all, all or nothing of the activations and a way between.
void thin_out(Space& space) {
  std::erase_if(space.virtual_pipeline, [&space](std::int64_t chunks) {
    return chunks != space.virtual_pipeline.front() && chunks != 2 && chunks != 4;
  });
  keep_first(space.expert_tensor);
  keep_first(space.context_messages);
  keep_first(space.sequence_parallel);
  keep_first(space.tensor_overlap);
  keep_first(space.expert_overlap);
  std::vector<Variant> activations;
  for (const Variant& variant : space.activations) {
    const bool full = variant.recompute.granularity == job::RecomputeGranularity::kFull;
    const bool some = variant.recompute.granularity == job::RecomputeGranularity::kSelective && activations.size() == 1;
    if (activations.empty() || some || (full && variant.recompute.method != job::RecomputeMethod::kBlock))
      activations.push_back(variant);
  }
  space.activations = std::move(activations);
  if (space.states.size() > 2) space.states.resize(2);
}

}  // namespace

Space make_space(const job::Job& job, const Pins& pinned, const SpaceOptions& options) {
  Space space;
  choose_parallel(job, pinned, space);
  choose_switches(job, pinned, space);
  space.micro_batch = pinned.contains("micro_batch_size") ? std::vector<std::int64_t>{job.batch.micro_batch}
                                                          : std::vector<std::int64_t>{1, 2, 4, 8, 16};
  space.activations = activation_variants(job, pinned);
  space.states = state_variants(job, pinned, options.changes_numbers);
  space.batch_to_fill = options.batch_to_fill;
  if (options.can_say) leave_out_unsayable(job, options, space);
  if (options.coarse) thin_out(space);
  return space;
}

void for_each_split(const Space& space, const job::Job& job, const std::function<void(const Candidate&)>& visit) {
  const std::int64_t gpus = job.cluster.gpus;
  for (const std::int64_t tensor : space.tensor)
    for (const std::int64_t pipeline : space.pipeline)
      for (const std::int64_t context : space.context) {
        const std::int64_t model = tensor * pipeline * context;
        if (model > gpus || gpus % model != 0) continue;
        for (const std::int64_t chunks : space.virtual_pipeline) {
          if (chunks > 1 && pipeline == 1 && space.virtual_pipeline.size() > 1) continue;
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
              for (const LayoutChoice layout : layouts_to_try(space, job, pipeline, chunks)) {
                c.layout = layout;
                visit_switches(space, job, c, visit);
              }
            }
        }
      }
}

void for_each_point(const Space& space, const job::Job& job, const Candidate& split,
                    const std::function<void(const Candidate&)>& visit) {
  const std::int64_t stages = std::int64_t{split.pipeline} * split.virtual_pipeline;
  const std::int64_t layers = (job.model.depth() + stages - 1) / stages;  // of a chunk, about
  const bool chooses = space.activations.size() > 1;
  Candidate c = split;
  for (const std::int64_t micro_batch : space.micro_batch) {
    c.micro_batch = static_cast<std::int32_t>(micro_batch);
    for (std::size_t i = 0; i < space.activations.size(); ++i) {
      const Variant& variant = space.activations[i];
      const bool full = variant.recompute.granularity == job::RecomputeGranularity::kFull;
      const bool block = full && variant.recompute.method == job::RecomputeMethod::kBlock;
      // As many layers as a chunk has, or more, are all of them: that is "full".
      if (chooses && block && job.is_megatron() && variant.recompute.num_layers >= layers) continue;
      if (chooses && variant.offload.activations && split.pipeline > 1) continue;  // R115
      if (chooses && full && split.expert_overlap && split.expert > 1) continue;   // R182
      c.activations = static_cast<std::int16_t>(i);
      visit(c);
    }
  }
}

namespace {

// A rank's share of a batch that is filled up; interleaving wants whole groups of as many as there are stages.
std::int64_t filled_micro_batches(const Space& space, const Candidate& c, const job::Job& job) {
  const std::int64_t ranks = job.cluster.gpus / (std::int64_t{c.tensor} * c.pipeline * c.context);
  const std::int64_t share = ceil_div(space.batch_to_fill, ranks * c.micro_batch);
  return c.virtual_pipeline > 1 ? round_up(share, c.pipeline) : share;
}

}  // namespace

void apply_within_state(const Space& space, const Candidate& c, job::Job& job, bool has_layout) {
  job.parallel.tensor = c.tensor;
  job.parallel.pipeline = c.pipeline;
  job.parallel.virtual_pipeline = c.virtual_pipeline;
  job.parallel.context = c.context;
  job.parallel.expert = c.expert;
  if (job.model.has_moe()) job.parallel.expert_tensor = c.expert_tensor;
  if (c.layout != LayoutChoice::kAsGiven && !has_layout) {
    job.parallel.account_for_embedding = job.parallel.account_for_loss = c.layout == LayoutChoice::kEndsCount;
    job.parallel.layers_in_first_stage.reset();
    job.parallel.layers_in_last_stage.reset();
    job.parallel.layers_per_virtual_stage.reset();
    job.parallel.layout = layout_text(c.layout, job.model, std::int64_t{c.pipeline} * c.virtual_pipeline);
  }
  if (job.facts().splits_model)
    job.parallel.sequence_parallel = job.asked.sequence_parallel = c.sequence_parallel && c.tensor > 1;
  if (job.is_megatron()) {
    if (!space.keeps_context_messages) job.parallel.cp_comm_type.assign(1, c.context_messages);
    job.parallel.tp_comm_overlap = c.tensor_overlap;
    job.parallel.overlap_moe_expert_comm = c.expert_overlap;
  }
  job.batch.micro_batch = c.micro_batch;
  if (space.batch_to_fill > 0) job.batch.accumulation = filled_micro_batches(space, c, job);
  const Variant& activations = space.activations[static_cast<std::size_t>(c.activations)];
  job.recompute = activations.recompute;
  job.offload = activations.offload;
}

void apply(const Space& space, const Candidate& c, job::Job& job) {
  const Variant& state = space.states[static_cast<std::size_t>(c.state)];
  job.optimizer = state.optimizer;
  job.sharding = state.sharding;
  job.precision = state.precision;
  job.asked = state.asked;
  apply_within_state(space, c, job);
}

KeyValues settings_of(const Space& space, const Candidate& c, const job::Job& job) {
  KeyValues settings;
  const auto add = [&settings](const char* key, const std::string& value) { settings.emplace_back(key, value); };
  const bool splits_model = job.facts().splits_model;
  if (splits_model) {
    add("tensor_model_parallel_size", std::to_string(c.tensor));
    add("pipeline_model_parallel_size", std::to_string(c.pipeline));
    add("context_parallel_size", std::to_string(c.context));
    add("sequence_parallel", c.sequence_parallel && c.tensor > 1 ? "true" : "false");
  }
  add("micro_batch_size", std::to_string(c.micro_batch));
  if (space.batch_to_fill > 0) add("gradient_accumulation_steps", std::to_string(filled_micro_batches(space, c, job)));
  if (c.virtual_pipeline > 1 && !c.writes_layout())
    add("virtual_pipeline_model_parallel_size", std::to_string(c.virtual_pipeline));
  if (c.layout == LayoutChoice::kEndsCount) {
    add("account_for_embedding_in_pipeline_split", "true");
    add("account_for_loss_in_pipeline_split", "true");
  }
  if (c.writes_layout())
    add("pipeline_model_parallel_layout",
        layout_text(c.layout, job.model, std::int64_t{c.pipeline} * c.virtual_pipeline));
  if (job.is_megatron()) {
    if (c.context > 1 && !space.keeps_context_messages)
      add("cp_comm_type", std::string(job::name_of(c.context_messages)));
    if (c.tensor > 1) add("tp_comm_overlap", c.tensor_overlap ? "true" : "false");
    if (job.model.has_moe()) {
      add("expert_model_parallel_size", std::to_string(c.expert));
      add("expert_tensor_parallel_size", std::to_string(c.expert_tensor));
      if (c.expert > 1) add("overlap_moe_expert_parallel_comm", c.expert_overlap ? "true" : "false");
    }
  }
  for (const auto& setting : space.activations[static_cast<std::size_t>(c.activations)].settings)
    settings.push_back(setting);
  for (const auto& setting : space.states[static_cast<std::size_t>(c.state)].settings) settings.push_back(setting);
  return settings;
}

Pins given_of(const Space& space, const Candidate& c, const job::Job& job) {
  Pins given = job.given;
  const Variant& activations = space.activations[static_cast<std::size_t>(c.activations)];
  if (!activations.settings.empty())
    for (const std::string& key : activation_keys()) given.erase(key);
  for (const auto& [key, value] : activations.settings) given.insert(key);
  for (const auto& [key, value] : space.states[static_cast<std::size_t>(c.state)].settings) given.insert(key);
  if (c.layout != LayoutChoice::kAsGiven) {
    for (const char* key : {"pipeline_model_parallel_layout", "num_layers_per_virtual_pipeline_stage",
                            "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage",
                            "virtual_pipeline_model_parallel_size"})
      given.erase(key);
    // Chunks follow from a written-out layout.
    given.insert(c.writes_layout() ? "pipeline_model_parallel_layout" : "virtual_pipeline_model_parallel_size");
  }
  for (const char* key :
       {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
        "expert_model_parallel_size", "expert_tensor_parallel_size", "sequence_parallel", "micro_batch_size",
        "cp_comm_type", "tp_comm_overlap", "account_for_embedding_in_pipeline_split",
        "account_for_loss_in_pipeline_split", "overlap_moe_expert_parallel_comm"})
    given.insert(key);
  return given;
}

}  // namespace plimsoll::plan

// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/rank.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "step/transformers/checkpoint.h"
#include "step/transformers/optimizer.h"
#include "step/transformers/pass.h"
#include "step/transformers/sharder.h"
#include "step/transformers/stages.h"

namespace plimsoll::step::transformers {

namespace {

constexpr std::int64_t kEvaluatedBatches = 8;  // more are summed up

// Whether the framework has written a model of this type, where it writes its own.
bool has_model(const job::FrameworkFacts& facts, std::string_view type) {
  return facts.models.empty() || std::find(facts.models.begin(), facts.models.end(), type) != facts.models.end();
}

void add_warnings(const job::Job& job, RankResult& result) {
  if (!has_model(job.facts(), job.model.model_type))
    result.warnings.push_back(
        fmt::format("framework: {0} has no model of type {1}; it is counted as if it were written like {0}'s own",
                    job.facts().name, job.model.model_type));
  if (job.offload.activations || job.offload.checkpointed_inputs)
    result.warnings.emplace_back("offload: activations are counted on the GPU");
  if (job.checkpoint.resumes && (job.sharding.kind == job::ShardingKind::kZero || job.parallel.pipeline > 1))
    result.warnings.emplace_back(
        "resume_from_checkpoint: what is held while DeepSpeed or a pipeline loads is not counted");
  if (job.parallel.expert > 1) result.warnings.emplace_back("parallel.expert: every expert is counted on each rank");
  // FSDP2 cuts a weight along its first dimension, which is the number of experts: ranks beyond it get padding, and
  // every gather brings the padding along.
  const bool cuts_experts = job.sharding.kind == job::ShardingKind::kFsdp2 && job.parallel.expert == 1;
  const std::int64_t shards =
      job.data_parallel * job.parallel.context / std::max<std::int64_t>(1, job.sharding.replicas);
  for (const model::Layer& kind : job.model.kinds) {
    if (!cuts_experts || !kind.ffn.is_moe() || kind.ffn.experts >= shards) continue;
    result.warnings.push_back(
        fmt::format("experts: FSDP2 cuts {} experts over {} ranks by their number and pads to {}, so memory grows with "
                    "the ranks; dp_replicate or expert parallelism avoids it",
                    kind.ffn.experts, shards, shards));
    break;
  }
  for (const model::Layer& kind : job.model.kinds) {
    if (kind.attention.kind != model::AttentionKind::kLinear) continue;
    result.warnings.emplace_back(
        "linear attention: counted as Transformers' own operations; with flash-linear-attention installed it needs "
        "less");
    break;
  }
}

class Rank {
 public:
  Rank(const job::Job& job, Tape& tape, bool folded)
      : job_(job), tape_(tape), model_(make_model(job, whole_model(job))) {
    sharder_ = make_sharder(model_, tape);
    // Hooks on single gradients cross layers, so their layers are not folded.
    const auto& kinds = job.model.kinds;
    const bool hybrid = std::any_of(kinds.begin(), kinds.end(), [](const model::Layer& kind) {
      return kind.attention.kind == model::AttentionKind::kLinear;
    });
    // Layers that share weights or keys depend on one another, and layers of one kind differ where parameters are
    // chosen by name.
    const bool shares =
        job.model.shared_block != nullptr || job.model.streams != nullptr || !job.trainable_parameters.empty();
    // Hybrids of linear attention free what layers share in an order of their own; a compiled graph reuses what layers
    // below have kept, and the first of layers with a wide residual stream has a narrow input: their layers are not
    // folded either.
    // A quantised linear returns its input's dtype, which LayerNorm widens under autocast, and the residual stream with
    // it: the first layer's input alone is narrow.
    const bool widens =
        job.adapter.has_quantized_base() && model_.autocast && job.model.norm == model::NormKind::kLayer;
    const bool follows = sharder_->follows_gradients() || job.optimizer.in_backward;
    const bool folds = folded && !widens && !follows && !model_.compiled && model_.encoder_depth == 0 &&
                       !model_.family.wide_residual && !model_.family.local_tables && !hybrid && !shares &&
                       model_.tower.deepstack.empty();
    if (folds) profiles_ = std::make_unique<LayerProfiles>(model_);
    pass_ = std::make_unique<Pass>(model_, tape, workspaces_, sharder_.get(), profiles_.get());
    if (follows) pass_->graph().on_gradient = [this](std::int32_t id) { sharder_->gradient_ready(id); };
    optimizer_ = std::make_unique<OptimizerStates>(job, sharder_->updated());
    if (job.optimizer.in_backward) sharder_->on_gradient = [this](std::int32_t id) { optimizer_->step_of(tape_, id); };
  }

  RankResult run() {
    sharder_->build();
    hold_frequencies(model_, tape_);
    if (job_.batch.inference_only) return infer();
    if (sharder_->makes_states_early()) {
      tape_.enter(Phase::kOptimizer);
      sharder_->before_states();
      optimizer_->step(tape_);
      sharder_->after_states();
    } else if (job_.checkpoint.resumes) {
      resume();
    }
    const std::int64_t micro_batches = std::min<std::int64_t>(2, std::max<std::int64_t>(1, job_.micro_batches));
    const std::int64_t empties = job_.kernels.empty_cache_steps;
    for (int step = 0; step < 2; ++step) {
      for (std::int64_t i = 0; i < micro_batches; ++i) {
        const bool last = i == micro_batches - 1;
        tape_.pass(step == 0 ? Phase::kFirstForward : Phase::kForward, 0, i);
        sharder_->begin_micro_batch(i == 0, last);
        pass_->load_batch();
        (void)pass_->forward();
        // torch_empty_cache_steps: steps are counted from 0; those between the first and the n-th are as they would be
        // without it (facts other-frameworks-memory.md 6.6).
        if (empties == 1 || (empties > 1 && step == 0)) tape_.empty_cache();
        tape_.pass(step == 0 ? Phase::kFirstBackward : Phase::kBackward, 0, i);
        (void)pass_->backward();
        sharder_->end_backward(last);
      }
      tape_.enter(step == 0 ? Phase::kFirstUpdate : Phase::kUpdate);
      sharder_->before_step();
      if (!job_.optimizer.in_backward) optimizer_->step(tape_);
      sharder_->after_step();
      sharder_->drop_gradients();
    }
    if (gathers_state(job_)) {
      tape_.at(Operation::kGather);
      tape_.touch(gathered_at_once(model_), Name::kUnshardedWeight);
    }
    evaluate();
    RankResult result;
    result.parameters = model_.parameters();
    result.outside_bytes = optimizer_->outside_bytes();
    result.host_bytes = sharder_->host_bytes() + resumed_on_host_;
    if (gathers_state(job_)) result.rank0_bytes = gathered_on_host(model_, optimizer_->state_bytes());
    result.nvme_bytes = sharder_->nvme_bytes();
    for (const std::string& name : model_.unmatched)
      if (name != "classifier" && name != "score")  // PEFT's own for heads, of which a model has one at most
        result.warnings.push_back(
            fmt::format("modules_to_save: {} names no module of the model that is known by that name", name));
    const auto trained = [](const Weight& w) { return w.trainable; };
    result.trains = std::any_of(model_.weights.begin(), model_.weights.end(), trained);
    add_warnings(job_, result);
    if (job_.kernels.torch_compile && !model_.compiled)
      result.warnings.emplace_back("kernels.torch_compile: tensors that compilation fuses away are counted");
    return result;
  }

 private:
  // Forward passes alone: weights, a batch, the working set of one layer, logits and their loss.
  RankResult infer() {
    tape_.enter(Phase::kEvaluation);
    pass_->load_batch();
    for (int i = 0; i < 2; ++i) pass_->evaluate(true, nullptr, false);
    pass_->end_evaluation();
    RankResult result;
    result.parameters = model_.parameters();
    result.host_bytes = sharder_->host_bytes();
    result.nvme_bytes = sharder_->nvme_bytes();
    result.trains = true;
    add_warnings(job_, result);
    return result;
  }

  // The Trainer's resume_from_checkpoint. One GPU reads the states on the host, several each on its own device; FSDP2
  // makes them with a step on gradients of zeros and reads into them (facts other-frameworks-memory.md 6.6).
  void resume() {
    tape_.enter(Phase::kOptimizer);
    if (job_.sharding.kind != job::ShardingKind::kFsdp2) {
      optimizer_->load(tape_);
      if (job_.cluster.gpus == 1) resumed_on_host_ = optimizer_->state_bytes();
      return;
    }
    std::vector<Tensor> gradients;
    for (const Updated& shard : sharder_->updated())
      gradients.push_back(tape_.alloc(shard.elements * shard.width, Name::kGradient));
    optimizer_->step(tape_);
    for (Tensor& gradient : gradients) tape_.free(gradient);
  }

  // Keys and values of what is read and written, the encoder's output for every beam, one layer's copy while it grows,
  // and the scores of a token in fp32 (facts other-frameworks-memory.md 2.9).
  void generate() {
    const job::Batch& b = job_.batch;
    const std::int64_t sequences = model_.batch * b.eval_beams;
    const bool has_encoder = model_.encoder_depth > 0;
    const std::int64_t width = model_.autocast ? 2 : model_.width;
    const std::int64_t places = b.eval_generated + (has_encoder ? 0 : model_.sequence);
    std::int64_t grown = 0, crossed = 0, largest = 0;
    for (std::int64_t i = model_.encoder_depth; i < model_.depth(); ++i) {
      const model::Attention& a = job_.model.layer(i).attention;
      if (a.kind != model::AttentionKind::kGqa) continue;
      const std::int64_t each = 2 * sequences * a.kv_heads * a.head_dim * width;
      const std::int64_t kept = a.sliding_window > 0 ? std::min(places, a.sliding_window) : places;
      grown += each * kept;
      largest = std::max(largest, each / 2 * kept);
      if (has_encoder) crossed += each * model_.sequence;
    }
    Tensor encoded =
        tape_.alloc(has_encoder ? sequences * model_.sequence * job_.model.hidden * width : 0, Name::kHidden);
    Tensor cross = tape_.alloc(crossed, Name::kKey);
    Tensor cache = tape_.alloc(grown, Name::kKey);
    tape_.touch(largest, Name::kKey);
    constexpr std::int64_t kScores = 2;  // of a token, and their log-softmax
    tape_.touch(kScores * 4 * sequences * job_.model.vocab, Name::kLogitsFp32);
    for (Tensor* one : {&cache, &cross, &encoded}) tape_.free(*one);
  }

  // Logits of evaluated batches stay on the GPU until the phase ends (facts other-frameworks-memory.md 2.9).
  void evaluate() {
    const job::Batch& b = job_.batch;
    if (b.eval_micro_batch <= 0) return;
    tape_.enter(Phase::kEvaluation);
    model_.batch = b.eval_micro_batch;
    model_.sequence = b.eval_seq_length > 0 ? b.eval_seq_length : b.seq_length;
    // Every eval_accumulation batches what was kept moves to the host.
    const std::int64_t most =
        b.eval_accumulation > 0 ? std::min(b.eval_accumulation, b.eval_batches_kept) : b.eval_batches_kept;
    const bool keeps = most > 0;
    std::vector<Tensor> kept;
    const std::int64_t run = std::clamp<std::int64_t>(most, 2, kEvaluatedBatches);
    for (std::int64_t i = 0; i < run; ++i) {
      if (keeps && i + 1 == run && most > run) {
        // Batches between the first and the last only leave their logits behind.
        const std::int64_t between = most - run;
        kept.push_back(tape_.alloc(between * kept.front().bytes, Name::kEvalLogits));
      }
      if (b.eval_generated > 0) generate();
      pass_->evaluate(!keeps, keeps ? &kept : nullptr, b.eval_logits_fp32);
    }
    for (Tensor& logits : kept) tape_.free(logits);
    pass_->end_evaluation();
    model_.batch = b.micro_batch;
    model_.sequence = b.seq_length / std::max<std::int64_t>(1, job_.parallel.context);
  }

  const job::Job& job_;
  Tape& tape_;
  Model model_;
  Workspaces workspaces_;
  std::unique_ptr<Sharder> sharder_;
  std::unique_ptr<LayerProfiles> profiles_;
  std::unique_ptr<Pass> pass_;
  std::unique_ptr<OptimizerStates> optimizer_;
  std::int64_t resumed_on_host_ = 0;  // states that are read there before they go to the device
};

}  // namespace

RankResult run_rank(const job::Job& job, Tape& tape, bool folded, std::int64_t pp_rank) {
  if (job.parallel.pipeline <= 1) {
    Rank rank(job, tape, folded);
    return rank.run();
  }
  RankResult result;
  const auto layout = job::pipeline_layout(job);
  if (!layout || pp_rank < 0 || pp_rank >= static_cast<std::int64_t>(layout->ranks.size())) {
    result.warnings.emplace_back("parallel.pipeline: the job's layers cannot be laid out over its stages");
    return result;
  }
  Stages stages(job, layout->ranks[static_cast<std::size_t>(pp_rank)], pp_rank, tape, folded);
  stages.run();
  result.parameters = stages.parameters();
  result.host_bytes = stages.host_bytes();
  result.trains = stages.trains();
  add_warnings(job, result);
  return result;
}

}  // namespace plimsoll::step::transformers

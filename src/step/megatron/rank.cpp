// SPDX-License-Identifier: Apache-2.0
#include "step/megatron/rank.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "job/effective.h"
#include "step/cublas_workspace.h"
#include "step/megatron/adapter.h"
#include "step/megatron/rank_state.h"
#include "step/megatron/unmodelled.h"
#include "step/schedule.h"

namespace plimsoll::step::megatron {

namespace {

// Buffers that appear with the first use of a kernel and stay.
struct Workspaces {
  explicit Workspaces(const job::Job& job) {
    const bool hopper = job.cluster.gpu.is_hopper_or_newer();
    const bool te = job.kernels.implementation == job::Implementation::kTransformerEngine;
    // One cuBLAS workspace per handle: forward thread and autograd thread (facts megatron-anatomy.md 7).
    handle = cublas_workspace(job);
    // Without TE and Apex Megatron falls back to torch's AdamW, so a fused one means that TE is installed;
    // the MoE router then multiplies through TE in the local implementation too.
    const bool te_router = job.model.has_moe() && job.optimizer.impl == job::OptimizerImpl::kFused;
    if (te || te_router) library = hopper ? 32 * kMiB + kKiB : 4 * kMiB;
    // Userbuffers have three of their own, one for each of their streams.
    if (te && job::overlaps_tensor_messages(job)) library += 3 * library;
    if (te && job.model.has_moe() && job.moe.grouped_gemm) library += hopper ? 128 * kMiB : 16 * kMiB;
  }
  std::int64_t handle = 0;
  std::int64_t library = 0;  // Transformer Engine's own
};

class Rank final : public PassRunner {
 public:
  Rank(const job::Job& job, RankLayers& layers, const std::vector<job::Chunk>& chunks, std::int64_t pp_rank, Tape& tape,
       bool folded, StateOfRank& state)
      : job_(job),
        tape_(tape),
        folded_(folded),
        layers_(layers),
        chunks_(chunks),
        choices_(layers.choices()),
        end_sizes_(layers.end_sizes()),
        state_(state),
        workspaces_(job) {
    shape_.stages = job.parallel.pipeline;
    shape_.rank = pp_rank;
    shape_.chunks = job.parallel.virtual_pipeline;
    shape_.micro_batches = job.micro_batches;
    shape_.group = job.parallel.microbatch_group_size.value_or(job.parallel.pipeline);
    shape_.message = end_sizes_.h;
    shape_.overlap = job.parallel.overlap_p2p;
    shape_.prefetches = job.parallel.overlap_p2p && job.parallel.overlap_p2p_warmup_flush;
    shape_.extra_warmup = job.parallel.overlap_moe_expert_comm;
    shape_.deallocates_outputs = job.parallel.deallocate_outputs;
    shape_.gpipe = job.parallel.schedule == job::PipelineSchedule::kGpipe;
    shape_.micro_batches = micro_batches_to_simulate(shape_);
    if (folded) {
      profiles_.reserve(chunks.size());
      for (const job::Chunk& chunk : chunks) profiles_.push_back(&layers.profile(chunk));
    } else {
      build_chunks();
    }
    tokens_.resize(chunks.size());
  }

  RankResult run() {
    state_.build(tape_);
    // The second step holds all that the first does, and the moments; only autotuning is the first's own.
    // So a folded run needs no first step when the moments outweigh it.
    skips_first_ = folded_ && state_.moment_bytes() >= autotune_bytes() &&
                   job_.kernels.cuda_graphs != job::CudaGraphs::kFullIteration;
    if (folded_ && (!skips_first_ || job_.offload.activations || job_.offload.fine_grained)) build_chunks();
    for (int step = 0; step < 2; ++step) {
      first_step_ = step == 0;
      tape_.enter(first_step_ ? Phase::kFirstForward : Phase::kForward);
      state_.begin_step(tape_);
      if (first_step_) first_use();
      if (first_step_ && skips_first_) {
        leave_as_after_a_step();
      } else {
        tape_.begin_span();
        run_passes();
      }
      tape_.take_armed();
      tape_.at(Operation::kReduce);
      tape_.touch(state_.reduce_scratch(), Name::kReduceBucket);
      Tensor graph_pool = full_iteration_pool();
      tape_.enter(first_step_ ? Phase::kFirstUpdate : Phase::kUpdate);
      state_.update(tape_);
      tape_.free(graph_pool);
    }
    RankResult result;
    result.parameters = state_.parameters();
    const AdaptedLinears adapted = adapted_linears(job_);
    result.trains = !adapted.any || adapted.qkv || adapted.proj || adapted.fc1 || adapted.fc2;
    result.warnings = folded_ ? std::vector<std::string>{} : unmodelled(job_);
    result.host_bytes = state_.host_bytes() + offloaded_peak();
    return result;
  }

  Tensor forward(std::int64_t chunk, std::int64_t micro_batch, const Tensor& received) override {
    const auto slot = static_cast<std::size_t>(chunk);
    tape_.pass(first_step_ ? Phase::kFirstForward : Phase::kForward, chunk, micro_batch);
    // What the first step does more, a chunk does in its first pass.
    const bool is_usual = !first_step_ || (!in_flight_[slot].passes.empty() && !tape_.has_armed());
    if (folded_ && is_usual) {
      tape_.apply(profiles_[slot]->forward);
      return profiles_[slot]->output;
    }
    layers_.new_batch(tape_, tokens_[slot]);
    Flight& flight = in_flight_[slot];
    Pass& pass = flight.passes.emplace_back();
    Written& written = flight.written.emplace_back();
    pass.received = received;
    const bool is_first = first_step_ && flight.passes.size() == 1;
    if (is_first) pass.rope_table = end_sizes_.rope_table;
    pass.autotune = std::exchange(forward_autotune_, 0);
    written.is_plain = tape_.recording() && !is_first && pass.autotune == 0 && !tape_.has_armed();
    written.begin = tape_.place();
    if (const auto& usual = usual_[slot]; usual && written.is_plain) {
      written.is_repeated = true;
      const Tape::Renumbered input{usual->received, usual->received + 1, received.id};
      tape_.repeat(usual->forward, {&input, received ? 1U : 0U});
      return renumbered(usual->output, usual->forward.begin.id, written.begin.id);
    }
    written.output = builders_[slot].forward(tape_, pass, is_first);
    written.end = tape_.place();
    return written.output;
  }

  Tensor backward(std::int64_t chunk, std::int64_t micro_batch) override {
    const auto slot = static_cast<std::size_t>(chunk);
    tape_.pass(first_step_ ? Phase::kFirstBackward : Phase::kBackward, chunk, micro_batch);
    const bool defers = defers_wgrad(slot);
    const bool is_usual = !first_step_ || in_flight_[slot].next == in_flight_[slot].passes.size();
    if (folded_ && is_usual) {
      const ChunkProfile& profile = *profiles_[slot];
      tape_.apply(defers ? profile.deferring_backward : profile.backward);
      if (defers) deferred_.insert(deferred_.end(), {profile.deferred_input, profile.deferred_grad});
      return profile.grad;
    }
    if (!has_backward_workspace_) first_backward();
    Flight& flight = in_flight_[slot];
    Pass& pass = flight.passes[flight.next];
    const Written& written = flight.written[flight.next];
    ++flight.next;
    if (written.is_repeated) {
      const Usual& usual = *usual_[slot];
      const std::uint32_t begin = tape_.place().id;
      const Tape::Renumbered others[] = {
          {usual.forward.begin.id, usual.forward.end.id, written.begin.id},
          {usual.received, usual.received + 1, pass.received.id},
      };
      tape_.repeat(usual.backward, {others, pass.received ? 2U : 1U});
      return renumbered(usual.grad, usual.backward.begin.id, begin);
    }
    pass.autotune = 0;
    pass.backward_autotune = std::exchange(backward_autotune_, 0);
    pass.ends.defers_wgrad = defers;
    const bool is_plain = written.is_plain && tape_.recording() && pass.backward_autotune == 0 && !tape_.has_armed();
    const Tape::Place begin = tape_.place();
    Tensor grad = builders_[slot].backward(tape_, pass);
    if (defers) deferred_.insert(deferred_.end(), {pass.ends.deferred_input, pass.ends.deferred_grad});
    if (is_plain && !usual_[slot]) note_usual(slot, written, begin, pass.received, grad);
    pass = Pass{};
    return grad;
  }

 private:
  // Every pass of the step, or what is known of them.
  void run_passes() {
    const bool is_later = skips_first_ && !first_step_ && !job_.parallel.defer_embedding_wgrad;
    ProfileStore* const store = is_later ? layers_.common_store() : nullptr;
    if (const Profile* known = store != nullptr ? store->find(shape_, profiles_) : nullptr) {
      tape_.apply(*known);
      return;
    }
    const std::int64_t before = tape_.live();
    defer_unsimulated();
    run_pipeline(shape_, tape_, *this, held_);
    drain_deferred();
    if (store != nullptr) store->keep(shape_, profiles_, {tape_.span_peak() - before, tape_.live() - before});
  }

  // What writes passes layer by layer; a folded run whose first step is skipped has no use for it.
  void build_chunks() {
    builders_.reserve(chunks_.size());
    for (const job::Chunk& chunk : chunks_) builders_.push_back(layers_.builder(chunk, folded_));
    in_flight_.resize(chunks_.size());
    usual_.resize(chunks_.size());
  }

  // Where a pass through a chunk was written.
  struct Written {
    Tape::Place begin, end;  // of its forward
    Tensor output;
    bool is_plain = false;  // nothing happened in it that happens once
    bool is_repeated = false;
  };
  // A pass through a chunk as every later one is, but for its micro-batch: written once by the layers, then copied.
  struct Usual {
    Tape::Piece forward, backward;
    Tensor output, grad;
    std::uint32_t received = 0;  // id of the input
  };
  [[nodiscard]] static Tensor renumbered(Tensor tensor, std::uint32_t from, std::uint32_t to) {
    tensor.id = tensor ? tensor.id - from + to : 0;
    return tensor;
  }
  // What leaves the GPU between the passes, or waits for the end of the step, is not in the two pieces alone.
  void note_usual(std::size_t slot, const Written& written, const Tape::Place& begin, const Tensor& received,
                  const Tensor& grad) {
    const bool is_whole =
        !job_.offload.activations && !job_.offload.fine_grained && !job_.parallel.defer_embedding_wgrad;
    if (!is_whole || !tape_.may_repeat() || !tape_.recording()) return;
    Usual usual{tape_.piece(written.begin, written.end), tape_.piece(begin, tape_.place()), written.output, grad,
                received.id};
    const Tape::Renumbered others[] = {{received.id, received.id + 1, 0}, {written.begin.id, written.end.id, 0}};
    const std::size_t input = received ? 1 : 0;
    const auto is_own = [](const Tensor& tensor, const Tape::Piece& piece) {
      return !tensor || (tensor.id >= piece.begin.id && tensor.id < piece.end.id);
    };
    if (tape_.touches_only(usual.forward, {others, input}) &&
        tape_.touches_only(usual.backward, {others + 1 - input, 1 + input}) && is_own(usual.output, usual.forward) &&
        is_own(usual.grad, usual.backward))
      usual_[slot] = usual;
  }

  // The output layer's weight gradients of the first micro-batches wait for the pipeline's flush.
  [[nodiscard]] bool defers_wgrad(std::size_t slot) const {
    if (!job_.parallel.defer_embedding_wgrad || !chunks_[slot].has_loss || shape_.stages == 1) return false;
    const auto waiting = static_cast<std::int64_t>(deferred_.size() / 2);
    return job_.parallel.wgrad_deferral_limit == 0 || waiting < job_.parallel.wgrad_deferral_limit;
  }

  // Micro-batches that are not simulated would have deferred theirs before the last ones run.
  void defer_unsimulated() {
    const bool has_loss = chunks_.back().has_loss;
    if (!job_.parallel.defer_embedding_wgrad || !has_loss || shape_.stages == 1) return;
    const std::int64_t limit =
        job_.parallel.wgrad_deferral_limit == 0 ? job_.micro_batches : job_.parallel.wgrad_deferral_limit;
    const std::int64_t beyond = std::min(limit, job_.micro_batches) - shape_.micro_batches;
    if (beyond <= 0) return;
    unsimulated_ = tape_.alloc(beyond * (end_sizes_.logits + end_sizes_.h), Name::kLogitsGrad);
  }

  void drain_deferred() {
    tape_.at(Operation::kHead);
    for (Tensor& tensor : deferred_) tape_.free(tensor);
    deferred_.clear();
    tape_.free(unsimulated_);
  }

  void first_use() {
    tape_.arm_after_product(workspaces_.handle, Name::kCublas);
    tape_.arm_after_product(workspaces_.library, Name::kCublas);
    state_.quantise_weights(tape_);
    (void)tape_.alloc(layer_graph_buffers(), Name::kGraphPool);
    (void)tape_.alloc(reload_buffers(), Name::kOtherWorkspace);
    // Megatron's own attention multiplies into one buffer that all layers share and nobody frees: the product's unused
    // addend (facts megatron-memory.md 4.3).
    if (!choices_.te && choices_.unfused_attention) (void)tape_.alloc(layers_.widest_scores(), Name::kOtherWorkspace);
    if (choices_.gathers && !choices_.te) tape_.arm_before_product(end_sizes_.hf, Name::kGatherBuffer);
    forward_autotune_ = backward_autotune_ = autotune_bytes();
  }

  void first_backward() {
    tape_.arm_after_product(workspaces_.handle, Name::kCublas);
    has_backward_workspace_ = true;
  }

  [[nodiscard]] std::int64_t autotune_bytes() const { return choices_.compiled_kernels ? end_sizes_.autotune : 0; }

  // A graph of the whole iteration keeps its pool: what forward and backward needed at their peak is not
  // there for the optimizer step (facts megatron-memory.md 9).
  [[nodiscard]] Tensor full_iteration_pool() {
    if (job_.kernels.cuda_graphs != job::CudaGraphs::kFullIteration) return {};
    return tape_.alloc(tape_.span_peak() - tape_.live(), Name::kGraphPool);
  }

  // Per-layer graphs hold static input, output and their gradients at every layer's boundary, once for every pass in
  // flight (facts megatron-memory.md 9): with a pipeline that is many times what one pass needs. How many modules of a
  // layer are captured does not show in the golden values, whose figures are of the last stage, with one pass in
  // flight.
  [[nodiscard]] std::int64_t layer_graph_buffers() const {
    if (job_.kernels.cuda_graphs != job::CudaGraphs::kPerLayer) return 0;
    std::int64_t layers = 0;
    for (const job::Chunk& chunk : chunks_) layers += chunk.num_layers;
    const std::int64_t passes = std::min(warmup_passes(shape_) + 1, job_.micro_batches * shape_.chunks);
    return 4 * end_sizes_.h * (layers * passes / std::max<std::int64_t>(1, shape_.chunks));
  }

  // cpu_offloading_double_buffering keeps two layers' reload buffers for good.
  [[nodiscard]] std::int64_t reload_buffers() const {
    if (!job_.offload.activations || !job_.offload.double_buffering) return 0;
    return 2 * layers_.widest_offload();
  }

  // Offloaded activations of the passes in flight wait on the host.
  [[nodiscard]] std::int64_t offloaded_peak() {
    if (!job_.offload.activations && !job_.offload.fine_grained) return 0;
    std::int64_t widest = 0;
    for (const ChunkBuilder& builder : builders_) widest = std::max(widest, builder.offloaded_bytes());
    return widest * (std::min(warmup_passes(shape_) + 1, job_.micro_batches * shape_.chunks));
  }

  // What a pipeline run leaves behind: workspaces, tokens, the held messages of every receiving chunk.
  void leave_as_after_a_step() {
    first_backward();
    for (Tokens& tokens : tokens_) {
      layers_.new_batch(tape_, tokens);
      (void)tape_.alloc(end_sizes_.rope_table, Name::kRopeTable);
    }
    held_.chunk_input.resize(chunks_.size());
    if (shape_.stages == 1) return;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (chunks_[i].has_embedding) continue;
      held_.chunk_input[i] = {tape_.alloc(shape_.message, Name::kMessage), tape_.alloc(shape_.message, Name::kMessage)};
    }
  }

  const job::Job& job_;
  Tape& tape_;
  bool folded_;
  RankLayers& layers_;
  const std::vector<job::Chunk>& chunks_;
  const Choices& choices_;
  const EndSizes& end_sizes_;
  StateOfRank& state_;
  Workspaces workspaces_;
  PipelineShape shape_;
  std::vector<ChunkBuilder> builders_;
  std::vector<const ChunkProfile*> profiles_;  // folded
  // Passes of a chunk in the order of their forwards; backwards run in the same order.
  struct Flight {
    std::vector<Pass> passes;
    std::vector<Written> written;
    std::size_t next = 0;
  };
  std::vector<std::optional<Usual>> usual_;  // by chunk
  std::vector<Flight> in_flight_;
  std::vector<Tokens> tokens_;
  HeldMessages held_;
  std::vector<Tensor> deferred_;
  Tensor unsimulated_;
  bool first_step_ = true;
  bool skips_first_ = false;  // a folded run goes straight to the second
  bool has_backward_workspace_ = false;
  std::int64_t forward_autotune_ = 0;
  std::int64_t backward_autotune_ = 0;
};

}  // namespace

RankResult run_rank(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank, Tape& tape,
                    bool folded) {
  if (folded) return FoldedRanks(job, layout).run(pp_rank, tape, profile_state(job, layout, pp_rank));
  const std::vector<job::Chunk>& chunks = layout.ranks[static_cast<std::size_t>(pp_rank)];
  RankLayers layers(job);
  WalkedState walked(job, chunks, pp_rank);
  return Rank(job, layers, chunks, pp_rank, tape, folded, walked).run();
}

FoldedRanks::FoldedRanks(const job::Job& job, const job::PipelineLayout& layout, ProfileStore* store)
    : job_(job), layout_(layout), layers_(job, store) {}

RankResult FoldedRanks::run(std::int64_t pp_rank, Tape& tape, const StateProfile& state) {
  FoldedState folded(state);
  return Rank(job_, layers_, layout_.ranks[static_cast<std::size_t>(pp_rank)], pp_rank, tape, true, folded).run();
}

}  // namespace plimsoll::step::megatron

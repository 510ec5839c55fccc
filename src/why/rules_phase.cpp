// SPDX-License-Identifier: Apache-2.0
// Device memory ran out: what the run was doing, and what went before.
#include "base/bytes.h"
#include "why/rules.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

using S = const Situation&;

// A line before it says so, no frame: what it announced may have ended without a word.
bool only_announced(S s) { return !s.frames_say(s.phase); }
bool weights_move(S s) {
  return s.phase == Phase::kLoad && !s.is_loading() && !s.frames().wraps && !s.frames().converts &&
         !s.frames().offload_hook;
}
bool reads_checkpoint(S s) { return s.phase == Phase::kLoad && s.is_loading(); }
// A job that was told of several devices, and reads the checkpoint onto one that is not the first: a rank of several,
// each of which reads it whole.
bool reads_onto_other_device(S s) { return reads_checkpoint(s) && s.oom().gpu.value_or(0) > 0; }
bool at_request_time(S s) {
  const bool elsewhere = s.phase == Phase::kLoad || s.phase == Phase::kKvInit || s.phase == Phase::kGraphCapture ||
                         s.phase == Phase::kWakeUp || s.phase == Phase::kResume || s.phase == Phase::kSave;
  return s.frames().serving && !elsewhere && !s.frames().converts && !s.frames().profiles &&
         !s.findings.engine_in_trainer;
}
// A serving engine speaks, and no frame shows what it was doing: a server that runs has filled its share, not all.
bool engine_between_requests(S s) {
  const Speaker* speaker = speaker_of(s.findings.framework());
  return speaker != nullptr && speaker->serves && !s.root.has_frames && !s.trained() && s.in_step() &&
         !s.findings.engine_in_trainer && s.live_share().value_or(1) < 0.93;
}
// A server had been answering requests: its weights and its cache had found their place.
bool answers_requests(S s) {
  return s.findings.figures.contains("requests") && !s.trained() && s.in_step() && !s.frames().serving &&
         !engine_between_requests(s) && !s.findings.engine_in_trainer;
}
// Graphs are captured when weights and cache have found their place, and few trainers have any.
bool graphs_were_captured(S s) {
  return s.sum.private_pools > 0 && !s.sum.has_limit && !s.root.has_frames && !s.trained() && s.in_step() &&
         !engine_between_requests(s) && !answers_requests(s) && !s.findings.engine_in_trainer;
}
// The engine's own advice beside its refusal.
bool names_engine_share(S s) {
  return has_any(s.root.text, {"max_num_seqs", "max-num-seqs", "gpu_memory_utilization", "gpu-memory-utilization",
                               "mem-fraction-static", "mem_fraction_static"}) &&
         !s.findings.engine_in_trainer && s.phase != Phase::kGraphCapture;
}
bool no_figures(S s) { return !s.sum.known || s.sum.reserved == 0; }
bool first_backward(S s) { return s.phase == Phase::kBackward && s.root.steps_before == 0; }
// The log shows that the loop was entered, and no step of it.
bool loop_began(S s) { return (s.root.entered_loop || s.root.marker == Phase::kTrain) && s.root.steps_before == 0; }
// Samples of a step, as the log says; 0: not known.
std::int64_t batch_of(S s) {
  const auto batch = s.findings.figures.find("batch");
  return batch == s.findings.figures.end() ? 0 : batch->second;
}
bool computes_batch(S s) { return s.in_step() && !s.is_loading() && !s.frames().serving; }
bool leaks(S s) { return s.growth.rising && !s.growth.is_host && !s.reserved_rises_alone; }
// Weights, states and an ordinary batch had fitted a hundred times, and the message says no more.
bool late_without_figures(S s) {
  // One line of a counter that is far on stands for the steps before it.
  const bool far_on = s.root.step.value_or(0) >= 1000;
  return s.in_step() && (s.root.has_frames || s.several_steps() || far_on) && s.root.steps_before > 0 &&
         s.root.step.value_or(0) >= 100 && no_figures(s) && !s.growth.rising;
}
bool tries_largest_batch(S s) { return s.frames().profiles && (s.phase == Phase::kKvInit || s.frames().serving); }
// A process that holds nothing yet is refused its first bytes: the device was full before it came.
bool first_touch(S s) {
  const bool early = s.phase == Phase::kLoad || s.phase == Phase::kResume || s.phase == Phase::kStartup ||
                     s.phase == Phase::kData || s.phase == Phase::kConfig;
  return s.is_below_allocator() && early && !s.trained() && !s.findings.is_multi_rank() && !s.frames().pins &&
         !(s.root.marker == Phase::kLoad && s.root.bar_unfinished);
}
// PyTorch and PaddlePaddle ask tensor by tensor, and few weights but the embeddings of the largest vocabularies have a
// gibibyte. Other runtimes ask for a whole program's or a whole file's at once. Asked only where the size of the device
// is not known.
bool larger_than_weights(S s) {
  const bool by_tensor = has_any(s.root.text, {"tried to allocate", "memory on gpu "}) &&
                         s.oom().allocator != Allocator::kXla && s.oom().allocator != Allocator::kTensorFlow;
  return by_tensor && !s.oom().total && s.oom().request.value_or(0) >= kGiB;
}
bool large(S s, double part) { return s.request_share().value_or(0) >= part; }

const Rule kRules[] = {
    // Phases that surround a step.
    {Cause::kEvalAccumulation, 5.0, [](S s) { return s.phase == Phase::kEvaluate && s.trained(); },
     "training ran, and it happened in evaluation"},
    {Cause::kEvalAccumulation, 3.6, [](S s) { return s.phase == Phase::kEvaluate && !s.trained(); },
     "it happened in evaluation"},
    {Cause::kCheckpointSpike, 5.0, [](S s) { return s.phase == Phase::kSave && !only_announced(s); },
     "it happened while the state was gathered or saved"},
    {Cause::kCheckpointSpike, 5.0, [](S s) { return s.phase == Phase::kResume && !only_announced(s); },
     "it happened while the state was restored"},
    {Cause::kCheckpointSpike, 4.0, [](S s) { return s.phase == Phase::kSave && only_announced(s); },
     "the last thing announced was that the state is saved"},
    {Cause::kCheckpointSpike, 4.0, [](S s) { return s.phase == Phase::kResume && only_announced(s); },
     "the last thing announced was that the state is restored"},
    {Cause::kCheckpointSpike, 3.0,
     [](S s) {
       return s.root.marker == Phase::kResume && s.in_step() && s.root.has_frames && s.root.steps_before == 0;
     },
     "the state had just been restored: the copy that was read may still lie on the device"},
    {Cause::kCudaGraphMemory, 5.0, [](S s) { return s.phase == Phase::kGraphCapture; },
     "it happened while graphs were captured"},
    {Cause::kRlColocation, 5.5, [](S s) { return s.phase == Phase::kWakeUp; },
     "the rollout engine was waking up while the trainer held the device"},
    {Cause::kKvCacheTooSmall, 2.6, [](S s) { return s.phase == Phase::kKvInit; },
     "it happened while the KV cache was sized or made"},
    {Cause::kGenuineCapacity, 1.4, tries_largest_batch,
     "weights and the largest batch exceed the device without a cache"},
    {Cause::kActivationBound, 1.0, tries_largest_batch, "the largest batch did not fit, and there is no cache yet"},
    {Cause::kActivationBound, 1.4, [](S s) { return tries_largest_batch(s) && large(s, 0.2); },
     "the largest batch wanted a fifth of the device in one piece"},
    {Cause::kServingHeadroom, 4.2, at_request_time,
     "the engine was running: its cache leaves too little for a request"},

    {Cause::kServingHeadroom, 3.0, engine_between_requests,
     "a serving engine has filled its share of the device, and wanted more beside it"},
    {Cause::kServingHeadroom, 3.0, answers_requests,
     "a server was answering requests, and one of them wanted more than lies beside its cache"},
    {Cause::kServingHeadroom, 2.8, graphs_were_captured,
     "graphs lie in their pools, as in an engine that has started: a request wanted more than lies beside its cache"},
    {Cause::kServingHeadroom, 3.4, names_engine_share, "the engine itself speaks of its share of the device"},

    // The optimizer.
    {Cause::kOptimizerStateBound, 5.6,  // right in all eight of the first sights that said so
     [](S s) { return s.frames_say(Phase::kOptimizerStep) || s.frames_say(Phase::kOptimizerInit); },
     "it happened in the optimizer's step or while its states were made"},
    {Cause::kOptimizerStateBound, 3.4,
     [](S s) {
       return (s.phase == Phase::kOptimizerStep || s.phase == Phase::kOptimizerInit) && !s.frames_say(s.phase);
     },
     "forward and backward were done, and the optimizer came next"},

    // Weights.
    {Cause::kModelLoadSpike, 4.6, [](S s) { return reads_checkpoint(s) && s.findings.is_multi_rank(); },
     "every rank reads the whole checkpoint onto its device"},
    {Cause::kModelLoadSpike, 3.8, [](S s) { return reads_checkpoint(s) && !s.findings.is_multi_rank(); },
     "the checkpoint is being read onto the device"},
    {Cause::kModelLoadSpike, 1.4, [](S s) { return reads_onto_other_device(s) && !s.findings.is_multi_rank(); },
     "it is not the first device: others have the checkpoint too"},
    {Cause::kModelLoadSpike, 4.2, [](S s) { return s.frames().wraps && !s.trained() && s.findings.is_multi_rank(); },
     "modules are made whole on each rank before they are split"},
    {Cause::kModelLoadSpike, 4.2, [](S s) { return s.frames().converts && !s.trained() && !reads_checkpoint(s); },
     "the weights are there, and their conversion makes a second copy"},
    {Cause::kModelLoadSpike, 0.6, [](S s) { return s.frames().converts && !s.trained() && reads_checkpoint(s); },
     "the weights are converted while they are read"},
    {Cause::kModelLoadSpike, 2.6, [](S s) { return s.frames().wraps && !s.trained() && !s.findings.is_multi_rank(); },
     "modules are made whole before they are split"},
    {Cause::kGenuineCapacity, 1.6, [](S s) { return s.frames().wraps && !s.trained() && !s.findings.is_multi_rank(); },
     "the weights alone do not fit while they are taken over"},
    {Cause::kModelLoadSpike, 1.4, weights_move, "it happened while weights were moved"},
    {Cause::kModelLoadSpike, 2.0, [](S s) { return weights_move(s) && s.findings.is_multi_rank() && !s.trained(); },
     "every rank takes the weights whole before they are split"},
    {Cause::kGenuineCapacity, 2.2, weights_move, "the weights alone do not fit while they are moved or made"},
    {Cause::kGenuineCapacity, 0.8, reads_checkpoint, "the weights may be too large for the device"},
    // In none of the labelled logs was it a second copy where one process alone had filled the device with weights.
    {Cause::kGenuineCapacity, 2.2,
     [](S s) {
       return reads_checkpoint(s) && !s.findings.is_multi_rank() && !reads_onto_other_device(s) &&
              s.live_share().value_or(0) >= 0.9;
     },
     "the device is full of the weights that one process has read so far"},

    // The step.
    {Cause::kActivationBound, 1.0, [](S s) { return s.frames_say(Phase::kForward) && s.phase == Phase::kForward; },
     "it failed in the forward pass"},
    // XLA makes one program of the step and its weights.
    {Cause::kActivationBound, 0.8,
     [](S s) {
       return s.frames_say(Phase::kTrain) && s.phase == Phase::kTrain && s.oom().allocator != Allocator::kXla;
     },
     "it failed in a step of the training"},
    {Cause::kActivationBound, 1.3, [](S s) { return s.in_step() && s.frames().attention_scores; },
     "it failed making attention scores or their mask"},
    {Cause::kActivationBound, 1.5, [](S s) { return s.in_step() && s.frames().loss; },
     "it failed making logits or their loss"},
    {Cause::kActivationBound, 0.6, [](S s) { return s.in_step() && large(s, 0.08); }, "one large tensor was asked for"},
    {Cause::kActivationBound, 0.6, [](S s) { return s.in_step() && larger_than_weights(s); },
     "a tensor of a gibibyte or more was asked for, as hardly any weight is"},
    // By definition: where a smaller batch would do, it is activations; where one sample is too much, it is not.
    {Cause::kActivationBound, 0.9, [](S s) { return computes_batch(s) && batch_of(s) >= 2; },
     "the batch has several samples: fewer need less"},
    {Cause::kGenuineCapacity, -0.4, [](S s) { return computes_batch(s) && batch_of(s) >= 2; },
     "the batch has several samples"},
    {Cause::kGenuineCapacity, 0.9, [](S s) { return computes_batch(s) && batch_of(s) == 1 && !large(s, 0.08); },
     "one sample at a time, and still too much"},
    {Cause::kActivationBound, -0.4, [](S s) { return computes_batch(s) && batch_of(s) == 1 && !large(s, 0.08); },
     "the batch is one sample already"},
    {Cause::kActivationBound, 1.5,
     [](S s) { return s.oom().allocator == Allocator::kTensorFlow && !has_shape_of_weight(s.root.text); },
     "one tensor of the graph could not be made"},
    {Cause::kGenuineCapacity, 1.0,
     [](S s) { return s.oom().allocator == Allocator::kTensorFlow && has_shape_of_weight(s.root.text); },
     "the tensor that could not be made is a weight"},
    {Cause::kActivationBound, 1.2, [](S s) { return s.phase == Phase::kBackward; },
     "it failed in backward, where every saved activation is alive"},
    {Cause::kActivationBound, 0.5,
     [](S s) { return s.in_step() && s.root.steps_before > 0 && (s.root.has_frames || s.several_steps()); },
     "weights and states had fitted: steps were done before it"},
    {Cause::kGenuineCapacity, 0.6, [](S s) { return s.phase == Phase::kBackward; }, "gradients add to the weights"},
    {Cause::kGenuineCapacity, 2.2,
     [](S s) { return s.frames().generates && !s.trained() && !s.frames().attention_scores && !s.has_no_figures(); },
     "no training is going on: the model and one request exceed the device"},
    // Where a forward pass was reached, the weights had fitted.
    {Cause::kGenuineCapacity, 1.0,
     [](S s) {
       return s.frames().generates && !s.trained() && !s.frames().attention_scores && s.has_no_figures() &&
              s.phase != Phase::kForward;
     },
     "no training is going on: the model and one request exceed the device"},
    {Cause::kFirstBackward, 4.2, [](S s) { return first_backward(s) && no_figures(s) && loop_began(s); },
     "the first backward failed after a forward that fitted, without figures"},
    // Nobody counts steps in such a log: of five first sights one was the first.
    {Cause::kFirstBackward, 2.4, [](S s) { return first_backward(s) && no_figures(s) && !loop_began(s); },
     "it failed in backward after a forward that fitted, and no step is shown before it"},
    {Cause::kFragmentation, -0.8, [](S s) { return loop_began(s) && large(s, 0.2); },
     "no step was done: the cache had no time to fall to pieces"},
    {Cause::kFirstBackward, 1.6, [](S s) { return first_backward(s) && !no_figures(s); }, "no step was done before it"},
    {Cause::kFirstBackward, 1.0,
     [](S s) { return s.phase == Phase::kBackward && s.root.steps_before > 0 && no_figures(s); },
     "it failed in backward, without figures"},
    {Cause::kOtherProcess, 1.4,
     [](S s) {
       return (s.phase == Phase::kStartup || s.phase == Phase::kConfig || s.phase == Phase::kData) && !s.trained() &&
              !s.sum.known;
     },
     "it failed before this job held anything"},

    {Cause::kOtherProcess, 3.2, first_touch, "the first bytes on the device were refused: it was full before"},
    // Until PyTorch 1.1 the allocator itself said no more: alone such a message decides nothing.
    {Cause::kOtherProcess, 0.5,
     [](S s) { return s.is_below_allocator() && s.phase == Phase::kUnknown && !s.trained(); },
     "a call around the allocator was refused, and nothing says that this process held anything"},

    // What went before.
    {Cause::kMemoryLeak, 6.0, [](S s) { return leaks(s) && !s.growth.is_noisy && s.growth.gauge != "peak"; },
     "memory in use rises from step to step"},
    {Cause::kMemoryLeak, 4.6, [](S s) { return leaks(s) && !s.growth.is_noisy && s.growth.gauge == "peak"; },
     "the peak rises from step to step"},
    {Cause::kMemoryLeak, 3.6, [](S s) { return leaks(s) && s.growth.is_noisy && s.findings.shapes != 1; },
     "memory in use rises on the whole"},
    {Cause::kMemoryLeak, 5.2, [](S s) { return leaks(s) && s.growth.is_noisy && s.findings.shapes == 1; },
     "memory in use rises on the whole, at constant shapes"},
    {Cause::kLongestBatch, 4.6,
     [](S s) {
       return s.in_step() && s.growth.flat && s.root.steps_before >= 5 && s.steady_share() < 0.85 &&
              !s.reserved_rises_alone;
     },
     "memory stood still over many steps, then one step wanted more"},
    {Cause::kLongestBatch, 4.0, [](S s) { return s.in_step() && s.restarts_at_same_step; },
     "every restart fails at the same step: the batch there is too long"},
    {Cause::kLongestBatch, 4.2,
     [](S s) {
       return s.in_step() && s.several_steps() && large(s, 0.25) && !s.frames().loss && !s.frames().attention_scores;
     },
     "steps had fitted, and then one tensor wanted a quarter of the device or more"},
    {Cause::kLongestBatch, 1.6, [](S s) { return s.in_step() && s.several_steps() && s.findings.shapes >= 3; },
     "the shapes of batches vary"},
    {Cause::kLongestBatch, 2.2,
     [](S s) { return s.in_step() && s.several_steps() && s.growth.varies && !s.growth.rising; },
     "what a step needs varies by a quarter and more"},
    {Cause::kMemoryLeak, 1.2,
     [](S s) { return s.in_step() && s.several_steps() && s.growth.varies && !s.growth.rising; },
     "what a step needs is not the same as before"},
    {Cause::kLongestBatch, 1.2, [](S s) { return s.in_step() && s.root.steps_before >= 50; },
     "many steps before it were fine"},
    {Cause::kGenuineCapacity, -0.3, [](S s) { return s.in_step() && s.several_steps(); },
     "steps were done: weights and states fit"},
    {Cause::kGenuineCapacity, -1.2, [](S s) { return s.in_step() && s.several_steps() && s.has_no_figures(); },
     "steps were done, and no figure says that the device was full before this one"},
    {Cause::kOtherProcess, -0.8, [](S s) { return s.in_step() && s.several_steps() && s.has_no_figures(); },
     "steps were done: this process had its share"},
    {Cause::kLongestBatch, 1.0,
     [](S s) { return s.in_step() && s.several_steps() && s.has_no_figures() && !late_without_figures(s); },
     "steps had fitted, and the message says no more"},
    {Cause::kLongestBatch, 1.0,
     [](S s) { return s.in_step() && s.root.steps_before > 0 && s.root.step.value_or(0) >= 100; },
     "it came late: a hundred steps or more were fine"},
    {Cause::kLongestBatch, 1.3, [](S s) { return late_without_figures(s) && s.root.has_frames; },
     "a hundred steps or more were fine, and no figure speaks of anything that grew"},
    // One line counts to a hundred; several show that the loop went on.
    {Cause::kLongestBatch, 1.3, [](S s) { return late_without_figures(s) && s.several_steps(); },
     "a hundred steps or more were fine, and no figure speaks of anything that grew"},
    // Of seven such logs four were a long batch and three a leak; ordinary batches had fitted.
    {Cause::kMemoryLeak, 2.4, [](S s) { return late_without_figures(s) && !s.growth.flat; },
     "a hundred steps or more were fine: something may have piled up, and no figure says that it did not"},
    {Cause::kActivationBound, -0.6, late_without_figures, "a hundred ordinary batches had fitted"},
    {Cause::kGenuineCapacity, -0.6, late_without_figures, "a hundred ordinary batches had fitted"},
    {Cause::kLongestBatch, 0.8,
     [](S s) { return s.in_step() && s.root.steps_before > 0 && s.root.step.value_or(0) >= 1000; },
     "it came late: a thousand steps or more were fine"},
    {Cause::kLongestBatch, 0.5, [](S s) { return s.in_step() && s.several_steps(); }, "steps before it were fine"},

    // Memory that is not the caching allocator's.
    {Cause::kPinnedHost, 6.5, [](S s) { return s.frames().pins && !s.oom().total; },
     "it happened while host memory was page-locked"},
    {Cause::kManagedMemory, 6.5, [](S s) { return s.frames().managed; },
     "memory that host and device share was asked for"},
};

}  // namespace

std::span<const Rule> phase_rules() { return kRules; }

}  // namespace plimsoll::why

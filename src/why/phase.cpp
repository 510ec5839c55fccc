// SPDX-License-Identifier: Apache-2.0
#include "why/phase.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.h"
#include "why/frame_details.h"
#include "why/frame_words.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

bool names_evaluation(std::string_view name) {
  if (name_has_any(name, {"args", "arguments", "config", "options", "params", "inputs", "model", "schema", "call",
                          "maybe", "train", "training"}))
    return false;  // "train_and_evaluate" does both
  if (name_has_any(name, {"evaluate", "evaluation", "eval", "validate", "validation", "val", "valid", "prediction"}))
    return name != "eval";  // model.eval() switches a mode
  return name == "test" || name == "predict" || name == "predict_step" || name == "test_step" || name == "test_epoch" ||
         name == "test_loop" || name == "run_test" || name == "score_all" || name == "compute_metrics";
}

bool is_evaluation(const Frame& frame) {
  if (frame.function == "eval") return true;
  return names_evaluation(frame.function) || (!has_text(frame.code, "config") && names_evaluation(callee(frame.code)));
}

bool names_save(std::string_view name) {
  if (name_has_any(name, {"load", "maybe"})) return false;
  return name_has_any(name, {"save", "consolidate", "export"}) || (name_has(name, "state") && name_has(name, "dict"));
}

bool is_save(const Frame& frame) { return names_save(frame.function) || names_save(callee(frame.code)); }

bool names_resume(std::string_view name) {
  if (name_has_any(name, {"resume", "restore"}) || (name_has(name, "load") && name_has_any(name, {"best", "last"})))
    return true;
  return name_has(name, "load") &&
         name_has_any(name, {"checkpoint", "optimizer", "optim", "ckpt", "training", "trainer"}) &&
         !name_has_any(name, {"model", "weights", "shard", "shards", "sharded", "args", "config"});
}

bool is_resume(const Frame& frame) {
  // The optimizer's own reader of its states.
  if (has_any(frame.path, {"torch/optim/", "torch\\optim\\"}) &&
      has_any(frame.function, {"load_state_dict", "process_value", "_cast"}))
    return true;
  // The reader of a file puts each tensor back where it was, weights as well as states.
  if (has_any(frame.path, {"torch/serialization", "torch\\serialization"})) return false;
  return names_resume(frame.function) || names_resume(callee(frame.code)) ||
         (has_text(frame.code, "load(") && has_any(frame.code, {"resume", "optim"})) ||
         has_any(frame.code, {"optimizer.load_state_dict", "opt.load_state_dict", "optim.load_state_dict"});
}

// A function that makes the optimizer, and with it the states: "_configure_zero_optimizer".
bool makes_optimizer(std::string_view name) {
  return name_has(name, "optimizer") && !name_has_any(name, {"model", "load", "scheduler"}) &&
         name_has_any(name, {"configure", "create", "build", "setup", "make", "init", "initialize"});
}

bool is_backward(const Frame& frame) {
  // "forward_backward_no_pipelining" and "training_step_and_backward" do more than that.
  const bool named = name_has(frame.function, "backward") && !name_has_any(frame.function, {"forward", "and"}) &&
                     std::count(frame.function.begin(), frame.function.end(), '_') <= 3;
  return named || has_any(frame.code, {".backward(", "run_backward(", "autograd.grad("});
}

bool is_optimizer(const Frame& frame) {
  if (makes_optimizer(frame.function) || makes_optimizer(callee(frame.code))) return true;
  if (name_has(frame.function, "load") || has_text(frame.code, "load_state_dict") || is_resume(frame)) return false;
  // Gradients are clipped before the optimizer touches anything.
  if (name_has(frame.function, "clip") || has_text(file_name(frame.path), "clip_grad")) return false;
  if (has_any(frame.path,
              {"torch/optim/", "torch\\optim\\", "bitsandbytes/optim", "fused_adam", "/optimizers/", "/optimizer/"}) &&
      !has_text(frame.path, "lr_scheduler"))
    return true;
  if (name_has_any(file_name(frame.path), {"optim", "optimizer"}) && !is_backward(frame)) return true;
  const std::string_view code = frame.code;
  for (std::size_t at = find_word(code, ".step("); at != kNone; at = find_word(code, ".step(", at + 1)) {
    const std::string_view receiver = code.substr(at > 24 ? at - 24 : 0, at > 24 ? 24 : at);
    if (has_any(receiver, {"optim", "opt", "engine", "scaler", "adam"}) && !has_text(receiver, "schedul")) return true;
  }
  return (name_has_any(frame.function, {"init"}) && name_has(frame.function, "state") &&
          !name_has(frame.function, "rng")) ||
         has_any(frame.function, {"optimizer_step", "_multi_tensor_", "_single_tensor_", "take_model_step",
                                  "initialize_optimizer", "init_optimizer", "optimizer_states"}) ||
         has_any(code, {"exp_avg", "_foreach_"});
}

bool is_capture(const Frame& frame) {
  if (has_any(file_name(frame.path), {"cudagraph", "cuda_graph"})) return true;
  return has_any(frame.function, {"capture_model", "cudagraph", "cuda_graph", "graphed_callables", "capture_begin",
                                  "graph_capture", "capture_graph", "capture_step"}) ||
         has_any(frame.code, {"capture_begin(", "make_graphed_callables(", "torch.cuda.graph(", "cuda_graph.replay",
                              "capture_model("}) ||
         name_has(frame.function, "capture");
}

bool is_wake_up(const Frame& frame) {
  return has_any(frame.function, {"wake_up", "wakeup", "resume_memory_occupation"}) ||
         has_any(frame.code, {"wake_up(", ".wake(", "resume_memory_occupation("}) || has_text(frame.path, "cumem");
}

bool is_kv_init(const Frame& frame) {
  return has_any(frame.function,
                 {"kv_cache", "available_blocks", "init_memory_pool", "initialize_cache", "available_memory"}) ||
         has_any(frame.code, {"initialize_kv_cache", "num_available_blocks", "initialize_cache(", "init_memory_pool("});
}

bool is_data(const Frame& frame) {
  return find_word(file_name(frame.path), "data") == 0 ||
         has_any(frame.path, {"dataloader", "utils/data/", "_utils/worker", "/datasets/", "utils\\data\\"}) ||
         name_has_any(frame.function, {"collate", "tokenize", "dataset", "preprocess"}) ||
         has_any(frame.code, {"for batch in loader", "dataset.map(", "next(data"});
}

bool is_collective(const Frame& frame) {
  return has_any(frame.path, {"distributed_c10d", "torch/distributed/nn", "comm/comm.py"}) ||
         name_has_any(frame.function, {"barrier", "all_reduce", "all_gather", "reduce_scatter", "broadcast"});
}

// "run_model", "_run_models", "call_network": a function that has the model compute.
bool runs_model(std::string_view name) {
  return name_has_any(name, {"model", "models", "network", "net"}) && name_has_any(name, {"run", "call", "apply"});
}

// "loss_by_feat", "compute_loss": what is computed of the model's output.
bool makes_loss(std::string_view name) {
  return name_has_any(name, {"loss", "losses"}) &&
         !name_has_any(name, {"log", "load", "save", "print", "backward", "plot", "update", "step"});
}

// "encode_batch", "cache_batch_latents": a batch is computed; who makes, takes or moves one computes nothing.
bool computes_batch(std::string_view name) {
  return name_has(name, "batch") &&
         name_has_any(name, {"cache", "encode", "embed", "infer", "extract", "generate", "score", "denoise"});
}

bool is_forward(const Frame& frame) {
  if (makes_loss(frame.function) || computes_batch(frame.function)) return true;
  if (runs_model(frame.function) || runs_model(callee(frame.code))) return true;
  const std::string_view called = callee(frame.code);
  const bool calls = name_has(called, "forward") && !name_has(called, "backward");
  return name_has(frame.function, "forward") || calls || frame.function == "_call_impl" ||
         frame.function == "_wrapped_call_impl" || frame.function == "__call__" ||
         frame.code.find(" model(") != kNone || frame.code.find(" self.model(") != kNone ||
         frame.code.starts_with("model(") ||
         has_any(frame.code, {"self.net(", "forward_call(", "forward_backward(", "train_step(", "training_step("});
}

bool is_compile(const Frame& frame) {
  return has_any(frame.path, {"_inductor", "_dynamo", "jax/_src/compiler", "pxla.py", "triton/compiler"}) ||
         name_has_any(frame.function, {"compile", "lower"});
}

bool is_startup(const Frame& frame) {
  return has_any(frame.function,
                 {"init_process_group", "set_device", "_lazy_init", "init_device", "initialize_megatron"}) ||
         has_any(frame.code, {"init_process_group(", "set_device("});
}

// A function that runs steps of a training: "run_training_batch", "train_one_epoch", "_inner_training_loop".
bool trains(const Frame& frame) {
  return name_has_any(frame.function, {"train", "training"}) &&
         name_has_any(frame.function, {"step", "batch", "epoch", "loop"});
}

struct Kind {
  Phase phase;
  bool (*matches)(const Frame&);
};

// What one frame says by itself: the first that matches.
constexpr std::array<Kind, 15> kKinds = {{
    {Phase::kWakeUp, is_wake_up},
    {Phase::kGraphCapture, is_capture},
    {Phase::kKvInit, is_kv_init},
    {Phase::kOptimizerStep, is_optimizer},
    {Phase::kBackward, is_backward},
    {Phase::kEvaluate, is_evaluation},
    {Phase::kResume, is_resume},
    {Phase::kSave, is_save},
    {Phase::kLoad, is_shard_load},
    {Phase::kForward, is_forward},
    {Phase::kData, is_data},
    {Phase::kConfig, is_config},
    {Phase::kCollective, is_collective},
    {Phase::kCompile, is_compile},
    {Phase::kStartup, is_startup},
}};

Phase phase_of_frame(const Frame& frame) {
  for (const Kind& kind : kKinds)
    if (kind.matches(frame)) {
      const bool makes =
          kind.phase == Phase::kOptimizerStep &&
          (has_any(frame.function, {"__init__", "init_optimizer", "initialize_optimizer", "get_megatron_optimizer"}) ||
           makes_optimizer(frame.function) || makes_optimizer(callee(frame.code)));
      return makes ? Phase::kOptimizerInit : kind.phase;
    }
  return Phase::kUnknown;
}

// Phases in the order in which they decide. Those of the first row surround a step: the outermost of them is what the
// run was doing, whatever ran inside. Of the others the innermost frame decides.
const std::vector<std::vector<Phase>>& precedence() {
  static const std::vector<std::vector<Phase>> kRows = {
      {Phase::kWakeUp, Phase::kGraphCapture, Phase::kEvaluate, Phase::kSave, Phase::kResume, Phase::kKvInit},
      {Phase::kOptimizerStep, Phase::kOptimizerInit, Phase::kBackward},
      {Phase::kLoad},
      {Phase::kForward},
      {Phase::kData},
      {Phase::kConfig},
      {Phase::kCollective},
      {Phase::kCompile},
      {Phase::kStartup}};
  return kRows;
}

std::string shown(const Frame& frame) {
  return fmt::format("{} ({})", cut_text(frame.function, 60), cut_text(file_name(frame.path), 60));
}

// A second copy of the weights that stays, not one for the length of a product.
bool converts_for_good(const std::vector<Frame>& frames) {
  return std::any_of(frames.begin(), frames.end(),
                     [](const Frame& frame) { return converts(frame) && !has_text(frame.function, "dequant"); });
}

// An optimizer may be given the whole step as a closure and call it before it does anything itself, as Lightning has
// it: what is inside of the closure is forward or backward, whoever called it.
void forget_callers_of_closure(const std::vector<Frame>& frames, std::vector<Phase>& phases) {
  std::size_t end = frames.size();
  while (end > 0 && !name_has(frames[end - 1].function, "closure") && !has_text(frames[end - 1].code, "closure("))
    --end;
  std::replace(phases.begin(), phases.begin() + static_cast<std::ptrdiff_t>(end), Phase::kOptimizerStep,
               Phase::kUnknown);
}

}  // namespace

std::string_view phase_name(Phase phase) {
  static constexpr std::array<std::string_view, 18> kNames = {
      "unknown",        "startup",        "config",   "data",    "load",       "resume",
      "kv_init",        "graph_capture",  "compile",  "wake_up", "forward",    "backward",
      "optimizer_init", "optimizer_step", "evaluate", "save",    "collective", "train"};
  return kNames[static_cast<std::size_t>(phase)];
}

FramesPhase phase_of_frames(const std::vector<Frame>& frames) {
  FramesPhase found;
  read_details(frames, found);
  std::vector<Phase> phases;
  phases.reserve(frames.size());
  for (const Frame& frame : frames) {
    phases.push_back(phase_of_frame(frame));
    const Phase phase = phases.back();
    if (phase != Phase::kUnknown && (found.stack.empty() || found.stack.back() != phase)) found.stack.push_back(phase);
  }
  if (!found.stack.empty()) found.inner = found.stack.back();
  forget_callers_of_closure(frames, phases);
  // Evaluation has no backward pass and no optimizer: a function that is named for it does more than that.
  // A sanity check comes before any training: what fails in it is the first forward pass.
  const auto updates = [](Phase phase) { return phase == Phase::kBackward || phase == Phase::kOptimizerStep; };
  const auto checks = [](const Frame& frame) { return name_has(frame.function, "sanity"); };
  if (std::any_of(phases.begin(), phases.end(), updates) || std::any_of(frames.begin(), frames.end(), checks))
    std::replace(phases.begin(), phases.end(), Phase::kEvaluate, Phase::kUnknown);
  for (const std::vector<Phase>& wanted : precedence())
    for (std::size_t k = 0; k < frames.size(); ++k) {
      // What surrounds a step decides from the outside, what happens in it from the inside.
      const bool outside = &wanted == &precedence().front();
      const std::size_t i = outside ? k : frames.size() - 1 - k;
      if (std::find(wanted.begin(), wanted.end(), phases[i]) == wanted.end()) continue;
      found.phase = phases[i];
      found.decisive = shown(frames[i]);
      // Quantized weights are widened for each product, and gone after it.
      if (found.phase == Phase::kForward && !converts_for_good(frames)) found.converts = false;
      return found;
    }
  if (found.computes) {
    found.phase = Phase::kForward;
    found.decisive = shown(frames.back());
    return found;
  }
  if (found.moves_module || found.builds_module) {
    found.phase = Phase::kLoad;
    if (!frames.empty()) found.decisive = shown(frames.back());
    return found;
  }
  // Nothing says what the step was doing, and yet it was one.
  if (const auto step = std::find_if(frames.rbegin(), frames.rend(), trains); step != frames.rend()) {
    found.phase = Phase::kTrain;
    found.decisive = shown(*step);
  }
  return found;
}

}  // namespace plimsoll::why

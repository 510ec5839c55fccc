// SPDX-License-Identifier: Apache-2.0
// What the run was doing: read from the frames of a traceback, else from the marker lines before it.
// The names are those of the --json answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::why {

enum class Phase : std::uint8_t {
  kUnknown,
  kStartup,
  kConfig,
  kData,
  kLoad,
  kResume,
  kKvInit,
  kGraphCapture,
  kCompile,
  kWakeUp,
  kForward,
  kBackward,
  kOptimizerInit,
  kOptimizerStep,
  kEvaluate,
  kSave,
  kCollective,
  kTrain,
};

[[nodiscard]] std::string_view phase_name(Phase phase);

struct Frame {
  std::string path;
  std::string function;
  std::string code;  // the source line under it, where printed
};

// What the frames of one traceback say, outermost first.
struct FramesPhase {
  Phase phase = Phase::kUnknown;
  Phase inner = Phase::kUnknown;  // what the innermost frame that says anything was doing inside it
  std::vector<Phase> stack;       // phases from the outermost frame to the innermost, each once
  bool attention_scores = false;  // a score matrix or a dense mask is being made
  bool loss = false;              // logits and their cross-entropy
  bool shard_load = false;        // a checkpoint is read into the model: from_pretrained, load_state_dict
  bool moves_module = false;      // Module.to(), Module.cuda(): weights as they are
  bool builds_module = false;     // constructors of layers
  bool foreach_optimizer = false;
  bool serving = false;  // frames of vLLM, SGLang and the like
  bool offload_hook = false;
  bool deepspeed = false;
  bool fsdp = false;
  bool checks_config = false;  // validate_args, __post_init__ and the like
  bool custom_all_reduce = false;
  bool pins = false;         // page-locks host memory
  bool semaphore = false;    // a semaphore of processes was being made: its file lies in /dev/shm
  bool managed = false;      // memory that host and device share
  bool converts = false;     // weights are changed after they were read: quantised, repacked, cast
  bool wraps = false;        // FSDP, ZeRO or the like take the modules over
  bool profiles = false;     // an engine tries its largest batch before it sizes its cache
  bool generates = false;    // inference: generate(), a pipeline of diffusers
  bool convolution = false;  // the innermost frame is a convolution's
  bool memory_saver = false;
  bool computes = false;          // the innermost line of code is an expression of tensors
  bool device_allocator = false;  // the innermost frame is an allocator of a device's
  std::string decisive;           // "evaluate (trainer.py)": the frame that decided
};

[[nodiscard]] FramesPhase phase_of_frames(const std::vector<Frame>& frames);

// A line that announces a phase ("saving checkpoint", "evaluation starts"), else kUnknown. Settings such
// as "checkpoint interval: 500" announce nothing.
[[nodiscard]] Phase phase_of_marker(std::string_view text);

}  // namespace plimsoll::why

// SPDX-License-Identifier: Apache-2.0
// A post-training run: a trainer, inference servers and the loop between them, every knob with a value. Keys have
// Telescope's names where it has the knob, since its list is the longest (facts rl-and-inference.md 1); other
// frameworks' names for the same knob are aliases. A reader starts from defaults_for(framework).
// Invariant: after complete() the two pools sum to the GPUs (disaggregated) or are both all of them (colocated).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/cluster.h"
#include "inference/server.h"
#include "job/job.h"
#include "model/architecture.h"
#include "rl/choices.h"

namespace plimsoll::rl {

// Tokens of a prompt or of a completion.
struct Lengths {
  double mean = 0;           // after the cap, as a run's metrics report it
  double cv = 0;             // standard deviation / mean of the lognormal before the cap
  std::int64_t maximum = 0;  // longer ones are cut here; 0: no cap
  std::string histogram;     // file with lines "length count"; empty: lognormal
  std::vector<std::pair<std::int64_t, std::int64_t>> counts;  // of the histogram, ascending lengths
};

struct Algorithm {
  std::int64_t group_size = 0;             // samples per prompt; 0: not known, an error in complete()
  std::int64_t prompts_per_step = 0;       // groups per trainer step; likewise
  std::int64_t minibatches = 1;            // optimizer steps per batch
  std::int64_t epochs = 1;                 // passes over the batch
  bool reference_pass = false;             // a frozen model's log-probabilities: one forward, its weights
  bool critic = false;                     // a value model of the same size is trained too
  bool logprob_pass = false;               // old log-probabilities recomputed by the trainer: one forward
  bool discard_zero_advantage = true;      // groups whose rewards are all equal are dropped
  double zero_advantage_share = 0;         // of groups
  double reward_seconds = 0;               // from the last token to the reward
  double prompt_seconds = 0;               // to prepare a prompt; hidden where prompts are fetched ahead
  std::optional<double> overhead_seconds;  // of a step, beside what is modelled; unset: none
};

struct Packing {
  std::int64_t seq_len = 0;  // tokens of a bin; 0: complete() makes it the longest sample
  std::int64_t pad_to_multiple_of = 1;
  bool enabled = true;  // false: every sample is padded to seq_len
};

// How far generation may run ahead, and what becomes of samples that are too old (facts rl-and-inference.md 3).
struct Staleness {
  Mode mode = Mode::kAsync;
  // Telescope max_async_rollout, verl staleness_threshold, NeMo-RL max_trajectory_age_steps, OpenRLHF
  // async_queue_size: batches that may be generated on weights that the trainer has yet to produce.
  double limit = -1;                       // negative: not known, an error in complete() unless the run is synchronous
  std::int64_t max_off_policy_steps = -1;  // weight updates that a sample may live through; -1: any number
  bool in_flight_updates = true;           // weights change under running samples (partial rollouts); else they finish
  std::int64_t sync_every = 1;             // trainer steps per weight update: verl trigger_parameter_sync_step
};

struct Lanes {
  std::int64_t prompts_per_server = 0;  // request lanes of a server: this * group_size; 0: what the engine takes
  bool individual = true;               // a lane is one sample; else a group takes and frees its lanes together
  bool free_after_generation = true;    // else a lane is held until the reward is there
  bool prefetch = true;
  std::int64_t prefetch_buffer = 24;
};

struct WeightSync {
  SyncMode mode = SyncMode::kFlattenedBucket;
  std::int64_t bucket_bytes = 256LL << 20;
  bool cpu_staging = false;
  bool pin_memory = true;
  bool free_grad_buffers = true;  // Megatron; during the gather only
};

// Ray's placement of the two pools: PACK keeps a pool's ranks together, so that tensor parallelism and the last hop
// of a broadcast stay on NVLink; SPREAD deals them over the nodes.
struct Placing {
  RayStrategy trainer = RayStrategy::kPack;
  RayStrategy inference = RayStrategy::kPack;
};

struct Run {
  // Defined once, not in every source that copies or drops one: they are long.
  Run();
  Run(const Run&);
  Run(Run&&) noexcept;
  Run& operator=(const Run&);
  Run& operator=(Run&&) noexcept;
  ~Run();

  std::string name;  // where it was read
  Framework framework = Framework::kGeneric;
  std::string model_name;  // catalogue name or path of a config.json
  model::Architecture model;
  cluster::Cluster cluster;  // all GPUs of the run
  Placement placement = Placement::kDisaggregated;
  std::int64_t trainer_gpus = 0;    // 0 before complete(): what the other pool leaves
  std::int64_t inference_gpus = 0;  // GPUs, not servers
  Lengths prompt;
  Lengths completion;  // its maximum is max_tokens
  Algorithm algorithm;
  Packing packing;
  Staleness staleness;
  Lanes lanes;
  WeightSync sync;
  Placing placing;
  SleepLevel sleep = SleepLevel::kLevel2;  // colocated: what a server drops while the trainer works
  bool offload_trainer = true;             // colocated: parameters and optimizer go to the host during generation
  std::int64_t loss_chunk = 0;             // tokens of a chunk of a fused head and loss; 0: full logits

  inference::Server server;
  job::Framework trainer_framework = job::assumed_framework(job::Assumed::kForManyGpus);
  std::vector<std::pair<std::string, std::string>> trainer_keys;  // [trainer]: keys and values of a training job
  job::Job trainer;  // made of them by complete(): micro-batch one bin of seq_len tokens

  std::set<std::string, std::less<>> given;  // canonical keys that a file or flag set
  std::vector<std::string> warnings;

  [[nodiscard]] std::int64_t samples_per_step() const { return algorithm.group_size * algorithm.prompts_per_step; }
  [[nodiscard]] std::int64_t gpus_per_server() const { return server.tensor * server.pipeline; }
  [[nodiscard]] std::int64_t servers() const { return inference_gpus / gpus_per_server(); }
  // Requests that the loop keeps in flight at one server; 0: it sets no limit.
  [[nodiscard]] std::int64_t lanes_per_server() const { return lanes.prompts_per_server * algorithm.group_size; }
  [[nodiscard]] bool is_colocated() const { return placement == Placement::kColocated; }
  [[nodiscard]] bool has(std::string_view key) const { return given.find(key) != given.end(); }
};

// A run with the framework's own defaults, without model, GPUs and lengths.
[[nodiscard]] Run defaults_for(Framework framework);

// What the framework sets in a training job of this kind, as keys and values.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> default_trainer_keys(Framework framework,
                                                                                    job::Framework trainer);

// Splits the GPUs where the user did not, makes the trainer's job, and refuses contradictions.
[[nodiscard]] Status complete(Run& run);

}  // namespace plimsoll::rl

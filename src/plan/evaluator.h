// SPDX-License-Identifier: Apache-2.0
// The price of points in memory and time, one split after another. What is the same for all points of a split (the
// layout, the state of its ranks) is measured once; what is the same for many splits (the job with a state's keys, the
// rules that it can break) once per search. One per thread: pricing writes into the evaluator's own jobs.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/pipeline_layout.h"
#include "lever/world.h"
#include "memory/answer.h"
#include "plan/space.h"
#include "rules/rules.h"
#include "step/program.h"
#include "timing/machine.h"
#include "timing/price_store.h"
#include "timing/step_time.h"

namespace plimsoll::plan {

struct Priced {
  Candidate candidate;
  double seconds = 0;
  std::int64_t peak = 0;  // bytes of tensors on the worst rank, and what lies beside PyTorch
};

// What the GPUs of a job hold beside its step: a reference model, a copy of the weights that is sent to servers. Bytes
// on top of what the step needs at its peak.
struct Beside {
  // No more than there will be, without the walked step: `step` bytes are its tensors and what lies beside PyTorch.
  std::function<std::int64_t(const job::Job&, std::int64_t step)> least;
  std::function<std::int64_t(const job::Job&, const memory::RankAnswer& worst)> walked;
};

class Evaluator {
 public:
  // `world` must outlive it; none: the built-in one.
  Evaluator(const job::Job& job, const Space& space, const lever::World* world = nullptr,
            const Beside* beside = nullptr);

  [[nodiscard]] const lever::World& world() const { return world_; }

  // Why a point cannot be, seen without making its job: the batch does not divide, the pipeline has too few
  // micro-batches. Empty: nothing is known against it.
  [[nodiscard]] std::string_view refusal(const Candidate& candidate) const;

  // The completed job of a point, valid until the next call, or why it contradicts itself.
  [[nodiscard]] Result<const job::Job*> make(const Candidate& candidate);
  // Of the point last made: the rule of the framework that forbids it.
  [[nodiscard]] Status allowed();

  // Of the point last made. The floor is what its state alone needs: no point of the split needs less. Stops counting
  // once it exceeds `enough`; then there is no peak to ask for.
  [[nodiscard]] Result<std::int64_t> floor(std::int64_t enough = std::numeric_limits<std::int64_t>::max());
  [[nodiscard]] double seconds() const;
  // Of any job of this cluster, with the pipeline simulated.
  [[nodiscard]] Result<timing::StepTime> simulated(const job::Job& job) const;
  // Stops counting once it exceeds `enough`. More than any GPU has where the hosts cannot hold their share.
  [[nodiscard]] std::int64_t peak(std::int64_t enough) const;

 private:
  // Candidates that the framework sees with the same keys given.
  struct Family {
    job::Job job;
    bool is_made = false;
    std::unique_ptr<rules::Checker> checker;  // made when a point of it is first asked whether it is allowed
    std::optional<Candidate> made;            // last
    bool has_model = false;                   // its model is derived and checked
  };
  [[nodiscard]] Family& family_of(const Candidate& candidate);
  [[nodiscard]] Status enter_split();
  void measure_state(std::int64_t enough);

  const job::Job& given_;
  const Space& space_;
  const lever::World& world_;
  timing::Machine machine_;
  std::int64_t learned_bytes_;  // beside PyTorch, on top of the rules of thumb; the same for all points
  double learned_factor_;       // on seconds
  double learned_tensors_;      // on the bytes of tensors
  const Beside* beside_;
  std::vector<std::int16_t> activation_class_;  // variants with the same keys share one
  std::size_t activation_classes_ = 0;
  std::vector<Family> families_;  // made when first asked for
  // The point last made, and what is known of its split.
  Candidate candidate_;
  const job::Job* job_ = nullptr;
  Family* family_ = nullptr;
  std::int64_t outside_ = 0;  // bytes beside PyTorch
  bool split_is_known_ = false;
  Candidate split_;
  job::PipelineLayout layout_;
  std::vector<std::int64_t> ranks_;  // those that can be the worst
  // By number of the state: it is the same for all switches of a split.
  struct RankStates {
    std::vector<step::StateProfile> profiles;
    std::int64_t floor = 0;  // without what lies beside PyTorch
    bool is_known = false;
    bool is_cut = false;  // some rank exceeded what was enough, and the rest were not looked at
  };
  std::vector<RankStates> states_;
  step::Known known_;  // layers and chunks of earlier points
  mutable timing::PriceStore known_prices_;
};

// What a point needs when the hosts cannot hold their share: it does not fit any GPU.
inline constexpr std::int64_t kHostTooSmall = std::int64_t{1} << 61;

// The ranks of a layout of which one is the worst: of neighbours that hold the same, the earlier has more micro-batches
// in flight.
[[nodiscard]] std::vector<std::int64_t> ranks_to_price(const job::Job& job, const job::PipelineLayout& layout);

// The price of one point without the memory of others, or why it has none.
[[nodiscard]] Result<Priced> price(const job::Job& job, const Space& space, const Candidate& candidate);

}  // namespace plimsoll::plan

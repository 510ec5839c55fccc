// SPDX-License-Identifier: Apache-2.0
// What happens to model state once per step or micro-batch: gradient reduction, parameter gathering, the update.
#pragma once

#include <vector>

#include "job/job.h"
#include "job/pipeline_layout.h"
#include "timing/machine.h"

namespace plimsoll::timing {

// Elements that one rank holds of each data-parallel domain.
struct Elements {
  double dense = 0;
  double expert = 0;
  double trained_share = 1;  // LoRA trains little of it
};

// Counts the elements of pipeline ranks; each kind of layer is counted once.
class ElementCounter {
 public:
  explicit ElementCounter(const job::Job& job);
  [[nodiscard]] Elements of(const std::vector<job::Chunk>& chunks) const;

 private:
  const job::Job& job_;
  std::vector<Elements> kinds_;
  double embedding_ = 0;
  double mtp_projection_ = 0;
  double trained_share_ = 1;
};

// Seconds of passes behind which messages can hide, per micro-batch.
struct Window {
  double forward = 0;
  double backward = 0;
};

struct StateCost {
  double data = 0;       // exposed messages of a step
  double optimizer = 0;  // update, zeroing and scaling of gradients
  double offload = 0;    // weights that come from the host for every pass, what the pass does not hide
};

[[nodiscard]] StateCost state_cost(const job::Job& job, const Machine& machine, const Elements& elements,
                                   const Window& window, bool alone);

}  // namespace plimsoll::timing

// SPDX-License-Identifier: Apache-2.0
// torchao's Float8Linear under torchtitan: which linears are of that kind (facts other-frameworks-memory.md 6.5).
#pragma once

#include <cstdint>

#include "job/job.h"
#include "step/transformers/adapted.h"
#include "step/transformers/weights.h"

namespace plimsoll::step::transformers {

class Float8Linears {
 public:
  explicit Float8Linears(const job::Job& job);
  // names: of the module as Transformers calls it; layer: -1 for the head. A weight that is not of the kind stays as it
  // is.
  void choose(Weight& weight, Aliases names, std::int64_t layer, std::int64_t in, std::int64_t out) const;

 private:
  const job::Job& job_;
  Float8 kind_ = Float8::kNone;
  bool gathers_ = false;
  bool skips_small_ = false;
};

}  // namespace plimsoll::step::transformers

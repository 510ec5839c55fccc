// SPDX-License-Identifier: Apache-2.0
// One real rank of a job on one real GPU (python/plimsoll_prove.py): what it is asked, what it measured, and how far
// the prediction was off.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "live/compare.h"
#include "live/prediction.h"

namespace plimsoll::live {

// The job as the program takes it. What it cannot run is refused with the key that stands in the way: a proof of
// another job would be worse than none.
[[nodiscard]] Result<std::string> proof_spec(const Prediction& prediction, std::int64_t pp_rank, std::int64_t steps,
                                             const std::string& scratch);

struct Proof {
  std::int64_t pp_rank = 0;
  std::string device;
  std::string torch;
  std::string transformers;
  std::int64_t total = 0;
  std::int64_t steps = 0;
  Quantity allocated;
  Quantity reserved;
  Quantity outside;
  Quantity seconds;  // with messages that return at once where the job has several ranks
  std::string out_of_memory;

  // Both peaks within `share` of what was predicted.
  [[nodiscard]] bool holds(double share = 0.001) const;
};

[[nodiscard]] Result<Proof> read_proof_result(const std::string& text, const Prediction& prediction,
                                              std::int64_t pp_rank);

// The file that fit --proof takes (src/answer/proof.h reads it).
[[nodiscard]] std::string proof_json(const Proof& proof, const Prediction& prediction);

// The program that runs it.
[[nodiscard]] std::string_view proof_program();

}  // namespace plimsoll::live

// SPDX-License-Identifier: Apache-2.0
// What a run holds while its state is brought together on rank 0, to be saved or because it was saved so
// (facts other-frameworks-memory.md 6.6).
#pragma once

#include <cstdint>

#include "step/transformers/model.h"

namespace plimsoll::step::transformers {

// Whether a sharded run saves whole tensors.
[[nodiscard]] bool gathers_state(const job::Job& job);

// Bytes on every GPU: one parameter after the other under FSDP2, one unit after the other under FSDP1.
[[nodiscard]] std::int64_t gathered_at_once(const Model& model);

// Bytes on the host of rank 0: first the whole model, then the whole optimizer. `states` are those of this rank.
[[nodiscard]] std::int64_t gathered_on_host(const Model& model, std::int64_t states);

}  // namespace plimsoll::step::transformers

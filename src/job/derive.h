// SPDX-License-Identifier: Apache-2.0
// The two halves of complete(): what a framework derives from what it was given, and what it refuses.
#pragma once

#include "base/result.h"
#include "job/job.h"

namespace plimsoll::job {

// Fills the fields that follow from others (precision switches, attention backend, virtual stages, ...), the model
// among them unless the job has the one that an earlier call left there.
enum class ModelOfJob { kGiven, kDerived };
[[nodiscard]] Status derive(Job& job, ModelOfJob model = ModelOfJob::kGiven);

// What frameworks derive precision with. half_precision() is the one that is switched on; a dtype that is given stays.
[[nodiscard]] std::optional<DType> half_precision(const Job& job);
void use_precision(Job& job, DType params, DType compute);
// Weights and products in that half precision, or in fp32.
void train_in_half(Job& job);

// Of these what adapters say (check_adapter.cpp).
[[nodiscard]] Status check_adapter(const Job& job);

// Refuses combinations that the framework would refuse or that describe no job. May add warnings.
[[nodiscard]] Status check(Job& job);
// check_trained.cpp: parts that are trained, and models beside the one that is.
[[nodiscard]] Status check_trained(Job& job);

}  // namespace plimsoll::job

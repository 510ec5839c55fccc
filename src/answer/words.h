// SPDX-License-Identifier: Apache-2.0
// Words that the report and the JSON of fit share.
#pragma once

#include <string>

#include "job/job.h"
#include "memory/answer.h"

namespace plimsoll::answer {

// "backward, micro-batch 3, chunk 2, layer 17, fc2"; parts that do not apply are left out.
[[nodiscard]] std::string describe(const step::Moment& moment, bool has_chunks);

// "tp 4, pp 4, vpp 5, dp 2": sizes of one are left out; "one GPU per replica" where all are.
[[nodiscard]] std::string describe_split(const job::Job& job);

// Variables that the framework's own launcher sets, that decide memory, and that the job has as it sets them: what is
// assumed where no script says otherwise. "NCCL_NVLS_ENABLE=0, ..."; "" where there are none.
[[nodiscard]] std::string assumed_environment(const job::Job& job);

// A share of the capacity in percent.
[[nodiscard]] double percent_of(std::int64_t bytes, std::int64_t capacity);

}  // namespace plimsoll::answer

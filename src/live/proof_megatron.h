// SPDX-License-Identifier: Apache-2.0
// A rank of Megatron's local layers as python/plimsoll_prove.py builds it from Megatron core.
#pragma once

#include "job/job.h"
#include "live/nodes.h"

namespace plimsoll::live {

// Why the program cannot build this job; "" where it can. What it cannot build would be another job's proof.
[[nodiscard]] std::string why_megatron_is_not_provable(const job::Job& job);

// The members of the job that the program reads.
void add_megatron(const job::Job& job, std::int64_t pp_rank, Object& spec);

}  // namespace plimsoll::live

// SPDX-License-Identifier: Apache-2.0
// Any JSON as a file of measurements: every record is read or says why not, and a job that was accepted can
// be answered with a table that sums to the device and a time whose parts sum to the step. Jobs that are only
// long are left out: the walk of a thousand layers is right but slow.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "memory/answer.h"
#include "timing/step_time.h"
#include "truth/record.h"

using namespace plimsoll;

namespace {

bool is_quick(const job::Job& job) {
  std::int64_t experts = 0;
  for (const model::Layer& kind : job.model.kinds) experts = std::max(experts, kind.ffn.experts);
  return job.model.depth() <= 32 && job.parallel.pipeline <= 8 && job.parallel.virtual_pipeline <= 4 &&
         job.micro_batches <= 64 && experts <= 64 && job.parallel.microbatch_group_size.value_or(1) <= 64;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > (1U << 16)) return 0;
  const auto file = truth::read_records("fuzz", {reinterpret_cast<const char*>(data), size});
  if (!file) {
    if (file.error().message.empty()) std::abort();
    return 0;
  }
  for (const truth::Record& record : file->records) {
    if (record.id.empty()) std::abort();
    if (!record.skip.empty() || !is_quick(record.job)) continue;
    if (const auto time = timing::predict(record.job)) {
      if (!std::isfinite(time->seconds) || time->seconds <= 0 || time->parts.sum() != time->seconds) std::abort();
    }
    memory::AskedRanks asked;
    asked.pp = record.pp_rank;
    const auto answer = memory::answer(record.job, asked);
    if (!answer) break;
    const memory::RankAnswer& rank = answer->ranks.front();
    std::int64_t sum = 0;
    for (const memory::Row& row : rank.table) sum += row.bytes;
    if (sum != rank.capacity || rank.peak_allocated > rank.peak_reserved || rank.peak_allocated < 0) std::abort();
    break;
  }
  return 0;
}

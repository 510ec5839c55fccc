// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "lever/proposers.h"

namespace plimsoll::lever {

namespace {

void propose_micro_batch(const job::Job& job, std::int64_t size, Proposals& proposals) {
  job::Settings settings = {{"micro_batch_size", std::to_string(size)}};
  keep_global_batch(job, job.batch.micro_batch / size, settings);
  proposals.add(fmt::format("micro-batch {}", size), std::move(settings));
}

}  // namespace

void keep_global_batch(const job::Job& job, std::int64_t factor, job::Settings& settings) {
  if (job.batch.accumulation)
    settings.emplace_back("gradient_accumulation_steps", std::to_string(job.micro_batches * factor));
  else if (!job.batch.global_batch)
    settings.emplace_back("global_batch_size",
                          std::to_string(job.batch.micro_batch * job.data_parallel * job.micro_batches));
}

void smaller_micro_batch(const job::Job& job, Proposals& proposals) {
  if (job.batch.micro_batch % 2 == 0) propose_micro_batch(job, job.batch.micro_batch / 2, proposals);
}

void much_smaller_micro_batch(const job::Job& job, Proposals& proposals) {
  if (job.batch.micro_batch % 2 != 0) return;
  for (std::int64_t size = job.batch.micro_batch / 2; size % 2 == 0;) {
    size /= 2;
    propose_micro_batch(job, size, proposals);
  }
}

void smaller_evaluation_batch(const job::Job& job, Proposals& proposals) {
  const std::int64_t size = job.batch.eval_micro_batch;
  if (size > 1)
    proposals.add(fmt::format("evaluation batch {}", size / 2), {{"eval_micro_batch_size", std::to_string(size / 2)}});
}

void shorter_sequences(const job::Job& job, Proposals& proposals) {
  if (job.batch.seq_length % 2 == 0)
    proposals.add("half the sequence length", {{"seq_length", std::to_string(job.batch.seq_length / 2)}});
}

}  // namespace plimsoll::lever

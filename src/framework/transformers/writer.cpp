// SPDX-License-Identifier: Apache-2.0
// Trainer on one GPU or under DDP.
#include "framework/transformers/trainer.h"
#include "job/value.h"

namespace plimsoll::emit {

Result<std::vector<File>> write_transformers(const Order& order) {
  const job::Precision& precision = order.job.precision;
  PLIMSOLL_TRY(trainer, start_trainer(order, job::Framework::kTransformers));
  const bool mixed = precision.autocast || order.job.asked.bf16 || order.job.asked.fp16;
  say_precision(order.job, precision.params, mixed ? half_of(precision.compute) : std::nullopt, trainer.arguments);
  return finish_trainer(order, std::move(trainer), {}, "", torchrun(order.nodes), "");
}

}  // namespace plimsoll::emit

// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/sharder.h"

#include "step/transformers/flat.h"
#include "step/transformers/fsdp.h"
#include "step/transformers/replicated.h"
#include "step/transformers/zero.h"

namespace plimsoll::step::transformers {

std::unique_ptr<Sharder> make_sharder(Model& model, Tape& tape) {
  switch (model.job->sharding.kind) {
    case job::ShardingKind::kFsdp2:
      return std::make_unique<Fsdp2>(model, tape);
    case job::ShardingKind::kFsdp1:
      return std::make_unique<Fsdp1>(model, tape);
    case job::ShardingKind::kZero:
      return std::make_unique<Zero>(model, tape);
    case job::ShardingKind::kNone:
    case job::ShardingKind::kDdp:
    case job::ShardingKind::kMegatronFsdp:
      break;
  }
  return std::make_unique<Replicated>(model, tape);
}

}  // namespace plimsoll::step::transformers

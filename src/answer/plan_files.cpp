// SPDX-License-Identifier: Apache-2.0
#include "answer/plan_files.h"

namespace plimsoll::answer {

Result<WritablePlan> plan_to_write(Question question, emit::Target target, const plan::SearchOptions& options) {
  WritablePlan writable;
  // Each search pins a key more, so that the searches end.
  for (;;) {
    PLIMSOLL_TRY(found, plan::plan_for(question, options));
    writable.plan = std::move(found);
    if (writable.plan.best.empty() || writable.plan.interrupted) return writable;
    bool pins_more = false;
    for (const std::string& key : emit::lost_keys(writable.plan.best.front().job, target)) {
      if (question.pinned.contains(key)) continue;
      question.pinned.insert(key);
      writable.left.push_back(key);
      pins_more = true;
    }
    if (!pins_more) return writable;
  }
}

}  // namespace plimsoll::answer

// SPDX-License-Identifier: Apache-2.0
#include "serve/running.h"

#include <algorithm>

namespace plimsoll::serve {

Running::Entry::Entry(Running& running, const std::string& name) : running_(running) {
  const std::lock_guard lock(running.mutex_);
  const auto early = std::find(running.early_.begin(), running.early_.end(), name);
  const bool is_early = early != running.early_.end();
  if (is_early) running.early_.erase(early);
  place_ = running.questions_.emplace(running.questions_.end(), name, running.is_ending_ || is_early);
}

Running::Entry::~Entry() {
  const std::lock_guard lock(running_.mutex_);
  running_.questions_.erase(place_);
}

void Running::give_up(const std::string& name) {
  if (name.empty()) return;
  const std::lock_guard lock(mutex_);
  bool is_known = false;
  for (Question& question : questions_) {
    if (question.name != name) continue;
    question.is_given_up.store(true);
    is_known = true;
  }
  if (is_known) return;
  early_.push_back(name);
  if (early_.size() > kRemembered) early_.pop_front();
}

void Running::give_up_all() {
  const std::lock_guard lock(mutex_);
  is_ending_ = true;
  for (Question& question : questions_) question.is_given_up.store(true);
}

}  // namespace plimsoll::serve

// SPDX-License-Identifier: Apache-2.0
// Starting groups, and what becomes of their samples.
#include <algorithm>

#include "rl/simulator.h"

namespace plimsoll::rl {

namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

bool Simulator::may_start() const {
  if (trainer_ == TrainerState::kDraining || paused_) return false;
  if (!loop_.in_flight_updates && (trainer_ == TrainerState::kGathering || trainer_ == TrainerState::kUpdating))
    return false;
  const std::int64_t batch = loop_.prompts_per_step;
  switch (loop_.dispatch) {
    case Dispatch::kLevel:
      return real(cut_ - updates_ * loop_.sync_every) <= loop_.limit;
    case Dispatch::kQuota:
      return real(started_ - update_base_) < (1 + loop_.limit) * real(batch * loop_.sync_every) - 1e-9;
    case Dispatch::kBatch: {
      if (started_ % batch != 0) return true;
      const std::int64_t begun = started_ / batch;
      return begun == cut_ && real(begun - updates_ * loop_.sync_every) <= loop_.limit;
    }
  }
  return false;
}

bool Simulator::has_lane(std::size_t server, std::int64_t count) const {
  return loop_.lanes == 0 || used_[server] + count <= loop_.lanes || (used_[server] == 0 && count > loop_.lanes);
}

Simulator::Id Simulator::start_group() {
  Group group;
  group.first = static_cast<Id>(samples_.size());
  group.generating = group.unrewarded = loop_.group_size;
  group.updates = updates_;
  group.version = version_;
  group.start = now_;
  group.zero_advantage = loop_.zero_advantage > 0 && random_.uniform() < loop_.zero_advantage;
  const auto id = static_cast<Id>(groups_.size());
  const std::int64_t prompt = std::min(loop_.prompt.sample(random_), std::max<std::int64_t>(1, loop_.longest - 1));
  for (std::int64_t i = 0; i < loop_.group_size; ++i) {
    Sample sample;
    sample.group = id;
    sample.prompt = real(prompt);
    sample.length = real(std::min(loop_.completion.sample(random_), loop_.longest - prompt));
    sample.first_of_group = i == 0;
    group.tokens += sample.prompt + sample.length;
    samples_.push_back(sample);
  }
  groups_.push_back(group);
  active_.push_back(id);
  ++started_;
  ++counters_.started;
  return id;
}

// One sample, or one group where lanes are held by groups; false where nothing may start or no lane is free.
bool Simulator::assign_one(std::size_t server) {
  const std::int64_t count = loop_.individual_lanes ? 1 : loop_.group_size;
  if (!has_lane(server, count)) return false;
  Id& open = open_[loop_.prefix_caching ? server : 0];
  if (open == kNone) {
    if (!may_start()) return false;
    open = start_group();
    ++open_groups_;
  }
  Group& group = groups_[open];
  used_[server] += count;
  group.server = static_cast<std::int32_t>(server);
  for (std::int64_t i = 0; i < count; ++i) {
    const Id id = group.first + static_cast<Id>(group.assigned++);
    samples_[id].server = static_cast<std::int32_t>(server);
    servers_[server].add(id);
  }
  if (group.assigned == loop_.group_size) {
    open = kNone;
    --open_groups_;
  }
  return true;
}

void Simulator::fill(std::size_t server) {
  if (loop_.lanes == 0) return fill_all();
  bool changed = false;
  while (assign_one(server)) changed = true;
  if (changed) touch(server);
}

void Simulator::fill_all() {
  // Every sample that ends asks: without a group that waits for lanes or may begin there is nothing to look for.
  if (open_groups_ == 0 && !may_start()) return;
  std::vector<bool> changed(servers_.size(), false);
  for (bool any = true; any;) {
    any = false;
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      if (!assign_one(s)) continue;
      any = true;
      changed[s] = true;
    }
  }
  for (std::size_t s = 0; s < servers_.size(); ++s)
    if (changed[s]) touch(s);
}

void Simulator::touch(std::size_t server) {
  servers_[server].advance(now_);
  if (!paused_) servers_[server].admit(samples_);
  next_[server] = servers_[server].next_event(samples_);
  if (next_[server] < kNever) wakes_.push({next_[server], server});
}

void Simulator::server_event(std::size_t server) {
  servers_[server].advance(now_);
  ended_.clear();
  servers_[server].collect(samples_, ended_);
  const std::vector<Id> ended = ended_;
  for (const Id id : ended) sample_ended(id, server);
  touch(server);
}

void Simulator::sample_ended(Id id, std::size_t server) {
  Group& group = groups_[samples_[id].group];
  samples_[id].server = -1;
  --group.generating;
  if (loop_.individual_lanes) {
    release(server, 1);
  } else if (group.generating == 0) {
    release(server, loop_.group_size);
  }
  if (loop_.reward_seconds > 0) {
    rewards_.emplace_back(now_ + loop_.reward_seconds, id);
  } else {
    rewarded(id);
  }
}

void Simulator::release(std::size_t server, std::int64_t count) {
  const double delay = loop_.prompt_seconds + (loop_.free_after_generation ? 0 : loop_.reward_seconds);
  if (delay > 0) {
    releases_.emplace_back(now_ + delay, std::pair{server, count});
    return;
  }
  used_[server] -= count;
  fill(server);
}

void Simulator::rewarded(Id id) {
  const Id group_id = samples_[id].group;
  Group& group = groups_[group_id];
  if (group.state == GroupState::kActive && --group.unrewarded == 0) group_ended(group_id);
}

void Simulator::drop(Id id, std::int64_t& counter) {
  groups_[id].state = GroupState::kDropped;
  --started_;
  ++counter;
}

void Simulator::group_ended(Id id) {
  Group& group = groups_[id];
  counters_.latency += now_ - group.start;
  ++counters_.finished;
  if (group.zero_advantage) {
    drop(id, counters_.zero);
  } else if (loop_.discards_late && real(cut_ - group.updates * loop_.sync_every) > loop_.limit) {
    drop(id, counters_.late);
  } else {
    group.state = GroupState::kReady;
    ready_.push_back(id);
    if (static_cast<std::int64_t>(ready_.size()) >= loop_.prompts_per_step) {
      const auto end = ready_.begin() + loop_.prompts_per_step;
      batches_.emplace_back(ready_.begin(), end);
      ready_.erase(ready_.begin(), end);
      ++cut_;
      try_train();
    }
    if (loop_.dispatch == Dispatch::kBatch) fill_all();
    return;
  }
  // A dropped group makes room for another.
  if (loop_.dispatch != Dispatch::kLevel) fill_all();
}

void Simulator::cancel(Id id) {
  Group& group = groups_[id];
  const bool held_together = !loop_.individual_lanes && group.generating > 0;
  std::vector<std::size_t> touched;
  for (std::int64_t i = 0; i < group.assigned; ++i) {
    Sample& sample = samples_[group.first + static_cast<Id>(i)];
    if (sample.server < 0) continue;
    const auto server = static_cast<std::size_t>(sample.server);
    servers_[server].advance(now_);
    servers_[server].remove(group.first + static_cast<Id>(i), samples_);
    sample.server = -1;
    if (loop_.individual_lanes) --used_[server];
    if (std::find(touched.begin(), touched.end(), server) == touched.end()) touched.push_back(server);
  }
  if (held_together && group.server >= 0) used_[static_cast<std::size_t>(group.server)] -= loop_.group_size;
  for (Id& open : open_) {
    if (open != id) continue;
    open = kNone;
    --open_groups_;
  }
  drop(id, counters_.cancelled);
  for (const std::size_t server : touched) touch(server);
}

void Simulator::cancel_old() {
  if (loop_.max_off_policy_steps < 0) return;
  const auto is_old = [this](const Group& group) { return updates_ - group.updates > loop_.max_off_policy_steps; };
  for (const Id id : active_) {
    if (!is_old(groups_[id])) break;
    if (groups_[id].state == GroupState::kActive) cancel(id);
  }
  if (!loop_.queue_counts) return;
  std::erase_if(ready_, [&](Id id) {
    if (!is_old(groups_[id])) return false;
    drop(id, counters_.cancelled);
    return true;
  });
}

}  // namespace plimsoll::rl

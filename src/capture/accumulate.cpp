// SPDX-License-Identifier: Apache-2.0
#include "capture/accumulate.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

namespace plimsoll::capture {

namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

bool is_phase(const Capture& c, const Event& e, std::string_view name) {
  return e.kind == Kind::kPhase && c.name_of(e).ends_with(name);
}

// Forward and backward of one step: events [begin, end), up to its update.
struct Pass {
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::vector<Pass> passes_of(const Capture& c) {
  std::vector<Pass> passes;
  std::size_t begin = kNone;
  for (std::size_t i = 0; i < c.events.size(); ++i) {
    if (is_phase(c, c.events[i], "forward") && begin == kNone) begin = i;
    if (!is_phase(c, c.events[i], "update") || begin == kNone) continue;
    passes.push_back({begin, i});
    begin = kNone;
  }
  return passes;
}

class Repeater {
 public:
  explicit Repeater(const Capture& capture) : from_(capture), to_(capture) {
    to_.events.clear();
    for (const Event& e : from_.events)
      if (e.kind == Kind::kAllocate) next_ = std::max(next_, e.storage + 1);
  }

  Capture run() {
    std::size_t copied = 0;
    for (const Pass& pass : passes_of(from_)) {
      copy(copied, pass.end);
      repeat(pass);
      copied = pass.end;
    }
    copy(copied, from_.events.size());
    return std::move(to_);
  }

 private:
  void copy(std::size_t begin, std::size_t end) {
    to_.events.insert(to_.events.end(), from_.events.begin() + static_cast<std::ptrdiff_t>(begin),
                      from_.events.begin() + static_cast<std::ptrdiff_t>(end));
  }

  // The same pass again with storages of its own; those that the first one left for the update go at once.
  void repeat(const Pass& pass) {
    renumber(pass);
    const auto goes_before = last_uses(pass);
    for (std::size_t i = pass.begin; i < pass.end; ++i) {
      if (const auto found = goes_before.find(i); found != goes_before.end())
        for (const std::uint32_t storage : found->second) release(storage);
      again(from_.events[i]);
    }
    if (const auto found = goes_before.find(pass.end); found != goes_before.end())
      for (const std::uint32_t storage : found->second) release(storage);
  }

  void renumber(const Pass& pass) {
    renamed_.clear();
    for (std::size_t i = pass.begin; i < pass.end; ++i)
      if (from_.events[i].kind == Kind::kAllocate) renamed_[from_.events[i].storage] = next_++;
  }

  // Storages that outlive the pass, by the event before which they go.
  std::unordered_map<std::size_t, std::vector<std::uint32_t>> last_uses(const Pass& pass) const {
    std::unordered_map<std::uint32_t, std::size_t> used;
    for (const auto& [storage, renamed] : renamed_) used[storage] = pass.end;
    for (std::size_t i = pass.begin; i < pass.end; ++i) {
      const Event& e = from_.events[i];
      if (e.kind == Kind::kRelease) used.erase(e.storage);
      if (e.kind != Kind::kOperation) continue;
      const auto note = [&](const Tensor& tensor) {
        if (const auto found = used.find(tensor.storage); found != used.end()) found->second = i;
      };
      for (const Tensor& tensor : from_.inputs_of(e)) note(tensor);
      for (const Tensor& tensor : from_.outputs_of(e)) note(tensor);
    }
    std::unordered_map<std::size_t, std::vector<std::uint32_t>> goes_before;
    for (const auto& [storage, last] : used) goes_before[end_of_node(last, pass.end)].push_back(storage);
    for (auto& [event, storages] : goes_before) std::sort(storages.begin(), storages.end());
    return goes_before;
  }

  // The event with which another node begins. Operations of one node follow one another.
  std::size_t end_of_node(std::size_t operation, std::size_t end) const {
    if (operation >= end) return end;
    for (std::size_t i = operation + 1; i < end; ++i) {
      const Event& e = from_.events[i];
      if (e.kind == Kind::kPhase) return i;
      if (e.kind == Kind::kOperation && (e.by_engine || e.place != from_.events[operation].place)) return i;
    }
    return end;
  }

  void release(std::uint32_t storage) {
    Event e;
    e.kind = Kind::kRelease;
    e.storage = renamed_.at(storage);
    to_.events.push_back(e);
  }

  void again(Event e) {
    const auto found = renamed_.find(e.storage);
    if (e.kind == Kind::kRelease && found == renamed_.end()) return;  // it went the first time
    if (e.kind == Kind::kAllocate || e.kind == Kind::kRelease || e.kind == Kind::kResize)
      e.storage = found != renamed_.end() ? found->second : e.storage;
    if (e.kind == Kind::kOperation) {
      const std::uint32_t first = e.tensors;
      e.tensors = static_cast<std::uint32_t>(to_.tensors.size());
      for (std::uint32_t t = 0; t < e.inputs + e.outputs; ++t) {
        Tensor tensor = from_.tensors[first + t];
        if (const auto other = renamed_.find(tensor.storage); other != renamed_.end()) tensor.storage = other->second;
        to_.tensors.push_back(tensor);
      }
    }
    to_.events.push_back(e);
  }

  const Capture& from_;
  Capture to_;
  std::unordered_map<std::uint32_t, std::uint32_t> renamed_;
  std::uint32_t next_ = 0;
};

}  // namespace

bool has_accumulation(const Capture& capture) {
  for (const Pass& pass : passes_of(capture)) {
    std::size_t forwards = 0;
    for (std::size_t i = pass.begin; i < pass.end; ++i)
      forwards += is_phase(capture, capture.events[i], "forward") ? 1 : 0;
    if (forwards > 1) return true;
  }
  return false;
}

Capture with_accumulation(const Capture& capture) {
  return has_accumulation(capture) ? capture : Repeater(capture).run();
}

}  // namespace plimsoll::capture

// SPDX-License-Identifier: Apache-2.0
#include "replay/course.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "replay/event_text.h"

namespace plimsoll::replay {

namespace {

constexpr std::size_t kMostGroups = 12;
constexpr const char* kRest = "everything else";
constexpr const char* kNoStackText = "no stack";

}  // namespace

Course::Course(const History& history, const Levels& levels) : history_(history), levels_(levels) {
  std::int64_t allocated = levels.allocated_at_start();
  peak_ = allocated;
  marks_.reserve(history.ops.size() / kStride + 1);
  for (std::size_t i = 0; i < history.ops.size(); ++i) {
    if (i % kStride == 0) marks_.push_back({allocated, allocated, allocated, static_cast<std::uint32_t>(i)});
    Mark& mark = marks_.back();
    allocated += change_of(history.ops[i]);
    if (allocated > mark.highest) {
      mark.highest = allocated;
      mark.highest_op = static_cast<std::uint32_t>(i);
    }
    mark.lowest = std::min(mark.lowest, allocated);
    if (allocated > peak_) {
      peak_ = allocated;
      peak_event_ = history.ops[i].event - history.events.first;
    }
  }
}

// A free that waits for a stream counts when it is asked for: that is when allocated falls.
std::int64_t Course::change_of(const Op& op) const {
  if (op.event > levels_.last_event()) return 0;
  switch (op.kind) {
    case OpKind::kAlloc:
      return levels_.block_of(op.object);
    case OpKind::kFree:
    case OpKind::kRequestFree:
      return -levels_.block_of(op.object);
    case OpKind::kCompleteFree:
    case OpKind::kOom:
    case OpKind::kEmptyCache:
      return 0;
  }
  return 0;
}

std::int64_t Course::allocated_before(std::size_t op) const {
  if (marks_.empty()) return levels_.allocated_at_start();
  const std::size_t mark = std::min(op / kStride, marks_.size() - 1);
  std::int64_t allocated = marks_[mark].allocated;
  for (std::size_t i = mark * kStride; i < op; ++i) allocated += change_of(history_.ops[i]);
  return allocated;
}

std::size_t Course::first_op_from(std::uint32_t event) const {
  const std::uint32_t wanted = history_.events.first + event;
  const auto found = std::lower_bound(history_.ops.begin(), history_.ops.end(), wanted,
                                      [](const Op& op, std::uint32_t at) { return op.event < at; });
  return static_cast<std::size_t>(found - history_.ops.begin());
}

void Course::scan(std::size_t first, std::size_t last, Extreme& found) const {
  std::int64_t allocated = allocated_before(first);
  for (std::size_t i = first; i < last; ++i) {
    allocated += change_of(history_.ops[i]);
    if (allocated > found.highest) {
      found.highest = allocated;
      found.op = static_cast<std::uint32_t>(i);
    }
    found.lowest = std::min(found.lowest, allocated);
  }
}

// Over operations [first, last); an empty range is the instant before it.
Course::Extreme Course::extreme(std::size_t first, std::size_t last) const {
  Extreme found;
  found.op = static_cast<std::uint32_t>(first > 0 ? first - 1 : 0);
  found.highest = found.lowest = allocated_before(first);
  const std::size_t first_mark = (first + kStride - 1) / kStride;
  const std::size_t last_mark = last / kStride;
  if (first_mark >= last_mark) {
    scan(first, last, found);
    return found;
  }
  scan(first, first_mark * kStride, found);
  for (std::size_t m = first_mark; m < last_mark; ++m) {
    if (marks_[m].highest > found.highest) {
      found.highest = marks_[m].highest;
      found.op = marks_[m].highest_op;
    }
    found.lowest = std::min(found.lowest, marks_[m].lowest);
  }
  scan(last_mark * kStride, last, found);
  return found;
}

std::vector<std::int64_t> Course::groups_after(const Grouping& grouping, std::size_t op, std::int64_t allocated) const {
  std::vector<std::int64_t> groups(grouping.size(), 0);
  if (!marks_.empty()) {
    const std::size_t mark = std::min(op / kStride, marks_.size() - 1);
    const auto from = grouping.sums.begin() + static_cast<std::ptrdiff_t>(mark * grouping.size());
    std::copy(from, from + static_cast<std::ptrdiff_t>(grouping.size()), groups.begin());
    for (std::size_t i = mark * kStride; i <= op && i < history_.ops.size(); ++i) {
      const Op& at = history_.ops[i];
      if (const std::int64_t change = change_of(at); change != 0) groups[grouping.of_object[at.object]] += change;
    }
  }
  // What was alive before the recording may have blocks that nothing shows.
  groups.back() += allocated - std::accumulate(groups.begin(), groups.end(), std::int64_t{0});
  return groups;
}

std::vector<Course::Column> Course::columns(const Grouping& grouping, const std::vector<std::uint32_t>& bounds) const {
  std::vector<Column> columns;
  columns.reserve(bounds.size());
  std::size_t op = bounds.empty() ? 0 : first_op_from(bounds.front());
  for (std::size_t c = 0; c + 1 < bounds.size(); ++c) {
    const std::size_t end = first_op_from(bounds[c + 1]);
    const Extreme found = extreme(op, end);
    Column column;
    column.allocated = found.highest;
    column.lowest = found.lowest;
    column.event = history_.ops.empty() ? 0 : history_.ops[found.op].event - history_.events.first;
    column.reserved = most_reserved(bounds[c], std::max(bounds[c], bounds[c + 1] > 0 ? bounds[c + 1] - 1 : 0));
    column.groups = groups_after(grouping, found.op, found.highest);
    columns.push_back(std::move(column));
    op = end;
  }
  return columns;
}

void Course::set_sums(Grouping& grouping) const {
  const std::size_t groups = grouping.size();
  std::vector<std::int64_t> sums(groups, 0);
  for (const Initial& initial : history_.initial)
    if (!initial.pending) sums[grouping.of_object[initial.object]] += levels_.block_of(initial.object);
  grouping.sums.reserve(marks_.size() * groups);
  for (std::size_t i = 0; i < history_.ops.size(); ++i) {
    if (i % kStride == 0) grouping.sums.insert(grouping.sums.end(), sums.begin(), sums.end());
    const Op& op = history_.ops[i];
    if (const std::int64_t change = change_of(op); change != 0) sums[grouping.of_object[op.object]] += change;
  }
}

Grouping Course::by_category(const Attribution& attribution) const {
  Grouping grouping;
  for (std::size_t k = 0; k < kCategories; ++k) grouping.names.emplace_back(text_of(static_cast<Category>(k)));
  grouping.of_object.resize(history_.objects.size());
  for (std::uint32_t object = 0; object < history_.objects.size(); ++object)
    grouping.of_object[object] = static_cast<std::uint8_t>(attribution.of(object));
  set_sums(grouping);
  return grouping;
}

void Course::group_by_stack(const std::vector<std::string>& key_of_stack, Grouping& grouping) const {
  // Those that hold most at the peak have a group of their own.
  std::map<std::string, std::int64_t, std::less<>> at_peak;
  for (const std::uint32_t object : alive_after(peak_event_)) {
    const std::uint32_t stack = history_.stack_of(object);
    at_peak[stack == snapshot::kNoStack ? kNoStackText : key_of_stack[stack]] += levels_.block_of(object);
  }
  std::vector<std::pair<std::int64_t, std::string>> ranked;
  for (const auto& [key, bytes] : at_peak) ranked.emplace_back(bytes, key);
  std::sort(ranked.rbegin(), ranked.rend());
  std::map<std::string, std::uint8_t, std::less<>> number;
  for (const auto& [bytes, key] : ranked) {
    if (grouping.names.size() + 1 >= kMostGroups) break;
    number[key] = static_cast<std::uint8_t>(grouping.names.size());
    grouping.names.push_back(key);
  }
  const auto rest = static_cast<std::uint8_t>(grouping.names.size());
  grouping.names.emplace_back(kRest);
  const auto group_of = [&](const std::string& key) {
    const auto found = number.find(key);
    return found == number.end() ? rest : found->second;
  };
  std::vector<std::uint8_t> of_stack;
  of_stack.reserve(key_of_stack.size());
  for (const std::string& key : key_of_stack) of_stack.push_back(group_of(key));
  const std::uint8_t without = group_of(kNoStackText);
  grouping.of_object.resize(history_.objects.size());
  for (std::uint32_t object = 0; object < history_.objects.size(); ++object) {
    const std::uint32_t stack = history_.stack_of(object);
    grouping.of_object[object] = stack == snapshot::kNoStack ? without : of_stack[stack];
  }
  set_sums(grouping);
}

Grouping Course::by_stack() const {
  Grouping grouping;
  std::vector<std::string> keys;
  const snapshot::Snapshot& snapshot = *history_.snapshot;
  keys.reserve(snapshot.stacks.size());
  for (std::uint32_t stack = 0; stack < snapshot.stacks.size(); ++stack) {
    keys.push_back(stack_line(snapshot, stack));
    if (keys.back().empty()) keys.back() = kNoStackText;
  }
  group_by_stack(keys, grouping);
  return grouping;
}

Grouping Course::by_module() const {
  Grouping grouping;
  std::vector<std::string> keys;
  const snapshot::Snapshot& snapshot = *history_.snapshot;
  keys.reserve(snapshot.stacks.size());
  for (std::uint32_t stack = 0; stack < snapshot.stacks.size(); ++stack) {
    const std::string line = stack_line(snapshot, stack);
    keys.push_back(line.empty() ? kNoStackText : line.substr(0, line.find(':')));
  }
  group_by_stack(keys, grouping);
  return grouping;
}

bool Course::has_times() const {
  const auto& times = history_.snapshot->events.time_us;
  return history_.events.count > 1 && times[history_.events.first] != snapshot::kNoTime &&
         times[history_.events.first + history_.events.count - 1] > times[history_.events.first];
}

std::int64_t Course::time_of(std::uint32_t event) const {
  const auto& times = history_.snapshot->events.time_us;
  const std::uint32_t at = history_.events.first + std::min(event, history_.events.count - 1);
  return times[at] - times[history_.events.first];
}

std::uint32_t Course::event_at(std::int64_t microseconds) const {
  const auto begin = history_.snapshot->events.time_us.begin() + history_.events.first;
  const auto end = begin + history_.events.count;
  const auto found = std::lower_bound(begin, end, *begin + microseconds);
  return static_cast<std::uint32_t>(found - begin);
}

std::int64_t Course::reserved_after(std::uint32_t event) const { return most_reserved(event, event); }

std::int64_t Course::most_reserved(std::uint32_t first, std::uint32_t last) const {
  const auto& changes = levels_.changes();
  const std::uint32_t from = history_.events.first + first;
  const std::uint32_t to = history_.events.first + last;
  auto at = std::upper_bound(changes.begin(), changes.end(), from,
                             [](std::uint32_t event, const Levels::Change& change) { return event < change.event; });
  std::int64_t most = at == changes.begin() ? 0 : std::prev(at)->reserved;
  for (; at != changes.end() && at->event <= to; ++at) most = std::max(most, at->reserved);
  return most;
}

std::vector<std::uint32_t> Course::alive_after(std::uint32_t event) const {
  const std::uint32_t at = history_.events.first + event;
  std::vector<std::uint32_t> alive;
  for (std::uint32_t object = 0; object < history_.objects.size(); ++object) {
    const Object& life = history_.objects[object];
    if (life.birth == kNever) {
      const Initial* initial = history_.initial_of(object);
      if (initial == nullptr || initial->pending) continue;
    } else if (life.birth > at) {
      continue;
    }
    if (life.death == kNever || life.death > at) alive.push_back(object);
  }
  return alive;
}

}  // namespace plimsoll::replay

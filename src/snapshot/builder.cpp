// SPDX-License-Identifier: Apache-2.0
// Containers: which dict is which record, and lists as ranges of rows. The records themselves are in records.cpp, the
// end of reading is in finish.cpp.
#include "snapshot/builder.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace plimsoll::snapshot {

namespace {

constexpr std::size_t kMostSettings = 1024;
constexpr std::size_t kSpare = 1U << 20;
constexpr std::size_t kBytesPerDistinct = 64;  // of stacks and frames: most are shared
constexpr std::size_t kBytesPerEvent = 64;     // under the 79 that were seen: reserved memory, not touched memory
constexpr std::size_t kMostReserved = 1U << 26;

constexpr std::uint64_t kTopKeys = bit(Key::kSegments) | bit(Key::kDeviceTraces) | bit(Key::kAllocatorSettings) |
                                   bit(Key::kExternalAnnotations) | bit(Key::kHostSegments) | bit(Key::kHostTraces) |
                                   bit(Key::kCategories);
constexpr std::uint64_t kSettingsKeys = bit(Key::kCudaAllocConf) | bit(Key::kAllocConf) | bit(Key::kMaxSplitSize) |
                                        bit(Key::kGarbageCollectionThreshold) | bit(Key::kExpandableSegments) |
                                        bit(Key::kRoundupPower2Divisions) | bit(Key::kTraceAllocMaxEntries) |
                                        bit(Key::kTraceAllocOverflowed);

bool is_number(Kind kind) {
  return kind == Kind::kInt || kind == Kind::kBool || kind == Kind::kUint || kind == Kind::kFloat;
}

Key find_key(std::string_view text) {
  const auto* found = std::find(std::begin(kKeyNames), std::end(kKeyNames), text);
  return static_cast<Key>(found - std::begin(kKeyNames));
}

Action find_action(std::string_view text) {
  for (int i = 0; i < static_cast<int>(Action::kOther); ++i)
    if (action_name(static_cast<Action>(i)) == text) return static_cast<Action>(i);
  return Action::kOther;
}

}  // namespace

Builder::Builder(std::size_t input_bytes)
    : most_refilled_(kSpare + input_bytes), most_distinct_(kSpare + input_bytes / kBytesPerDistinct) {
  const std::size_t events = std::min(kMostReserved, input_bytes / kBytesPerEvent);
  const auto reserve = [events](auto& column) {
    column.reserve(events);
    prefer_huge_pages(column.data(), events * sizeof(column[0]));
  };
  reserve(snapshot_.events.action);
  reserve(snapshot_.events.address);
  reserve(snapshot_.events.size);
  reserve(snapshot_.events.stream);
  reserve(snapshot_.events.time_us);
  reserve(snapshot_.events.stack);
  containers_.make_room(2 * events);
  tuples_.push_back({});
  enter_stack(scratch_);  // stack 0 is the empty one
}

std::string_view Builder::role_name(Role role) {
  constexpr std::string_view kNames[] = {"nothing",         "trace events", "frames",   "segments",    "blocks",
                                         "block histories", "annotations",  "settings", "divisions",   "a snapshot",
                                         "lists",           "numbers",      "strings",  "other values"};
  return kNames[static_cast<std::size_t>(role)];
}

Builder::Role Builder::role_of(std::uint64_t keys) {
  if ((keys & bit(Key::kAction)) != 0) return Role::kEvent;
  if ((keys & bit(Key::kFilename)) != 0) return Role::kFrame;
  if ((keys & bit(Key::kTotalSize)) != 0) return Role::kSegment;
  if ((keys & bit(Key::kState)) != 0) return Role::kBlock;
  if ((keys & bit(Key::kRealSize)) != 0) return Role::kHistory;
  if ((keys & bit(Key::kStage)) != 0) return Role::kAnnotation;
  if ((keys & kTopKeys) != 0) return Role::kTop;
  if ((keys & kSettingsKeys) != 0) return Role::kSettings;
  return Role::kOther;
}

void Builder::set_container(std::uint32_t id, Role role, std::size_t row) {
  if (id >= containers_.size()) containers_.resize(std::size_t{id} + 1);
  containers_[id] = make_container(role, row);
}

bool Builder::over_budget() {
  problem_ =
      fmt::format("what was read takes {} bytes; wanted at most {} for a file of this size", held_bytes(), budget_);
  return false;
}

Status Builder::problem() const { return bad_input(problem_); }

Status Builder::on_string(std::uint32_t id, std::string_view text) {
  snapshot_.strings.emplace_back(text);
  text_bytes_ += text.size();
  if (text.empty()) no_text_ = id;
  if (text == "N/A") not_compiled_ = id;
  key_of_.push_back(find_key(text));
  action_of_.push_back(find_action(text));
  return {};
}

Result<std::uint32_t> Builder::on_tuple(std::span<const Value> items) {
  const auto is_integer = [](const Value& value) { return value.kind == Kind::kInt || value.kind == Kind::kUint; };
  if (items.size() != 2 || !is_integer(items[0]) || !is_integer(items[1])) return 0;
  const std::uint32_t found = tuple_number({items[0].unsigned_bits(), items[1].unsigned_bits()});
  if (found == InternTable::kNone) return bad_input("too many distinct pairs; wanted a few pool ids");
  return found;
}

// InternTable::kNone when there are too many.
std::uint32_t Builder::tuple_number(const PoolId& pair) {
  constexpr std::size_t kMostPairs = 1U << 20;
  if (pair == last_pair_ && last_tuple_ != 0) return last_tuple_;
  const auto next = static_cast<std::uint32_t>(tuples_.size());
  if (next >= kMostPairs) return InternTable::kNone;
  const std::uint32_t found = tuple_table_.find_or_enter(mix(mix(1, pair.first), pair.second), next,
                                                         [&](std::uint32_t known) { return tuples_[known] == pair; });
  if (found == InternTable::kNone) return found;
  if (found == next) tuples_.push_back(pair);
  last_pair_ = pair;
  last_tuple_ = found;
  return found;
}

std::size_t Builder::held_bytes() const {
  constexpr std::size_t kEventBytes = sizeof(Action) + 3 * sizeof(std::uint64_t) + 2 * sizeof(std::uint32_t);
  const auto bytes = [](const auto& column) { return column.size() * sizeof(column[0]); };
  return snapshot_.events.count() * kEventBytes + bytes(snapshot_.notes) + bytes(snapshot_.origins) +
         bytes(snapshot_.segments) + bytes(snapshot_.blocks) + bytes(snapshot_.annotations) + bytes(snapshot_.streams) +
         bytes(snapshot_.stacks) + bytes(snapshot_.stack_frames) + bytes(snapshot_.frames) + bytes(snapshot_.strings) +
         text_bytes_ + bytes(key_of_) + bytes(action_of_) + bytes(containers_) + bytes(ranges_) + bytes(lists_) +
         bytes(numbers_) + bytes(snapshot_.forward_lines) + bytes(categories_) + bytes(tuples_) + bytes(histories_) +
         frame_table_.held_bytes() + stack_table_.held_bytes() + tuple_table_.held_bytes() + stream_table_.held_bytes();
}

Status Builder::on_set_items(std::uint32_t dict, std::span<const Value> pairs) {
  if (pairs.empty()) return {};
  keys_ = 0;
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    const Value& key = pairs[i];
    if (key.kind != Kind::kString) continue;
    const Key known = key_of_[key.id];
    fields_[static_cast<std::size_t>(known)] = &pairs[i + 1];
    if (known == Key::kUnknown) continue;
    if (has(known)) return bad_input(fmt::format("the key {} stands twice in a record", key_name(known)));
    keys_ |= bit(known);
  }
  const Container before = container(dict);
  role_ = role_of(keys_);
  if (before.role != Role::kEmpty && before.role != Role::kTop) {
    if (before.role == Role::kOther && role_ == Role::kOther) return {};
    return bad_input(fmt::format("a record among {} is filled a second time; wanted it whole", role_name(before.role)));
  }
  if (before.role == Role::kTop) role_ = Role::kTop;

  std::size_t row = 0;
  std::uint32_t frame = 0;
  bool is_divisions = false;
  bool good = true;
  switch (role_) {
    case Role::kEvent:
      row = snapshot_.events.count();
      good = add_event();
      break;
    case Role::kFrame:
      good = add_frame(frame);
      row = frame;
      break;
    case Role::kSegment:
      row = snapshot_.segments.size();
      good = add_segment();
      break;
    case Role::kBlock:
      row = snapshot_.blocks.size();
      good = add_block();
      break;
    case Role::kHistory:
      row = histories_.size();
      good = add_history();
      break;
    case Role::kAnnotation:
      row = snapshot_.annotations.size();
      good = add_annotation();
      break;
    case Role::kSettings:
      row = settings_.size();
      if (row >= kMostSettings)
        return bad_input(fmt::format("more than {} dicts of settings; wanted one", kMostSettings));
      settings_.emplace_back();
      if (!read_settings(settings_.back())) settings_.back().problem = problem_;
      break;
    case Role::kTop:
      if (top_ != kNoTop && top_ != dict) return bad_input("a second snapshot lies in the file; wanted one");
      top_ = dict;
      for (std::size_t i = 0; i < kKeyCount; ++i)
        if ((keys_ >> i & 1) != 0) top_fields_[i] = *fields_[i];
      top_keys_ |= keys_;
      break;
    default:
      row = divisions_.size();
      good = add_divisions(pairs, is_divisions);
      role_ = is_divisions ? Role::kDivisions : Role::kOther;
  }
  if (!good) return problem();
  if (row > kMostRows) return bad_input(fmt::format("more than {} {}", kMostRows, role_name(role_)));
  set_container(dict, role_, row);
  return {};
}

Status Builder::on_append(std::uint32_t list, std::span<const Value> items) {
  if (items.empty()) return {};
  const Container before = container(list);
  if (before.role == Role::kOther) return {};

  const auto role_of_item = [this](const Value& item) {
    if (item.kind == Kind::kDict) {
      const Role role = container(item.id).role;
      return role == Role::kEmpty ? Role::kOther : role;
    }
    if (item.kind == Kind::kList) return Role::kList;
    if (item.kind == Kind::kString) return Role::kText;
    return is_number(item.kind) ? Role::kNumber : Role::kOther;
  };
  const Role role = before.role == Role::kEmpty ? role_of_item(items.front()) : before.role;
  const bool is_uniform =
      std::all_of(items.begin(), items.end(), [&](const Value& item) { return role_of_item(item) == role; });
  const bool is_record = role == Role::kEvent || role == Role::kSegment || role == Role::kBlock ||
                         role == Role::kHistory || role == Role::kAnnotation;
  if (!is_uniform) {
    if (is_record || role == Role::kFrame)
      return bad_input(
          fmt::format("a list mixes {} with other values; wanted {} only", role_name(role), role_name(role)));
    set_container(list, Role::kOther, 0);
    return {};
  }
  if (role == Role::kFrame) return append_frames(list, items);

  std::size_t first = 0;
  if (is_record) {
    first = container(items.front().id).row;
    for (std::size_t i = 0; i < items.size(); ++i)
      if (container(items[i].id).row != first + i)
        return bad_input(fmt::format("a list has {} out of the order they were written in, or twice", role_name(role)));
  } else if (role == Role::kList) {
    first = lists_.size();
    for (const Value& item : items)
      if (!push_row(lists_, item.id)) return problem();
  } else if (role == Role::kNumber) {
    first = numbers_.size();
    for (const Value& item : items)
      if (!push_row(numbers_, item)) return problem();
  } else if (role == Role::kText) {
    first = snapshot_.forward_lines.size();
    for (const Value& item : items)
      if (!push_row(snapshot_.forward_lines, item.id)) return problem();
  } else {
    set_container(list, Role::kOther, 0);
    return {};
  }
  const auto count = static_cast<std::uint32_t>(items.size());
  if (before.role == Role::kEmpty) {
    if (ranges_.size() > kMostRows) return bad_input("too many lists of records");
    set_container(list, role, ranges_.size());
    return push_row(ranges_, Range{static_cast<std::uint32_t>(first), count}) ? Status{} : problem();
  }
  Range& range = ranges_[before.row];
  if (std::size_t{range.first} + range.count != first) {
    if (is_record) return bad_input(fmt::format("a list of {} is filled in turns with another", role_name(role)));
    set_container(list, Role::kOther, 0);
    return {};
  }
  range.count += count;
  return {};
}

Status Builder::append_frames(std::uint32_t list, std::span<const Value> items) {
  constexpr std::size_t kDeepestStack = 65536;
  const Container before = container(list);
  scratch_.clear();
  if (before.role == Role::kFrame) {
    const Range known = snapshot_.stacks[before.row];
    // Writers fill a list in batches of 1,000 or at once; frame by frame would cost the square of the length.
    refilled_ += known.count;
    if (refilled_ > most_refilled_) return bad_input("lists of frames are filled piece by piece; wanted batches");
    scratch_.assign(snapshot_.stack_frames.begin() + known.first,
                    snapshot_.stack_frames.begin() + known.first + known.count);
  }
  for (const Value& item : items) scratch_.push_back(container(item.id).row);
  if (scratch_.size() > kDeepestStack)
    return bad_input(fmt::format("a stack of {} frames; wanted at most {}", scratch_.size(), kDeepestStack));
  const std::uint32_t stack = enter_stack(scratch_);
  if (stack > kMostRows || snapshot_.stacks.size() > most_distinct_)
    return bad_input(fmt::format("more than {} distinct stacks in a file of this size", most_distinct_));
  set_container(list, Role::kFrame, stack);
  return {};
}

std::uint32_t Builder::enter_stack(std::span<const std::uint32_t> frames) {
  std::uint64_t hash = mix(2, frames.size());
  for (const std::uint32_t frame : frames) hash = mix(hash, frame);
  const auto next = static_cast<std::uint32_t>(snapshot_.stacks.size());
  const std::uint32_t found = stack_table_.find_or_enter(hash, next, [&](std::uint32_t known) {
    const Range range = snapshot_.stacks[known];
    return range.count == frames.size() &&
           std::equal(frames.begin(), frames.end(), snapshot_.stack_frames.begin() + range.first);
  });
  if (found != next || found == InternTable::kNone) return found;
  // Numbers of frames are 32 bits wide, so the pool may hold no more.
  if (snapshot_.stack_frames.size() + frames.size() > InternTable::kNone) return InternTable::kNone;
  snapshot_.stacks.push_back(
      {static_cast<std::uint32_t>(snapshot_.stack_frames.size()), static_cast<std::uint32_t>(frames.size())});
  snapshot_.stack_frames.insert(snapshot_.stack_frames.end(), frames.begin(), frames.end());
  return found;
}

bool Builder::add_divisions(std::span<const Value> pairs, bool& is_divisions) {
  constexpr std::size_t kMostDivisions = 64;
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  if (pairs.size() > 2 * kMostDivisions || divisions_.size() >= kMostDivisions) return true;
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    if (pairs[i].kind != Kind::kString || pairs[i + 1].kind != Kind::kInt) return true;
    const std::string_view text = snapshot_.strings[pairs[i].id];
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc{} || end != text.data() + text.size()) return true;
    found.emplace_back(size, pairs[i + 1].bits);
  }
  divisions_.push_back(std::move(found));
  is_divisions = true;
  return true;
}

}  // namespace plimsoll::snapshot

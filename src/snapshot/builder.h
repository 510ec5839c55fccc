// SPDX-License-Identifier: Apache-2.0
// Folds a pickle's dicts and lists into a Snapshot's columns while it is read. A dict is known by its keys and
// becomes a row when it is filled; a list of rows is a range of them. Invariant: a row is in its column before
// any list or record refers to it, so nothing is walked twice and nothing recurses.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "snapshot/event_shape.h"
#include "snapshot/intern.h"
#include "snapshot/keys.h"
#include "snapshot/pickle.h"
#include "snapshot/pod_array.h"
#include "snapshot/snapshot.h"

namespace plimsoll::snapshot {

// More than any machine has: a size beyond it is damage, and sums of sizes stay far from overflow.
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

class Builder final : public PickleSink {
 public:
  explicit Builder(std::size_t input_bytes);

  Status on_string(std::uint32_t id, std::string_view text) override;
  [[nodiscard]] std::string_view text(std::uint32_t id) const override { return snapshot_.strings[id]; }
  Result<std::uint32_t> on_tuple(std::span<const Value> items) override;
  Status on_append(std::uint32_t list, std::span<const Value> items) override;
  Status on_set_items(std::uint32_t dict, std::span<const Value> pairs) override;
  void on_bulk(Bulk& bulk) override;
  [[nodiscard]] std::size_t held_bytes() const override;
  void set_budget(std::size_t bytes) override { budget_ = bytes; }

  // The snapshot whose pickle's root is `root`. Call once, at the end.
  [[nodiscard]] Result<Snapshot> finish(const Value& root);

 private:
  // What a dict is, or what a list is a list of.
  enum class Role : std::uint8_t {
    kEmpty,
    kEvent,
    kFrame,
    kSegment,
    kBlock,
    kHistory,
    kAnnotation,
    kSettings,
    kDivisions,
    kTop,
    kList,
    kNumber,
    kText,
    kOther,
  };
  // A list's row: a stack for kFrame, else a number in ranges_.
  struct Container {
    Role role : 4 = Role::kEmpty;
    std::uint32_t row : 28 = 0;
  };
  static_assert(sizeof(Container) == 4);
  static constexpr std::uint32_t kMostRows = (1U << 28) - 1;  // what a Container's row can hold
  // Users add keys of their own to a snapshot, among them dicts that look like settings: a mistake in one counts
  // only when it stands under allocator_settings.
  struct SettingsRow {
    AllocatorSettings settings;
    std::optional<Value> max_entries;
    std::optional<Value> overflowed;
    std::string problem;
  };
  struct History {
    std::int64_t real_size = 0;
    std::uint32_t stack = kNoStack;
  };

  static std::string_view role_name(Role role);
  static Role role_of(std::uint64_t keys);

  [[nodiscard]] Container container(std::uint32_t id) const {
    return id < containers_.size() ? containers_[id] : Container{};
  }
  [[nodiscard]] static Container make_container(Role role, std::size_t row) {
    Container made;
    made.role = role;
    made.row = static_cast<std::uint32_t>(row) & kMostRows;
    return made;
  }
  void set_container(std::uint32_t id, Role role, std::size_t row);

  // Fields of the record at hand. Each returns false and sets problem_ when the value is not of the kind.
  [[nodiscard]] bool has(Key key) const { return (keys_ & bit(key)) != 0; }
  [[nodiscard]] const Value& field(Key key) const { return *fields_[static_cast<std::size_t>(key)]; }
  bool wrong(Key key, std::string_view wanted);
  bool read_bytes(Key key, std::int64_t& out);
  bool read_bytes(Key key, std::optional<std::int64_t>& out);
  bool read_integer(Key key, std::int64_t& out);
  bool read_address(Key key, std::uint64_t& out);
  bool read_bool(Key key, bool& out);
  bool read_bool(Key key, std::optional<bool>& out);
  bool read_string(Key key, std::uint32_t& out);
  bool read_stream(std::uint32_t& out);
  bool read_pool(Key key, PoolId& out);
  bool read_stack(std::uint32_t& out);
  bool read_range(Key key, Role role, Range& out);

  // Enters a row. A column that must move to grow is for a while there twice, which the budget has to allow.
  template <class Row>
  bool push_row(std::vector<Row>& column, const Row& row) {
    if (column.size() == column.capacity() && !make_room(column)) return false;
    column.push_back(row);
    return true;
  }
  template <class Row>
  bool make_room(std::vector<Row>& column) {
    constexpr std::size_t kSmall = 1U << 16;
    if (column.size() > kSmall && held_bytes() + column.size() * sizeof(Row) > budget_) return over_budget();
    column.reserve(std::max<std::size_t>(64, column.size() + column.size() / 2));
    return true;
  }
  bool over_budget();

  bool add_event();
  bool add_note(Note note, std::uint32_t event);
  bool add_origin(std::uint32_t event);
  bool read_category(Origin& origin);
  bool add_frame(std::uint32_t& row);
  bool add_segment();
  bool add_block();
  bool add_history();
  bool add_annotation();
  bool read_settings(SettingsRow& found);
  bool add_divisions(std::span<const Value> pairs, bool& is_divisions);
  Status problem() const;

  Status append_frames(std::uint32_t list, std::span<const Value> items);
  std::uint32_t enter_stack(std::span<const std::uint32_t> frames);

  // Events read whole (bulk_events.cpp). Each returns the place behind what it read, or null, having changed nothing,
  // when the bytes are of another form.
  bool learn_shape(const Bulk& bulk);
  const char* match_event(const Bulk& bulk);
  const char* decode_field(Key key, const Bulk& bulk, const char* at, RawEvent& event);
  const char* decode_frames(const Bulk& bulk, const char* at, RawEvent& event);
  bool commit_event(Bulk& bulk);
  bool read_batch(Bulk& bulk);
  std::uint32_t stream_number(std::uint64_t handle);
  std::uint32_t tuple_number(const PoolId& pair);

  Status finish_top();
  Status finish_traces(Key key, std::vector<Trace>& traces);
  Status finish_trace_limits(const Value& value, Key key);
  Status finish_blocks();
  Status finish_categories();

  std::size_t most_refilled_;  // frames copied because their list grew
  std::size_t most_distinct_;  // stacks, and frames
  std::size_t refilled_ = 0;
  std::size_t budget_ = SIZE_MAX;

  Snapshot snapshot_;
  std::vector<Key> key_of_;        // by string
  std::vector<Action> action_of_;  // by string
  PodArray<Container> containers_;
  std::vector<Range> ranges_;
  std::vector<std::uint32_t> lists_;  // the inner lists of lists of lists
  std::vector<Value> numbers_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> categories_;  // origin, number in the file's list
  std::vector<PoolId> tuples_;  // 0 stands for every tuple that is not a pair of integers
  std::vector<History> histories_;
  std::vector<SettingsRow> settings_;
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> divisions_;
  InternTable frame_table_;
  InternTable stack_table_;
  InternTable tuple_table_;
  InternTable stream_table_;
  std::uint32_t last_stream_ = 0;
  PoolId last_pair_;
  std::uint32_t last_tuple_ = 0;  // of last_pair_; 0 before the first
  std::size_t text_bytes_ = 0;

  static constexpr std::uint32_t kNoTop = 0xffffffff;
  std::uint32_t top_ = kNoTop;
  std::uint64_t top_keys_ = 0;
  std::array<Value, kKeyCount> top_fields_{};

  std::uint64_t keys_ = 0;
  std::array<const Value*, kKeyCount + 1> fields_{};  // the last takes unknown keys
  Role role_ = Role::kEmpty;
  std::string problem_;
  std::vector<std::uint32_t> scratch_;

  EventShape shape_;
  RawEvent raw_;
  EventRows rows_;
  std::uint32_t not_compiled_ = kNoString;  // the string "N/A"
  std::uint32_t no_text_ = kNoString;       // the empty string
  Literal compile_context_;                 // as it stood in the event before
  Literal user_metadata_;
};

}  // namespace plimsoll::snapshot

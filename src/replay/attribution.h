// SPDX-License-Identifier: Apache-2.0
// What an object was for: inferred from the stack that made it, from when it died, and from the optimizer's steps,
// which annotations or stacks show. What none of them tells stays unattributed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "replay/history.h"

namespace plimsoll::replay {

enum class Category : std::uint8_t {
  kParameter,
  kGradient,
  kOptimizerState,
  kActivation,
  kTemporary,
  kUnattributed,
};
inline constexpr std::size_t kCategories = 6;
[[nodiscard]] std::string_view text_of(Category category);

// A stretch of events in which the optimizer stepped.
struct Span {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

class Attribution {
 public:
  explicit Attribution(const History& history);

  [[nodiscard]] Category of(std::uint32_t object) const;
  [[nodiscard]] const std::vector<Span>& optimizer_steps() const { return steps_; }
  [[nodiscard]] bool has_stacks() const { return has_stacks_; }

 private:
  // The part of a training step that a stack belongs to.
  enum class Phase : std::uint8_t { kUnknown, kConstruction, kForward, kBackward, kOptimizer };

  void classify_stacks();
  void find_buffers();
  void find_steps();
  void find_steps_by_stack();
  [[nodiscard]] Phase phase_of_event(std::uint32_t event) const;
  [[nodiscard]] const Span* step_at(std::uint32_t event) const;
  // Number of optimizer steps that begin in (from, to].
  [[nodiscard]] std::size_t steps_between(std::uint32_t from, std::uint32_t to) const;
  [[nodiscard]] Category by_lifetime(std::uint32_t object, Phase birth) const;

  const History& history_;
  std::vector<Phase> phase_of_stack_;
  std::vector<std::int64_t> buffer_line_;  // by stack: the line that made a buffer of Megatron, else 0
  std::int64_t last_buffer_line_ = 0;
  std::vector<Span> steps_;
  bool has_stacks_ = false;
};

// The objects alive right after an operation.
[[nodiscard]] std::vector<std::uint32_t> alive_after(const History& history, std::uint32_t op);

struct Group {
  std::string text;  // a stack's line, a module, a category
  std::uint32_t stack = snapshot::kNoStack;
  std::int64_t bytes = 0;  // asked for
  std::size_t count = 0;
  std::int64_t largest = 0;
};

struct PeakReport {
  std::uint32_t op = 0;
  std::int64_t requested = 0;
  std::array<Group, kCategories> categories;
  std::vector<Group> stacks;   // largest first
  std::vector<Group> modules;  // by the file that asked
};

[[nodiscard]] PeakReport report_peak(const History& history, const Attribution& attribution, std::uint32_t op);

}  // namespace plimsoll::replay

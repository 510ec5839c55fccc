// SPDX-License-Identifier: Apache-2.0
#include "replay/attribution.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "replay/event_text.h"

namespace plimsoll::replay {

namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// What lives longer than the events of one operation was kept on purpose.
constexpr std::uint32_t kEventsOfOneOperation = 64;

// cuBLAS keeps one per thread: 32 MiB on compute capability 9, 8.1 MiB elsewhere (facts megatron-anatomy.md 7).
bool is_workspace(std::int64_t bytes) { return bytes == 33554432 || bytes == 8519680; }

}  // namespace

std::string_view text_of(Category category) {
  constexpr std::string_view kTexts[] = {"parameters",  "gradients",   "optimizer state",
                                         "activations", "temporaries", "unattributed"};
  return kTexts[static_cast<std::size_t>(category)];
}

Attribution::Attribution(const History& history) : history_(history) {
  classify_stacks();
  find_buffers();
  find_steps();
}

// The first frame from the inside that tells: an optimizer's file, a backward function, a module's forward.
void Attribution::classify_stacks() {
  const snapshot::Snapshot& snapshot = *history_.snapshot;
  phase_of_stack_.assign(snapshot.stacks.size(), Phase::kUnknown);
  buffer_line_.assign(snapshot.stacks.size(), 0);
  for (std::size_t stack = 0; stack < snapshot.stacks.size(); ++stack) {
    const snapshot::Range range = snapshot.stacks[stack];
    if (range.count == 0) continue;
    has_stacks_ = true;
    Phase phase = Phase::kConstruction;
    for (std::uint32_t i = range.first; i < range.first + range.count; ++i) {
      const snapshot::Frame& frame = snapshot.frames[snapshot.stack_frames[i]];
      const std::string_view name = snapshot.text(frame.name);
      const std::string_view file = snapshot.text(frame.filename);
      if (buffer_line_[stack] == 0 && contains(file, "param_and_grad_buffer")) buffer_line_[stack] = frame.line;
      if (contains(file, "/optim/") || contains(file, "optimizer/") || name == "_init_group") {
        // Building an optimizer is not a step of it.
        if (contains(name, "step") || contains(name, "_multi_tensor") || contains(name, "_single_tensor") ||
            contains(name, "_fused") || name == "_init_group") {
          phase = Phase::kOptimizer;
          break;
        }
        continue;
      }
      // Functions that drive both passes, such as forward_backward_no_pipelining, tell nothing.
      const bool drives_both = contains(name, "forward_backward");
      if (contains(name, "backward") && !drives_both) {
        phase = Phase::kBackward;
        break;
      }
      if (name == "_call_impl" || (contains(name, "forward") && !drives_both && !contains(name, "__init__"))) {
        phase = Phase::kForward;
        break;
      }
    }
    phase_of_stack_[stack] = phase;
  }
}

// Megatron lays out parameters before gradients, by an earlier line of the same function, and keeps both.
void Attribution::find_buffers() {
  for (std::uint32_t object = 0; object < history_.objects.size(); ++object) {
    if (history_.objects[object].death != kNever) continue;
    const std::uint32_t stack = history_.stack_of(object);
    if (stack != snapshot::kNoStack) last_buffer_line_ = std::max(last_buffer_line_, buffer_line_[stack]);
  }
}

void Attribution::find_steps() {
  const snapshot::Snapshot& snapshot = *history_.snapshot;
  const snapshot::Events& events = snapshot.events;
  const std::uint32_t first = history_.events.first;
  const std::uint32_t end = first + history_.events.count;
  std::int64_t start = -1;
  for (const snapshot::Annotation& note : snapshot.annotations) {
    if (note.device != history_.device || !contains(snapshot.text(note.name), "Optimizer.step")) continue;
    if (note.is_start) {
      start = note.time_us;
      continue;
    }
    if (start < 0) continue;
    const auto begin = events.time_us.begin();
    const auto from = std::lower_bound(begin + first, begin + end, start);
    const auto to = std::upper_bound(from, begin + end, note.time_us);
    if (from != to)
      steps_.push_back({static_cast<std::uint32_t>(from - begin), static_cast<std::uint32_t>(to - begin - 1)});
    start = -1;
  }
  if (steps_.empty() && has_stacks_) find_steps_by_stack();
}

// Allocations of an optimizer without one of a forward pass in between are one step.
void Attribution::find_steps_by_stack() {
  const snapshot::Events& events = history_.snapshot->events;
  bool open = false;
  for (const Op& op : history_.ops) {
    if (op.kind != OpKind::kAlloc || events.stack[op.event] == snapshot::kNoStack) continue;
    const Phase phase = phase_of_stack_[events.stack[op.event]];
    if (phase == Phase::kOptimizer) {
      if (!open) steps_.push_back({op.event, op.event});
      steps_.back().last = op.event;
      open = true;
    } else if (phase == Phase::kForward) {
      open = false;
    }
  }
}

// A stack that was recorded, but is empty, belongs to a thread of the autograd engine (facts snapshot-format.md 4).
Attribution::Phase Attribution::phase_of_event(std::uint32_t event) const {
  if (step_at(event) != nullptr) return Phase::kOptimizer;
  const std::uint32_t stack = history_.snapshot->events.stack[event];
  if (!has_stacks_ || stack == snapshot::kNoStack) return Phase::kUnknown;
  return history_.snapshot->stacks[stack].count == 0 ? Phase::kBackward : phase_of_stack_[stack];
}

const Span* Attribution::step_at(std::uint32_t event) const {
  const auto after =
      std::upper_bound(steps_.begin(), steps_.end(), event, [](std::uint32_t e, const Span& s) { return e < s.first; });
  if (after == steps_.begin()) return nullptr;
  return event <= std::prev(after)->last ? &*std::prev(after) : nullptr;
}

std::size_t Attribution::steps_between(std::uint32_t from, std::uint32_t to) const {
  const auto begins_after = [this](std::uint32_t event) {
    return std::upper_bound(steps_.begin(), steps_.end(), event,
                            [](std::uint32_t e, const Span& s) { return e < s.first; });
  };
  return static_cast<std::size_t>(begins_after(to) - begins_after(from));
}

Category Attribution::by_lifetime(std::uint32_t object, Phase birth) const {
  const Object& o = history_.objects[object];
  const bool dies = o.death != kNever;
  const std::uint32_t from = o.birth == kNever ? history_.events.first : o.birth;
  const std::uint32_t to = dies ? o.death : history_.events.first + history_.events.count;
  const std::size_t steps = steps_between(from, to);
  switch (birth) {
    case Phase::kOptimizer:
      return steps > 0 || (!dies && to > step_at(from)->last) ? Category::kOptimizerState : Category::kTemporary;
    case Phase::kBackward:
      if (!dies && steps > 1 && is_workspace(history_.bytes_of(object))) return Category::kUnattributed;
      return steps > 0 || !dies ? Category::kGradient : Category::kTemporary;
    case Phase::kForward: {
      if (!dies || steps > 0) return Category::kUnattributed;  // kept over steps: tables, workspaces
      const Phase death = phase_of_event(o.death);
      return death == Phase::kBackward || death == Phase::kUnknown ? Category::kActivation : Category::kTemporary;
    }
    case Phase::kConstruction:
      if (!dies || steps > 0) return Category::kParameter;
      return to - from > kEventsOfOneOperation ? Category::kUnattributed : Category::kTemporary;
    case Phase::kUnknown:
      break;
  }
  if (steps_.empty()) return Category::kUnattributed;
  const bool before_training = from < steps_.front().first;
  if (!dies || steps > 1) return before_training ? Category::kParameter : Category::kUnattributed;
  if (steps == 1) return Category::kGradient;
  return to - from > kEventsOfOneOperation ? Category::kActivation : Category::kTemporary;
}

Category Attribution::of(std::uint32_t object) const {
  const snapshot::Snapshot& snapshot = *history_.snapshot;
  const Object& o = history_.objects[object];
  if (o.birth != kNever) {
    if (const snapshot::Origin* origin = snapshot.origin_of(o.birth); origin != nullptr) {
      const std::string_view named = snapshot.text(origin->category);
      if (named == "PARAMETER") return Category::kParameter;
      if (named == "GRADIENT") return Category::kGradient;
      if (named == "OPTIMIZER_STATE") return Category::kOptimizerState;
      if (named == "ACTIVATION" || named == "AUTOGRAD_DETAIL") return Category::kActivation;
      if (named == "TEMPORARY") return Category::kTemporary;
    }
  }
  const std::uint32_t stack = history_.stack_of(object);
  if (o.death == kNever && stack != snapshot::kNoStack && buffer_line_[stack] > 0)
    return buffer_line_[stack] == last_buffer_line_ ? Category::kGradient : Category::kParameter;
  if (o.birth == kNever) {
    const Phase phase =
        stack == snapshot::kNoStack || snapshot.stacks[stack].count == 0 ? Phase::kUnknown : phase_of_stack_[stack];
    return by_lifetime(object, phase == Phase::kOptimizer ? Phase::kUnknown : phase);
  }
  return by_lifetime(object, phase_of_event(o.birth));
}

std::vector<std::uint32_t> alive_after(const History& history, std::uint32_t last) {
  std::vector<bool> alive(history.objects.size(), false);
  for (const Initial& initial : history.initial) alive[initial.object] = !initial.pending;
  for (std::uint32_t i = 0; i <= last && i < history.ops.size(); ++i) {
    const Op& op = history.ops[i];
    if (op.kind == OpKind::kAlloc) alive[op.object] = true;
    if (op.kind == OpKind::kFree || op.kind == OpKind::kRequestFree) alive[op.object] = false;
  }
  std::vector<std::uint32_t> objects;
  for (std::uint32_t object = 0; object < alive.size(); ++object)
    if (alive[object]) objects.push_back(object);
  return objects;
}

namespace {

void add(Group& group, std::int64_t bytes) {
  group.bytes += bytes;
  ++group.count;
  group.largest = std::max(group.largest, bytes);
}

// The module that asked: the file of the innermost frame outside PyTorch, without its folders.
std::string module_text(const snapshot::Snapshot& snapshot, std::uint32_t stack) {
  const std::string line = stack_line(snapshot, stack);
  return line.empty() ? "no stack" : line.substr(0, line.find(':'));
}

void sort_by_bytes(std::vector<Group>& groups) {
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.bytes > b.bytes; });
}

}  // namespace

PeakReport report_peak(const History& history, const Attribution& attribution, std::uint32_t op) {
  PeakReport report;
  report.op = op;
  for (std::size_t c = 0; c < kCategories; ++c) report.categories[c].text = text_of(static_cast<Category>(c));
  std::map<std::uint32_t, Group> by_stack;
  for (const std::uint32_t object : alive_after(history, op)) {
    const std::int64_t bytes = history.bytes_of(object);
    report.requested += bytes;
    add(report.categories[static_cast<std::size_t>(attribution.of(object))], bytes);
    add(by_stack[history.stack_of(object)], bytes);
  }
  std::map<std::string, Group> by_module;
  for (auto& [stack, group] : by_stack) {
    group.stack = stack;
    group.text = stack_line(*history.snapshot, stack);
    if (group.text.empty())
      group.text = stack == snapshot::kNoStack ? "no stack recorded" : "no Python stack (backward)";
    Group& module = by_module[module_text(*history.snapshot, stack)];
    module.bytes += group.bytes;
    module.count += group.count;
    module.largest = std::max(module.largest, group.largest);
    report.stacks.push_back(group);
  }
  for (auto& [text, group] : by_module) {
    group.text = text;
    report.modules.push_back(group);
  }
  sort_by_bytes(report.stacks);
  sort_by_bytes(report.modules);
  return report;
}

}  // namespace plimsoll::replay

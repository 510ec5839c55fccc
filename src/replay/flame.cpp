// SPDX-License-Identifier: Apache-2.0
#include "replay/flame.h"

#include <algorithm>
#include <map>

namespace plimsoll::replay {

namespace {

struct Call {
  std::int64_t bytes = 0;
  std::size_t objects = 0;
  std::map<std::uint32_t, std::uint32_t> callees;  // frame -> number in the list
};

void write(const std::vector<Call>& calls, std::uint32_t call, std::uint32_t frame, std::uint32_t parent,
           std::int64_t least, std::vector<FlameNode>& nodes, int depth) {
  // Stacks are no deeper than a recording allows, but a file may say anything.
  constexpr int kDeepest = 200;
  const auto own = static_cast<std::uint32_t>(nodes.size());
  nodes.push_back({frame, parent, calls[call].bytes, calls[call].objects});
  if (depth >= kDeepest) return;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> callees(calls[call].callees.begin(), calls[call].callees.end());
  std::stable_sort(callees.begin(), callees.end(),
                   [&calls](const auto& a, const auto& b) { return calls[a.second].bytes > calls[b.second].bytes; });
  for (const auto& [callee, number] : callees)
    if (calls[number].bytes >= least) write(calls, number, callee, own, least, nodes, depth + 1);
}

}  // namespace

std::vector<FlameNode> flame_after(const Course& course, std::uint32_t event, std::int64_t least) {
  const History& history = course.history();
  const snapshot::Snapshot& snapshot = *history.snapshot;
  // Objects of one stack are one path.
  std::map<std::uint32_t, std::pair<std::int64_t, std::size_t>> by_stack;
  for (const std::uint32_t object : course.alive_after(event)) {
    auto& [bytes, objects] = by_stack[history.stack_of(object)];
    bytes += course.levels().block_of(object);
    ++objects;
  }
  std::vector<Call> calls(1);
  for (const auto& path : by_stack) {
    const std::uint32_t stack = path.first;
    const std::pair<std::int64_t, std::size_t>& held = path.second;
    std::uint32_t at = 0;
    const auto add = [&calls, &held](std::uint32_t call) {
      calls[call].bytes += held.first;
      calls[call].objects += held.second;
    };
    const auto descend = [&](std::uint32_t frame) {
      const auto [found, is_new] = calls[at].callees.try_emplace(frame, static_cast<std::uint32_t>(calls.size()));
      at = found->second;
      if (is_new) calls.emplace_back();
      add(at);
    };
    add(0);
    const snapshot::Range range = stack == snapshot::kNoStack ? snapshot::Range{} : snapshot.stacks[stack];
    if (range.count == 0) descend(kNever);
    for (std::uint32_t i = range.count; i > 0; --i) descend(snapshot.stack_frames[range.first + i - 1]);
  }
  std::vector<FlameNode> nodes;
  write(calls, 0, kNever, 0, least, nodes, 0);
  return nodes;
}

}  // namespace plimsoll::replay

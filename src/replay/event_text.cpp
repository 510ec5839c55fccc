// SPDX-License-Identifier: Apache-2.0
#include "replay/event_text.h"

#include <fmt/format.h>

namespace plimsoll::replay {

std::string event_text(const snapshot::Snapshot& snapshot, std::uint32_t event) {
  const snapshot::Events& events = snapshot.events;
  const auto stream = snapshot.streams[events.stream[event]];
  if (events.action[event] == snapshot::Action::kOom)
    return fmt::format("oom for {} bytes, stream {:#x}", events.size[event], stream);
  return fmt::format("{} of {} bytes at {:#x}, stream {:#x}", snapshot::action_name(events.action[event]),
                     events.size[event], events.address[event], stream);
}

namespace {

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.find_last_of("/\\");
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

std::string frame_text(const snapshot::Snapshot& snapshot, std::uint32_t number) {
  const snapshot::Frame& frame = snapshot.frames[number];
  const std::string_view file = base_name(snapshot.text(frame.filename));
  if (frame.line <= 0) return fmt::format("{} {}", file, snapshot.text(frame.name));  // not of a source file
  return fmt::format("{}:{} {}", file, frame.line, snapshot.text(frame.name));
}

bool is_library_file(std::string_view file) {
  const auto has = [file](std::string_view part) { return file.find(part) != std::string_view::npos; };
  if (file.empty() || file.front() == '<' || file == "??") return true;
  if (has("/torch/") || has("torch/csrc") || has("c10/") || has("aten/src")) return true;
  return has("/lib/python") && !has("-packages/");
}

std::string stack_line(const snapshot::Snapshot& snapshot, std::uint32_t stack) {
  if (stack == snapshot::kNoStack || snapshot.stacks[stack].count == 0) return {};
  const snapshot::Range range = snapshot.stacks[stack];
  const std::uint32_t innermost = snapshot.stack_frames[range.first];
  for (std::uint32_t i = range.first; i < range.first + range.count; ++i) {
    const std::uint32_t frame = snapshot.stack_frames[i];
    if (is_library_file(snapshot.text(snapshot.frames[frame].filename))) continue;
    if (i == range.first) return frame_text(snapshot, frame);
    return frame_text(snapshot, frame) + ", in " + frame_text(snapshot, innermost);
  }
  return frame_text(snapshot, innermost);
}

std::string stack_text(const snapshot::Snapshot& snapshot, std::uint32_t stack, std::size_t most) {
  if (stack == snapshot::kNoStack) return {};
  const snapshot::Range range = snapshot.stacks[stack];
  std::string text;
  for (std::uint32_t i = 0; i < range.count && i < most; ++i) {
    if (i > 0) text += " < ";
    text += frame_text(snapshot, snapshot.stack_frames[range.first + i]);
  }
  if (range.count > most) text += fmt::format(" < {} more", range.count - most);
  return text;
}

}  // namespace plimsoll::replay

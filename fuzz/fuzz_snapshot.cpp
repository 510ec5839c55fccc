// SPDX-License-Identifier: Apache-2.0
// Any bytes as a memory snapshot: refused with a message, or every number in the columns points into its table
// and the blocks tile their segments. A first byte other than the opcode PROTO or gzip's mark gets one put
// before it, so that mutations reach the stack machine. Records read whole and opcode by opcode must agree.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "snapshot/snapshot.h"

using namespace plimsoll;

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void check_range(const snapshot::Range& range, std::size_t size) {
  check(std::size_t{range.first} + range.count <= size);
}

void check_stack(const snapshot::Snapshot& read, std::uint32_t stack) {
  check(stack == snapshot::kNoStack || stack < read.stacks.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > (1U << 20)) return 0;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (data[0] != 0x80 && data[0] != 0x1f && data[0] != 0x28) bytes.insert(0, "\x80\x04");
  snapshot::ReadLimits limits;
  limits.inflate.free_bytes = 1U << 20;
  const auto read = snapshot::read_snapshot("fuzz", bytes, limits);
  limits.pickle.allows_bulk = false;
  const auto general = snapshot::read_snapshot("fuzz", bytes, limits);
  check(read.has_value() == general.has_value());
  if (!read) {
    // Of a packed file, one may meet the mistake of the packing and the other that of the pickle.
    check(bytes[0] != '\x80' || read.error().message == general.error().message);
    check(!read.error().message.empty());
    return 0;
  }
  const snapshot::Events& events = read->events;
  check(events.action == general->events.action && events.address == general->events.address &&
        events.size == general->events.size && events.stream == general->events.stream &&
        events.time_us == general->events.time_us && events.stack == general->events.stack &&
        read->notes.size() == general->notes.size() && read->stack_frames == general->stack_frames);
  for (std::size_t i = 0; i < events.count(); ++i) {
    check(events.stream[i] < read->streams.size() && events.size[i] >= 0);
    check_stack(*read, events.stack[i]);
  }
  for (const snapshot::Trace& trace : read->devices) {
    check_range(trace.events, events.count());
    check(snapshot::frees_without_alloc(*read, trace) <= trace.events.count);
  }
  for (const snapshot::Trace& trace : read->host_devices) check_range(trace.events, events.count());
  check_range(read->device_segments, read->segments.size());
  check_range(read->host_segments, read->segments.size());
  for (const snapshot::Segment& segment : read->segments) {
    check_range(segment.blocks, read->blocks.size());
    check_stack(*read, segment.stack);
    std::int64_t sum = 0;
    for (std::uint32_t b = 0; b < segment.blocks.count; ++b) sum += read->blocks[segment.blocks.first + b].size;
    check(sum == segment.total_size && segment.stream < read->streams.size());
  }
  for (const snapshot::Block& block : read->blocks) check_stack(*read, block.stack);
  for (const snapshot::Range& stack : read->stacks) check_range(stack, read->stack_frames.size());
  for (const std::uint32_t frame : read->stack_frames) check(frame < read->frames.size());
  for (const snapshot::Frame& frame : read->frames)
    check(frame.filename < read->strings.size() &&
          (frame.name == snapshot::kNoString || frame.name < read->strings.size()));
  for (const snapshot::Note& note : read->notes) check(note.event < events.count());
  return 0;
}

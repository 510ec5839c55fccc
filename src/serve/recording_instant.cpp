// SPDX-License-Identifier: Apache-2.0
// What a recording shows at an instant, of one object, and under another setting.
#include <algorithm>

#include <fmt/format.h>

#include "answer/replay.h"
#include "document/json_writer.h"
#include "replay/event_text.h"
#include "replay/flame.h"
#include "replay/pinned.h"
#include "serve/recording_picture.h"

namespace plimsoll::serve {

namespace {

using document::JsonWriter;
using document::Layout;

constexpr int kSchema = 1;

std::string hex(std::uint64_t address) { return fmt::format("{:#x}", address); }

}  // namespace

Result<std::string> RecordingPicture::segments(const Query& query) const {
  PLIMSOLL_TRY(event, asked_event(query));
  const std::vector<allocator::SegmentView> segments = space_->segments_after(event);
  const replay::Pinned pinned = replay::find_pinned(segments, recording_->recorded.settings);
  const replay::Grouping& groups = grouping(query.by);
  std::int64_t reserved = 0;
  for (const allocator::SegmentView& segment : segments) reserved += segment.size;
  // Neighbours of a kind that would be thinner than a pixel are drawn as one.
  constexpr std::int64_t kPixels = 40'000;
  const std::int64_t least = reserved / kPixels;
  constexpr std::size_t kMostSegments = 4000;
  JsonWriter json;
  json.begin_object()
      .member("schema", kSchema)
      .member("event", event)
      .member("reserved", reserved)
      .member("in_use", pinned.allocated)
      .member("idle_returnable", pinned.returnable)
      .member("idle_pinned", pinned.idle)
      .member("largest_idle", pinned.largest_idle)
      .member("segments_in_all", segments.size());
  json.key("groups").begin_array(Layout::kInline);
  for (const std::string& name : groups.names) json.value(name);
  json.end_array().key("segments").begin_array();
  for (std::size_t s = 0; s < std::min(kMostSegments, segments.size()); ++s) {
    const allocator::SegmentView& segment = segments[s];
    json.begin_object(Layout::kInline)
        .member("address", hex(segment.address))
        .member("size", segment.size)
        .member("expandable", segment.expandable);
    // Each: offset, size, group or -1 for nobody, object or -1 for several.
    json.key("blocks").begin_array();
    std::int64_t offset = 0;
    std::int64_t size = 0;
    int group = -2;
    std::int64_t object = -1;
    const auto close = [&] {
      if (size > 0) json.begin_array().value(offset).value(size).value(group).value(object).end_array();
    };
    for (const allocator::BlockView& block : segment.blocks) {
      const bool is_free = block.state == allocator::BlockState::kFree;
      const int its = is_free ? -1 : int{groups.of_object[block.owner]};
      if (size > 0 && its == group && (block.size < least || size < least)) {
        size += block.size;
        object = -1;
        continue;
      }
      close();
      offset = static_cast<std::int64_t>(block.address - segment.address);
      size = block.size;
      group = its;
      object = is_free ? -1 : std::int64_t{block.owner};
    }
    close();
    json.end_array().end_object();
  }
  json.end_array().key("pinned").begin_array();
  constexpr std::size_t kMostPinned = 30;
  for (std::size_t s = 0; s < std::min(kMostPinned, pinned.segments.size()); ++s) {
    const replay::PinnedSegment& segment = pinned.segments[s];
    json.begin_object(Layout::kInline)
        .member("address", hex(segment.address))
        .member("size", segment.size)
        .member("idle", segment.idle)
        .member("live_blocks", segment.holders.size());
    json.key("holders").begin_array();
    for (std::size_t h = 0; h < std::min<std::size_t>(3, segment.holders.size()); ++h)
      json.begin_object()
          .member("bytes", segment.holders[h].bytes)
          .member("stack",
                  replay::stack_line(*recording_->snapshot, course_->history().stack_of(segment.holders[h].object)))
          .end_object();
    json.end_array().end_object();
  }
  return json.end_array().end_object().take();
}

Result<std::string> RecordingPicture::flame(const Query& query) const {
  PLIMSOLL_TRY(event, asked_event(query));
  constexpr std::int64_t kShare = 2000;
  const std::vector<replay::FlameNode> whole = replay::flame_after(*course_, event, 0);
  const std::int64_t least = whole.front().bytes / kShare;
  const std::vector<replay::FlameNode> nodes = replay::flame_after(*course_, event, std::max<std::int64_t>(least, 1));
  constexpr std::size_t kMostNodes = 20'000;
  const snapshot::Snapshot& snapshot = *recording_->snapshot;
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("event", event).member("bytes", nodes.front().bytes);
  // Each: name, parent, bytes, objects.
  json.key("nodes").begin_array(Layout::kInline);
  for (std::size_t i = 0; i < std::min(kMostNodes, nodes.size()); ++i) {
    const replay::FlameNode& node = nodes[i];
    json.begin_array()
        .value(i == 0                         ? std::string{"everything alive"}
               : node.frame == replay::kNever ? std::string{"no Python stack"}
                                              : replay::frame_text(snapshot, node.frame))
        .value(node.parent)
        .value(node.bytes)
        .value(node.objects)
        .end_array();
  }
  return json.end_array().end_object().take();
}

Result<std::string> RecordingPicture::object(const Query& query) const {
  PLIMSOLL_TRY_STATUS(needs_history());
  const replay::History& history = course_->history();
  if (query.event < 0 || query.event >= static_cast<std::int64_t>(history.objects.size()))
    return bad_input(fmt::format("object {}: the recording has {}", query.event, history.objects.size()));
  const auto object = static_cast<std::uint32_t>(query.event);
  const replay::Object& life = history.objects[object];
  JsonWriter json;
  json.begin_object()
      .member("schema", kSchema)
      .member("object", object)
      .member("address", hex(space_->address_of(object)))
      .member("requested", history.bytes_of(object))
      .member("block", levels_.block_of(object))
      .member("category", replay::text_of(attribution_->of(object)))
      .member("stream", history.stream_of(object))
      .member("birth", life.birth == replay::kNever ? std::nullopt : std::optional{life.birth - history.events.first})
      .member("death", life.death == replay::kNever ? std::nullopt : std::optional{life.death - history.events.first});
  const bool both = life.birth != replay::kNever && life.death != replay::kNever;
  if (both && course_->has_times())
    json.member("microseconds", course_->time_of(life.death - history.events.first) -
                                    course_->time_of(life.birth - history.events.first));
  json.key("stack").begin_array();
  if (const std::uint32_t stack = history.stack_of(object); stack != snapshot::kNoStack) {
    const snapshot::Range range = recording_->snapshot->stacks[stack];
    for (std::uint32_t i = 0; i < range.count; ++i)
      json.value(replay::frame_text(*recording_->snapshot, recording_->snapshot->stack_frames[range.first + i]));
  }
  return json.end_array().end_object().take();
}

Result<std::string> RecordingPicture::under(const Query& query) const {
  PLIMSOLL_TRY_STATUS(needs_history());
  const std::string setting = answer::joined_settings({query.setting});
  PLIMSOLL_TRY(conditions, replay::conditions_of(setting, recording_->surroundings));
  replay::Levels levels;
  const replay::Run run = replay::run(course_->history(), conditions, &levels);
  const replay::Course course(course_->history(), levels);
  const Axis axis = axis_of(query);
  const std::vector<std::uint32_t> bounds = bounds_of(axis, static_cast<std::size_t>(query.columns));
  JsonWriter json;
  json.begin_object()
      .member("schema", kSchema)
      .member("setting", setting)
      .member("environment", answer::environment_line(setting, recording_->surroundings.torch))
      .member("peak_allocated", run.stats.peak_allocated)
      .member("peak_reserved", run.stats.peak_reserved)
      .member("retries", run.stats.retries)
      .member("runs_out", run.oom.has_value())
      .member("from", axis.from)
      .member("to", axis.to);
  json.key("reserved").begin_array(Layout::kInline);
  const std::uint32_t end = levels.last_event() - course_->history().events.first;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const bool is_played = bounds[i] <= end;
    json.value(is_played
                   ? course.most_reserved(bounds[i], std::max(bounds[i], bounds[i + 1] > 0 ? bounds[i + 1] - 1 : 0))
                   : 0);
  }
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::serve

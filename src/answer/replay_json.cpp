// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "answer/json.h"
#include "answer/replay.h"

namespace plimsoll::answer {

namespace {

void write_stack(JsonWriter& json, const snapshot::Snapshot& snapshot, std::uint32_t stack) {
  json.begin_array();
  if (stack != snapshot::kNoStack) {
    const snapshot::Range range = snapshot.stacks[stack];
    for (std::uint32_t i = 0; i < range.count; ++i)
      json.value(replay::frame_text(snapshot, snapshot.stack_frames[range.first + i]));
  }
  json.end_array();
}

void write_oom(JsonWriter& json, const Recording& r, const replay::Run& run) {
  if (!run.oom) {
    json.member("oom", nullptr);
    return;
  }
  const replay::RunOutOfMemory& oom = *run.oom;
  json.key("oom").begin_object();
  if (oom.event != replay::kNever) {
    json.member("event", oom.event - r.history->events.first);
    write_stack(json.key("stack"), *r.snapshot, r.snapshot->events.stack[oom.event]);
  }
  json.member("requested", oom.requested)
      .member("segment", oom.asked)
      .member("short_by", oom.missing > 0 ? std::optional{oom.missing} : std::nullopt)
      .member("allocated", oom.allocated)
      .member("reserved", oom.reserved)
      .member("largest_free", oom.largest_free)
      .member("recorded", oom.was_recorded)
      .member("would_succeed_if_repeated", oom.would_hit)
      .end_object();
}

void write_figures(JsonWriter& json, const Recording& r, const replay::Run& run) {
  json.member("peak_allocated", run.stats.peak_allocated)
      .member("peak_requested", run.stats.peak_requested)
      .member("peak_reserved", run.stats.peak_reserved)
      .member("fragmentation", run.fragmentation());
  write_oom(json, r, run);
  json.member("device_allocs", run.stats.device_allocs)
      .member("device_frees", run.stats.device_frees)
      .member("retries", run.stats.retries)
      .member("collected", run.stats.collected);
}

void write_difference(JsonWriter& json, const Recording& r) {
  if (r.exact.exact()) {
    json.member("first_difference", nullptr);
    return;
  }
  const replay::Difference& difference = *r.exact.first_difference;
  json.key("first_difference").begin_object();
  if (difference.event != replay::kNever) json.member("event", difference.event - r.history->events.first);
  json.member("recorded", difference.recorded).member("simulated", difference.simulated).end_object();
}

void write_pinned(JsonWriter& json, const Replay& answer) {
  const replay::Pinned& p = answer.pinned;
  const Recording& r = *answer.recording;
  json.key("pinned").begin_object();
  json.member("reserved", p.reserved)
      .member("in_use", p.allocated)
      .member("idle_returnable", p.returnable)
      .member("idle_pinned", p.idle)
      .member("largest_idle", p.largest_idle)
      .member("largest_request", answer.largest_request);
  json.key("segments").begin_array();
  constexpr std::size_t kMost = 100;
  for (std::size_t i = 0; i < std::min(kMost, p.segments.size()); ++i) {
    const replay::PinnedSegment& segment = p.segments[i];
    json.begin_object(Layout::kInline)
        .member("address", segment.address)
        .member("size", segment.size)
        .member("idle", segment.idle)
        .member("live_blocks", segment.holders.size());
    json.key("largest_holders").begin_array();
    for (std::size_t h = 0; h < std::min<std::size_t>(3, segment.holders.size()); ++h) {
      const std::uint32_t object = segment.holders[h].object;
      const std::uint32_t stack = r.history ? r.history->stack_of(object) : r.snapshot->blocks[object].stack;
      json.begin_object().member("bytes", segment.holders[h].bytes);
      json.member("stack", replay::stack_line(*r.snapshot, stack)).end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().end_object();
}

void write_groups(JsonWriter& json, const char* name, const snapshot::Snapshot& snapshot,
                  const std::vector<replay::Group>& groups, bool with_stacks) {
  json.key(name).begin_array();
  for (const replay::Group& group : groups) {
    json.begin_object(Layout::kInline)
        .member("name", group.text)
        .member("bytes", group.bytes)
        .member("objects", group.count)
        .member("largest", group.largest);
    if (with_stacks) write_stack(json.key("stack"), snapshot, group.stack);
    json.end_object();
  }
  json.end_array();
}

void write_peak(JsonWriter& json, const Replay& answer) {
  if (!answer.peak) return;
  const replay::PeakReport& peak = *answer.peak;
  const snapshot::Snapshot& snapshot = *answer.recording->snapshot;
  json.key("peak").begin_object().member("requested", peak.requested);
  write_groups(json, "categories", snapshot, {peak.categories.begin(), peak.categories.end()}, false);
  write_groups(json, "modules", snapshot, peak.modules, false);
  write_groups(json, "stacks", snapshot, peak.stacks, true);
  json.end_object();
}

void write_leaks(JsonWriter& json, const Replay& answer) {
  if (!answer.leaks) return;
  json.key("leaks")
      .begin_object()
      .member("steps", answer.leaks->steps)
      .member("by_optimizer_steps", answer.leaks->by_optimizer)
      .member("growth_per_step", answer.leaks->growth_per_step);
  json.key("origins").begin_array();
  for (const replay::Leak& leak : answer.leaks->leaks) {
    json.begin_object(Layout::kInline)
        .member("per_step", leak.per_step)
        .member("first", leak.first)
        .member("last", leak.last);
    if (leak.object_bytes > 0) json.member("object_bytes", leak.object_bytes);
    write_stack(json.key("stack"), *answer.recording->snapshot, leak.stack);
    json.end_object();
  }
  json.end_array().end_object();
}

void write_what_ifs(JsonWriter& json, const Replay& answer) {
  if (answer.what_ifs.empty()) return;
  const Recording& r = *answer.recording;
  json.key("what_if").begin_array();
  for (const replay::WhatIf& what_if : answer.what_ifs) {
    json.begin_object().member("settings", what_if.setting);
    json.member("environment", environment_line(what_if.setting, r.surroundings.torch));
    write_figures(json, r, what_if.run);
    json.member("peak_reserved_if_placed_otherwise", what_if.reserved_if_placed_otherwise).end_object();
  }
  json.end_array();
  if (answer.tuned)
    json.key("tuned")
        .begin_object()
        .member("tried", answer.tuned->tried)
        .member("exhaustive", answer.tuned->exhaustive)
        .end_object();
}

}  // namespace

std::string to_json(const Replay& answer) {
  const Recording& r = *answer.recording;
  JsonWriter json;
  json.begin_object().member("schema", kSchema);
  json.member("events", r.history ? r.exact.events : 0).member("reproduced", r.history ? r.exact.reproduced : 0);
  if (r.history) {
    write_difference(json, r);
  } else {
    json.member("first_difference", nullptr);
  }
  json.member("final_blocks_equal", r.exact.final_blocks_equal)
      .member("device", r.device)
      .member("recorded_settings", r.recorded.text)
      .member("settings", answer.setting);
  if (r.history) {
    write_figures(json, r, answer.run);
  } else {
    for (const char* name : {"peak_allocated", "peak_requested", "peak_reserved", "fragmentation", "oom"})
      json.member(name, nullptr);
  }
  if (r.history) json.member("oom_depends_on_limit", answer.depends_on_limit);
  if (r.inferred)
    json.key("inferred_limit")
        .begin_object()
        .member("low", r.inferred->low)
        .member("high", r.inferred->high)
        .member("fraction", r.inferred->fraction)
        .end_object();
  json.key("samples").begin_array(Layout::kInline);
  for (const replay::Sample& sample : answer.run.samples)
    json.begin_array()
        .value(sample.event - r.history->events.first)
        .value(sample.allocated)
        .value(sample.reserved)
        .end_array();
  json.end_array();
  write_pinned(json, answer);
  write_peak(json, answer);
  write_leaks(json, answer);
  write_what_ifs(json, answer);
  write_texts(json, "warnings", answer.warnings);
  return json.end_object().take();
}

}  // namespace plimsoll::answer

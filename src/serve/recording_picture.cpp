// SPDX-License-Identifier: Apache-2.0
#include "serve/recording_picture.h"

#include <algorithm>

#include <fmt/format.h>

#include "document/json_writer.h"
#include "replay/event_text.h"

namespace plimsoll::serve {

namespace {

using document::JsonWriter;
using document::Layout;

constexpr int kSchema = 1;
constexpr double kMicro = 1e-6;

template <class Row, class Get>
void write_array(JsonWriter& json, std::string_view name, const std::vector<Row>& rows, const Get& get) {
  json.key(name).begin_array(Layout::kInline);
  for (const Row& row : rows) json.value(get(row));
  json.end_array();
}

}  // namespace

Result<std::unique_ptr<RecordingPicture>> RecordingPicture::open(const std::string& path,
                                                                 const answer::RecordingConditions& conditions) {
  auto picture = std::make_unique<RecordingPicture>();
  PLIMSOLL_TRY(file, answer::read_recording_file(path));
  if (!file.snapshot) {
    picture->counters_ = std::move(file.counters);
    return picture;
  }
  PLIMSOLL_TRY(recording, answer::load_recording(path, std::move(file.snapshot), conditions, &picture->levels_));
  picture->recording_ = std::make_unique<answer::Recording>(std::move(recording));
  if (picture->recording_->history) {
    const replay::History& history = *picture->recording_->history;
    picture->course_.emplace(history, picture->levels_);
    picture->attribution_.emplace(history);
    picture->space_.emplace(*picture->course_);
  }
  return picture;
}

Status RecordingPicture::needs_history() const {
  if (course_ && course_->events() > 0) return {};
  return bad_input("this snapshot has no history to draw",
                   "record one with torch.cuda.memory._record_memory_history()");
}

RecordingPicture::Axis RecordingPicture::axis_of(const Query& query) const {
  Axis axis;
  axis.by_time = query.axis == "time" && course_->has_times();
  axis.end = axis.by_time ? static_cast<double>(course_->time_of(course_->events() - 1)) * kMicro
                          : static_cast<double>(course_->events());
  axis.from = std::clamp(query.from.value_or(0), 0.0, axis.end);
  axis.to = std::clamp(query.to.value_or(axis.end), axis.from, axis.end);
  return axis;
}

std::uint32_t RecordingPicture::event_at(const Axis& axis, double at) const {
  if (axis.by_time) return course_->event_at(static_cast<std::int64_t>(at / kMicro));
  return static_cast<std::uint32_t>(std::clamp(at, 0.0, axis.end));
}

double RecordingPicture::place_of(const Axis& axis, std::uint32_t event) const {
  return axis.by_time ? static_cast<double>(course_->time_of(event)) * kMicro : static_cast<double>(event);
}

std::vector<std::uint32_t> RecordingPicture::bounds_of(const Axis& axis, std::size_t count) const {
  std::vector<std::uint32_t> bounds;
  bounds.reserve(count + 1);
  for (std::size_t i = 0; i <= count; ++i)
    bounds.push_back(
        event_at(axis, axis.from + (axis.to - axis.from) * static_cast<double>(i) / static_cast<double>(count)));
  if (axis.to >= axis.end) bounds.back() = course_->events();
  return bounds;
}

Result<std::uint32_t> RecordingPicture::asked_event(const Query& query) const {
  PLIMSOLL_TRY_STATUS(needs_history());
  if (query.event < 0 || query.event >= static_cast<std::int64_t>(course_->events()))
    return bad_input(fmt::format("event {}: the recording has {}", query.event, course_->events()));
  return static_cast<std::uint32_t>(query.event);
}

const replay::Grouping& RecordingPicture::grouping(const std::string& by) const {
  const std::lock_guard lock(mutex_);
  if (by == "module") {
    if (!by_module_) by_module_ = course_->by_module();
    return *by_module_;
  }
  if (by == "stack") {
    if (!by_stack_) by_stack_ = course_->by_stack();
    return *by_stack_;
  }
  if (!by_category_) by_category_ = course_->by_category(*attribution_);
  return *by_category_;
}

std::string RecordingPicture::overview() const {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("has_history", course_.has_value());
  if (!course_) return json.member("is_counters", recording_ == nullptr).end_object().take();
  json.member("events", course_->events())
      .member("objects", course_->history().objects.size())
      .member("device", recording_->device)
      .member("settings", recording_->recorded.text)
      .member("has_times", course_->has_times())
      .member("has_stacks", attribution_->has_stacks())
      .member("seconds",
              course_->has_times() ? static_cast<double>(course_->time_of(course_->events() - 1)) * kMicro : 0)
      .member("exact", recording_->exact.exact())
      .member("reproduced", recording_->exact.reproduced)
      .member("peak_allocated", recording_->run.stats.peak_allocated)
      .member("peak_reserved", recording_->run.stats.peak_reserved)
      .member("peak_event", course_->peak_event())
      .member("space_bytes", space_->bytes())
      .member("limit", recording_->inferred ? std::optional{recording_->inferred->low} : std::nullopt);
  if (recording_->run.oom && recording_->run.oom->event != replay::kNever)
    json.member("oom_event", recording_->run.oom->event - course_->history().events.first)
        .member("oom_requested", recording_->run.oom->requested);
  json.key("steps").begin_array(Layout::kInline);
  constexpr std::size_t kMostSteps = 2000;
  const auto& steps = attribution_->optimizer_steps();
  for (std::size_t i = 0; i < std::min(kMostSteps, steps.size()); ++i)
    json.begin_array()
        .value(steps[i].first - course_->history().events.first)
        .value(steps[i].last - course_->history().events.first)
        .end_array();
  json.end_array().key("warnings").begin_array();
  for (const std::string& warning : recording_->warnings) json.value(warning);
  return json.end_array().end_object().take();
}

Result<std::string> RecordingPicture::columns(const Query& query) const {
  PLIMSOLL_TRY_STATUS(needs_history());
  using Column = replay::Course::Column;
  const Axis axis = axis_of(query);
  const replay::Grouping& groups = grouping(query.by);
  const std::vector<Column> columns =
      course_->columns(groups, bounds_of(axis, static_cast<std::size_t>(query.columns)));
  JsonWriter json;
  json.begin_object()
      .member("schema", kSchema)
      .member("axis", axis.by_time ? "time" : "events")
      .member("end", axis.end)
      .member("from", axis.from)
      .member("to", axis.to)
      .member("peak_at", place_of(axis, course_->peak_event()))
      .member("peak_bytes", course_->peak());
  write_array(json, "event", columns, [](const Column& c) { return c.event; });
  write_array(json, "allocated", columns, [](const Column& c) { return c.allocated; });
  write_array(json, "lowest", columns, [](const Column& c) { return c.lowest; });
  write_array(json, "reserved", columns, [](const Column& c) { return c.reserved; });
  json.key("bands").begin_array();
  for (std::size_t k = 0; k < groups.size(); ++k) {
    json.begin_object().member("name", groups.names[k]);
    write_array(json, "bytes", columns, [k](const Column& c) { return c.groups[k]; });
    json.end_object();
  }
  return json.end_array().end_object().take();
}

Result<std::string> RecordingPicture::blocks(const Query& query) const {
  PLIMSOLL_TRY_STATUS(needs_history());
  const Axis axis = axis_of(query);
  const auto whole = static_cast<double>(space_->bytes());
  const double low = std::clamp(query.low.value_or(0), 0.0, whole);
  const double high = std::clamp(query.high.value_or(whole), low, whole);
  constexpr std::size_t kMostBlocks = 6000;
  constexpr double kRows = 1200;  // of pixels, or about that
  replay::Space::Window window;
  window.first = event_at(axis, axis.from);
  window.last = axis.to >= axis.end ? course_->events() : event_at(axis, axis.to);
  window.low = static_cast<std::int64_t>(low);
  window.high = static_cast<std::int64_t>(high);
  window.most = kMostBlocks;
  window.smallest_size = static_cast<std::int64_t>((high - low) / kRows);
  window.shortest = static_cast<std::uint32_t>(static_cast<double>(window.last - window.first) /
                                               static_cast<double>(4 * query.columns));
  std::size_t left_out = 0;
  const std::vector<replay::Space::Block> blocks = space_->blocks(window, left_out);
  const replay::Grouping& groups = grouping(query.by);
  JsonWriter json;
  json.begin_object()
      .member("schema", kSchema)
      .member("axis", axis.by_time ? "time" : "events")
      .member("end", axis.end)
      .member("from", axis.from)
      .member("to", axis.to)
      .member("low", low)
      .member("high", high)
      .member("space_bytes", space_->bytes())
      .member("left_out", left_out);
  json.key("groups").begin_array(Layout::kInline);
  for (const std::string& name : groups.names) json.value(name);
  json.end_array();
  // Each: object, from, to, place, size, group.
  json.key("blocks").begin_array(Layout::kInline);
  for (const replay::Space::Block& block : blocks)
    json.begin_array()
        .value(block.object)
        .value(place_of(axis, block.first))
        .value(block.last >= course_->events() ? axis.end : place_of(axis, block.last))
        .value(block.place)
        .value(block.size)
        .value(int{groups.of_object[block.object]})
        .end_array();
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::serve

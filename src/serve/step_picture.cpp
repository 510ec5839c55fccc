// SPDX-License-Identifier: Apache-2.0
#include "serve/step_picture.h"

#include <algorithm>

#include <fmt/format.h>

#include "document/json_writer.h"
#include "job/pipeline_layout.h"

namespace plimsoll::serve {

namespace {

using document::JsonWriter;
using document::Layout;

constexpr std::int64_t kSchema = 1;
constexpr std::int64_t kMostPasses = 400'000;

template <class Row, class Get>
void write_array(JsonWriter& json, std::string_view name, const std::vector<Row>& rows, const Get& get) {
  json.key(name).begin_array(Layout::kInline);
  for (const Row& row : rows) json.value(get(row));
  json.end_array();
}

void write_moment(JsonWriter& json, const step::Moment& moment) {
  json.member("phase", step::text_of(moment.phase));
  if (moment.micro_batch >= 0) json.member("micro_batch", moment.micro_batch).member("chunk", moment.chunk);
  if (moment.layer >= 0) json.member("layer", moment.layer);
  if (moment.operation != step::Operation::kNone) json.member("operation", step::text_of(moment.operation));
}

void write_peak(JsonWriter& json, std::string_view name, const StepPicture& picture, const memory::PeakPoint& peak) {
  json.key(name).begin_object(Layout::kInline);
  write_moment(json, peak.moment);
  json.member("allocated_bytes", peak.allocated)
      .member("reserved_bytes", peak.reserved)
      .member("event", peak.event)
      .member("seconds", picture.axis.time_of(peak.event))
      .end_object();
}

// Where the columns' instants lie in the step: numbers, and the texts that they stand for.
void write_moments(JsonWriter& json, const StepPicture& picture, const std::vector<memory::Column>& columns) {
  std::vector<step::Moment> moments;
  moments.reserve(columns.size());
  for (const memory::Column& column : columns) moments.push_back(picture.course.moment_at(column.event));
  json.key("moments").begin_object();
  write_array(json, "phase", moments, [](const step::Moment& m) { return static_cast<int>(m.phase); });
  write_array(json, "operation", moments, [](const step::Moment& m) { return static_cast<int>(m.operation); });
  write_array(json, "micro_batch", moments, [](const step::Moment& m) { return m.micro_batch; });
  write_array(json, "chunk", moments, [](const step::Moment& m) { return static_cast<int>(m.chunk); });
  write_array(json, "layer", moments, [](const step::Moment& m) { return static_cast<int>(m.layer); });
  json.key("phases").begin_array(Layout::kInline);
  for (int i = 0; i <= static_cast<int>(step::Phase::kEvaluation); ++i)
    json.value(step::text_of(static_cast<step::Phase>(i)));
  json.end_array().key("operations").begin_array(Layout::kInline);
  for (int i = 0; i <= static_cast<int>(step::Operation::kLogitsKept); ++i)
    json.value(step::text_of(static_cast<step::Operation>(i)));
  json.end_array().end_object();
}

void write_columns(JsonWriter& json, const StepPicture& picture, const std::vector<memory::Column>& columns) {
  using memory::Column;
  write_array(json, "event", columns, [](const Column& c) { return c.event; });
  write_array(json, "allocated", columns, [](const Column& c) { return c.allocated; });
  write_array(json, "lowest", columns, [](const Column& c) { return c.lowest; });
  write_array(json, "reserved", columns, [](const Column& c) { return c.reserved; });
  json.key("bands").begin_array();
  for (std::size_t k = 0; k < step::kCategories; ++k) {
    json.begin_object().member("name", step::text_of(static_cast<step::Category>(k)));
    write_array(json, "bytes", columns, [k](const Column& c) { return c.categories[k]; });
    json.end_object();
  }
  json.begin_object().member("name", "allocator rounding");
  write_array(json, "bytes", columns, [](const Column& c) { return c.rounding; });
  json.end_object().end_array();
  write_moments(json, picture, columns);
}

// Stretches of one phase and micro-batch as bands under the picture; those of less than a column are left out.
void write_stretches(JsonWriter& json, const StepPicture& picture, double from, double to, std::int64_t columns) {
  const double least = (to - from) / static_cast<double>(columns);
  json.key("stretches").begin_array();
  for (const memory::Stretch& stretch : memory::stretches_of(picture.course)) {
    const auto first = static_cast<double>(stretch.events.first);
    const auto last = static_cast<double>(stretch.events.last);
    if (last < from || first > to || last - first < least) continue;
    json.begin_object(Layout::kInline)
        .member("phase", step::text_of(stretch.phase))
        .member("micro_batch", stretch.micro_batch)
        .member("chunk", stretch.chunk)
        .member("from", stretch.events.first)
        .member("to", stretch.events.last)
        .end_object();
  }
  json.end_array();
}

}  // namespace

Result<StepPicture> make_step_picture(const job::Job& job, const lever::World& world, std::int64_t rank) {
  StepPicture picture;
  PLIMSOLL_TRY(course, memory::make_course(job, rank));
  picture.course = std::move(course);
  PLIMSOLL_TRY(layout, job::pipeline_layout(job));
  const timing::Machine machine(job.cluster, world.calibration);
  picture.time = timing::predict(job, layout, machine);
  picture.schedule = timing::schedule(timing::pipeline_times(job, layout, machine), kMostPasses);
  for (const auto& passes : picture.schedule)
    for (const timing::PassSpan& pass : passes) picture.passes_end = std::max(picture.passes_end, pass.end);
  if (!picture.schedule.empty()) {
    const double update = std::min(picture.time.seconds, picture.passes_end + picture.time.parts.data);
    picture.axis =
        make_axis(picture.course, picture.schedule[static_cast<std::size_t>(rank)], update,
                  std::min(picture.time.seconds, update + picture.time.parts.optimizer), picture.time.seconds);
  }
  return picture;
}

Result<std::string> step_json(const StepPicture& picture, const Query& query) {
  const bool by_time = query.axis == "time";
  if (by_time && picture.axis.pieces.empty())
    return bad_input("the passes of this step cannot be laid on the axis of time", "look at it by operations");
  const double end = by_time ? picture.axis.seconds : static_cast<double>(picture.course.events());
  const double from = std::clamp(query.from.value_or(0), 0.0, end);
  const double to = std::clamp(query.to.value_or(end), from, end);
  const auto count = static_cast<std::size_t>(query.columns);
  const std::vector<memory::Column> columns =
      by_time ? picture.axis.columns(picture.course, from, to, count)
              : memory::columns_of(picture.course, memory::even_ranges(static_cast<std::uint32_t>(from),
                                                                       static_cast<std::uint32_t>(to), count));
  JsonWriter json;
  json.begin_object()
      .member("schema", kSchema)
      .member("rank", picture.course.pp_rank)
      .member("capacity_bytes", picture.course.capacity)
      .member("outside_bytes", picture.course.outside)
      .member("axis", by_time ? "time" : "events")
      .member("end", end)
      .member("from", from)
      .member("to", to)
      .member("has_time", !picture.axis.pieces.empty());
  write_peak(json, "peak", picture, picture.course.walk.peak);
  if (picture.course.second) write_peak(json, "second_peak", picture, *picture.course.second);
  write_columns(json, picture, columns);
  if (!by_time) write_stretches(json, picture, from, to, query.columns);
  return json.end_object().take();
}

std::string schedule_json(const StepPicture& picture, const Query& query) {
  const double end = picture.time.seconds;
  const double from = std::clamp(query.from.value_or(0), 0.0, end);
  const double to = std::clamp(query.to.value_or(end), from, end);
  const double least = (to - from) / static_cast<double>(query.columns);
  JsonWriter json;
  json.begin_object()
      .member("schema", kSchema)
      .member("step_seconds", end)
      .member("passes_end_seconds", picture.passes_end)
      .member("from", from)
      .member("to", to);
  json.key("ranks").begin_array();
  for (const auto& passes : picture.schedule) {
    // A run of passes that are narrower than a column is one bar of its kind: chunk and micro-batch are -1 then.
    json.begin_array(Layout::kInline);
    timing::PassSpan bar;
    bool is_open = false;
    const auto close = [&] {
      if (is_open)
        json.begin_array()
            .value(bar.start)
            .value(bar.end)
            .value(bar.forward ? 1 : 0)
            .value(bar.chunk)
            .value(bar.micro_batch)
            .end_array();
      is_open = false;
    };
    for (const timing::PassSpan& pass : passes) {
      if (pass.end < from || pass.start > to) continue;
      const bool joins = is_open && pass.end - bar.start < 2 * least && pass.start - bar.end < least;
      if (joins) {
        bar.end = pass.end;
        bar.chunk = bar.micro_batch = -1;
        continue;
      }
      close();
      bar = pass;
      is_open = true;
    }
    close();
    json.end_array();
  }
  json.end_array().key("after").begin_array();
  const timing::Breakdown& parts = picture.time.parts;
  double now = picture.passes_end;
  const auto add = [&](std::string_view name, double seconds) {
    if (seconds <= 0) return;
    json.begin_object(Layout::kInline)
        .member("name", name)
        .member("from", now)
        .member("to", now + seconds)
        .end_object();
    now += seconds;
  };
  add("messages", std::min(parts.data, end - now));
  add("optimizer", std::min(parts.optimizer, end - now));
  add("host", end - now);
  return json.end_array().end_object().take();
}

Result<std::string> alive_json(const StepPicture& picture, const Query& query) {
  if (query.event < 0 || query.event >= static_cast<std::int64_t>(picture.course.events()))
    return bad_input(fmt::format("event {}: the step has {}", query.event, picture.course.events()));
  const auto event = static_cast<std::uint32_t>(query.event);
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("event", event);
  write_moment(json, picture.course.moment_at(event));
  json.member("allocated_bytes", picture.course.levels.allocated[event])
      .member("reserved_bytes", picture.course.levels.reserved[event]);
  json.key("alive").begin_array();
  for (const memory::Alive& alive : memory::alive_at(picture.course.tape, event))
    json.begin_object(Layout::kInline)
        .member("name", step::text_of(alive.name))
        .member("category", step::text_of(step::category_of(alive.name)))
        .member("count", alive.count)
        .member("bytes", alive.bytes)
        .end_object();
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::serve

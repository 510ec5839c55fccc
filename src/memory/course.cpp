// SPDX-License-Identifier: Apache-2.0
#include "memory/course.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/budget.h"
#include "base/bytes.h"
#include "job/pipeline_layout.h"
#include "memory/outside.h"
#include "memory/settings.h"
#include "step/program.h"

namespace plimsoll::memory {

namespace {

// The category sums of a tape, followed event by event.
class Sums {
 public:
  void follow(const step::Event& event) {
    if (event.bytes > 0) {
      live_.push_back({event.name, event.bytes});
      sum(event.name) += event.bytes;
    } else if (event.bytes < 0) {
      sum(live_[event.id].name) += event.bytes;
      live_[event.id].bytes = 0;
    } else {
      Live& tensor = live_[event.id];
      sum(tensor.name) -= tensor.bytes;
      tensor.name = event.name;
      sum(tensor.name) += tensor.bytes;
    }
  }
  [[nodiscard]] const std::array<std::int64_t, step::kCategories>& by_category() const { return sums_; }

 private:
  struct Live {
    step::Name name;
    std::int64_t bytes;
  };
  std::int64_t& sum(step::Name name) { return sums_[static_cast<std::size_t>(step::category_of(name))]; }

  std::vector<Live> live_;
  std::array<std::int64_t, step::kCategories> sums_{};
};

// Where most is allocated, and between which levels the range moves.
Column extremes(const Course& course, EventRange range) {
  const std::uint32_t events = course.events();
  if (range.first >= range.last) range = {range.first > 0 ? range.first - 1 : 0, std::max(range.first, 1U)};
  range.last = std::min(range.last, events);
  range.first = std::min(range.first, range.last - 1);
  Column column;
  column.event = range.first;
  column.allocated = column.lowest = course.levels.allocated[range.first];
  for (std::uint32_t i = range.first; i < range.last; ++i) {
    const std::int64_t allocated = course.levels.allocated[i];
    if (allocated > column.allocated) {
      column.allocated = allocated;
      column.event = i;
    }
    column.lowest = std::min(column.lowest, allocated);
    column.reserved = std::max(column.reserved, course.levels.reserved[i]);
  }
  return column;
}

}  // namespace

const step::Moment& Course::moment_at(std::uint32_t event) const {
  static const step::Moment kStart{};
  const auto& marks = tape.marks();
  const auto after = std::upper_bound(marks.begin(), marks.end(), event,
                                      [](std::uint32_t at, const step::Mark& mark) { return at < mark.event; });
  return after == marks.begin() ? kStart : std::prev(after)->moment;
}

Result<Course> make_course(const job::Job& job, std::int64_t pp_rank) {
  PLIMSOLL_TRY(layout, job::pipeline_layout(job));
  if (pp_rank < 0 || pp_rank >= job.parallel.pipeline)
    return bad_input(fmt::format("rank pp={}: the job has pipeline ranks 0 to {}", pp_rank, job.parallel.pipeline - 1));
  PLIMSOLL_TRY(settings, settings_of(job));
  const std::int64_t passes = step::layer_passes(job, layout, pp_rank);
  if (passes > kBudget.layer_passes)
    return bad_input(
        fmt::format("too large to draw: {} passes of layers in a step of rank pp={}", with_commas(passes), pp_rank),
        "fewer micro-batches per step, or fewer layers");
  Course course;
  course.pp_rank = pp_rank;
  course.capacity = job.cluster.gpu.capacity;
  const step::RankResult result = step::run_rank(job, layout, pp_rank, course.tape, false);
  course.tape.write_out();  // pictures go to an event by its number
  if (course.tape.overflowed() || course.tape.events().empty())
    return bad_input(fmt::format("too large to draw: more than {} allocations in a step of rank pp={}",
                                 with_commas(kBudget.events), pp_rank),
                     "fewer micro-batches per step, or fewer layers");
  course.outside = result.outside_bytes;
  course.outside += outside_torch_bytes(job);
  // As memory/answer does: within the device where it fits there, because a full device makes the allocator give back
  // what it caches; without a limit where it does not, to show what the step would need.
  const std::int64_t for_torch = course.capacity - course.outside;
  course.walk = walk(course.tape, settings, for_torch, true, course.capacity, &course.levels);
  if (course.walk.out_of_memory) {
    course.levels = {};
    const auto ran_out = course.walk.out_of_memory;
    course.walk = walk(course.tape, settings, for_torch, false, 0, &course.levels);
    course.walk.out_of_memory = ran_out;
  }
  for (const PeakPoint& group : course.walk.by_group) {
    if (group.allocated == 0 || group_of(group.moment) == group_of(course.walk.peak.moment)) continue;
    if (!course.second || group.allocated > course.second->allocated) course.second = group;
  }
  return course;
}

std::vector<EventRange> even_ranges(std::uint32_t first, std::uint32_t last, std::size_t count) {
  std::vector<EventRange> ranges;
  ranges.reserve(count);
  const std::uint64_t length = last > first ? last - first : 0;
  for (std::size_t i = 0; i < count; ++i)
    ranges.push_back({first + static_cast<std::uint32_t>(length * i / count),
                      first + static_cast<std::uint32_t>(length * (i + 1) / count)});
  return ranges;
}

std::vector<Column> columns_of(const Course& course, std::span<const EventRange> ranges) {
  std::vector<Column> columns;
  columns.reserve(ranges.size());
  for (const EventRange& range : ranges) columns.push_back(extremes(course, range));
  std::vector<std::size_t> in_order(columns.size());
  std::iota(in_order.begin(), in_order.end(), std::size_t{0});
  std::sort(in_order.begin(), in_order.end(),
            [&columns](std::size_t a, std::size_t b) { return columns[a].event < columns[b].event; });
  Sums sums;
  std::uint32_t next = 0;
  for (const std::size_t i : in_order) {
    Column& column = columns[i];
    for (; next <= column.event; ++next) sums.follow(course.tape.events()[next]);
    column.categories = sums.by_category();
    column.rounding =
        column.allocated - std::accumulate(column.categories.begin(), column.categories.end(), std::int64_t{0});
  }
  return columns;
}

std::vector<Stretch> stretches_of(const Course& course) {
  std::vector<Stretch> stretches;
  const auto& marks = course.tape.marks();
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const step::Moment& moment = marks[i].moment;
    const std::uint32_t first = std::min(marks[i].event, course.events());
    const std::uint32_t last = i + 1 < marks.size() ? std::min(marks[i + 1].event, course.events()) : course.events();
    const bool continues = !stretches.empty() && stretches.back().phase == moment.phase &&
                           stretches.back().micro_batch == moment.micro_batch && stretches.back().chunk == moment.chunk;
    if (continues) {
      stretches.back().events.last = last;
    } else {
      stretches.push_back({moment.phase, moment.micro_batch, moment.chunk, {first, last}});
    }
  }
  return stretches;
}

}  // namespace plimsoll::memory

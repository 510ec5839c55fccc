// SPDX-License-Identifier: Apache-2.0
#include "serve/step_axis.h"

#include <algorithm>

namespace plimsoll::serve {

namespace {

using memory::EventRange;
using step::Phase;

struct WalkedPass {
  bool forward = true;
  std::int32_t chunk = 0;
  std::int32_t micro_batch = 0;
  EventRange events;

  [[nodiscard]] bool is_like(const timing::PassSpan& pass) const {
    return forward == pass.forward && chunk == pass.chunk;
  }
};

// The passes of the step that repeats, in the walk's order. What a rank does between passes belongs to the one before.
std::vector<WalkedPass> walked_passes(const memory::Course& course, EventRange& update) {
  std::vector<WalkedPass> passes;
  update = {course.events(), course.events()};
  for (const memory::Stretch& stretch : memory::stretches_of(course)) {
    if (stretch.phase == Phase::kUpdate) {
      update.first = std::min(update.first, stretch.events.first);
      update.last = stretch.events.last;
      continue;
    }
    const bool forward = stretch.phase == Phase::kForward;
    if (!forward && stretch.phase != Phase::kBackward) continue;
    const bool continues = !passes.empty() && passes.back().forward == forward &&
                           passes.back().chunk == stretch.chunk && passes.back().micro_batch == stretch.micro_batch;
    if (stretch.micro_batch < 0 || continues) {
      if (!passes.empty()) passes.back().events.last = stretch.events.last;
      continue;
    }
    if (!passes.empty()) passes.back().events.last = stretch.events.first;
    passes.push_back({forward, stretch.chunk, stretch.micro_batch, stretch.events});
  }
  // What comes before the first pass still carries the names of the pass that ended the step before: it belongs to the
  // first one.
  const auto comes_again = [&passes](const WalkedPass& pass) {
    return std::count_if(passes.begin(), passes.end(), [&pass](const WalkedPass& other) {
             return other.forward == pass.forward && other.chunk == pass.chunk && other.micro_batch == pass.micro_batch;
           }) > 1;
  };
  if (passes.size() > 1 && comes_again(passes.front())) {
    passes[1].events.first = passes.front().events.first;
    passes.erase(passes.begin());
  }
  return passes;
}

// The walked pass that pass `i` of the schedule shows: the first `head` and the last ones are themselves; those between
// repeat the `period` passes before them.
std::size_t shown_by(std::size_t i, std::size_t head, std::size_t period, std::size_t missing) {
  if (i < head) return i;
  return i < head + missing ? head - period + (i - head) % period : i - missing;
}

bool agrees(const std::vector<WalkedPass>& walked, const std::vector<timing::PassSpan>& passes, std::size_t head,
            std::size_t period) {
  const std::size_t missing = passes.size() - walked.size();
  for (std::size_t i = 0; i < passes.size(); ++i)
    if (!walked[shown_by(i, head, period, missing)].is_like(passes[i])) return false;
  return true;
}

// Which walked pass each of the schedule's shows. Empty where the kinds do not agree however the walk is cut: a period
// is a forward and a backward of every chunk for some number of micro-batches, and the cut is nearest to the middle.
std::vector<std::size_t> match(const std::vector<WalkedPass>& walked, const std::vector<timing::PassSpan>& passes) {
  if (walked.empty() || walked.size() > passes.size()) return {};
  const std::size_t missing = passes.size() - walked.size();
  std::size_t chunks = 1;
  for (const timing::PassSpan& pass : passes) chunks = std::max(chunks, static_cast<std::size_t>(pass.chunk) + 1);
  const auto matched = [&](std::size_t head, std::size_t period) {
    std::vector<std::size_t> all(passes.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = shown_by(i, head, period, missing);
    return all;
  };
  if (missing == 0)
    return agrees(walked, passes, walked.size(), 1) ? matched(walked.size(), 1) : std::vector<std::size_t>{};
  const std::size_t middle = walked.size() / 2;
  for (std::size_t away = 0; away <= middle; ++away)
    for (const std::size_t head : {middle + away, middle - away})
      for (std::size_t period = 2 * chunks; period <= head && head <= walked.size(); period += 2 * chunks)
        if (agrees(walked, passes, head, period)) return matched(head, period);
  return {};
}

EventRange share_of(const Piece& piece, double from, double to) {
  const double length = piece.to - piece.from;
  const auto events = static_cast<double>(piece.events.last - piece.events.first);
  const auto at = [&](double time) {
    const double share = length > 0 ? std::clamp((time - piece.from) / length, 0.0, 1.0) : 1;
    return piece.events.first + static_cast<std::uint32_t>(share * events);
  };
  return {at(from), at(to)};
}

}  // namespace

StepAxis make_axis(const memory::Course& course, const std::vector<timing::PassSpan>& passes, double update_from,
                   double update_to, double seconds) {
  StepAxis axis;
  axis.seconds = seconds;
  EventRange update;
  const std::vector<WalkedPass> walked = walked_passes(course, update);
  const std::vector<std::size_t> matched = match(walked, passes);
  if (matched.empty()) return axis;
  double now = 0;
  std::uint32_t level = walked.front().events.first;  // events before this have happened
  const auto wait_until = [&](double time) {
    if (time > now) axis.pieces.push_back({now, time, {level, level}});
    now = std::max(now, time);
  };
  for (std::size_t i = 0; i < passes.size(); ++i) {
    wait_until(passes[i].start);
    axis.pieces.push_back({passes[i].start, passes[i].end, walked[matched[i]].events});
    level = walked[matched[i]].events.last;
    now = passes[i].end;
  }
  wait_until(update_from);
  axis.pieces.push_back({update_from, update_to, update});
  level = update.last;
  now = update_to;
  wait_until(seconds);
  return axis;
}

std::vector<memory::Column> StepAxis::columns(const memory::Course& course, double from, double to,
                                              std::size_t count) const {
  std::vector<EventRange> ranges;
  std::vector<std::size_t> column_of;
  std::size_t first = 0;
  for (std::size_t c = 0; c < count; ++c) {
    const double left = from + (to - from) * static_cast<double>(c) / static_cast<double>(count);
    const double right = from + (to - from) * static_cast<double>(c + 1) / static_cast<double>(count);
    while (first + 1 < pieces.size() && pieces[first].to <= left) ++first;
    for (std::size_t p = first; p < pieces.size() && (p == first || pieces[p].from < right); ++p) {
      ranges.push_back(share_of(pieces[p], left, right));
      column_of.push_back(c);
    }
  }
  const std::vector<memory::Column> parts = memory::columns_of(course, ranges);
  std::vector<memory::Column> columns(count);
  std::vector<bool> known(count, false);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    memory::Column& column = columns[column_of[i]];
    if (!known[column_of[i]]) {
      column = parts[i];
      known[column_of[i]] = true;
      continue;
    }
    const std::int64_t lowest = std::min(column.lowest, parts[i].lowest);
    const std::int64_t reserved = std::max(column.reserved, parts[i].reserved);
    if (parts[i].allocated > column.allocated) column = parts[i];
    column.lowest = lowest;
    column.reserved = reserved;
  }
  return columns;
}

std::optional<double> StepAxis::time_of(std::uint32_t event) const {
  for (const Piece& piece : pieces) {
    if (event < piece.events.first || event >= piece.events.last) continue;
    const double share = (static_cast<double>(event - piece.events.first) + 0.5) /
                         static_cast<double>(piece.events.last - piece.events.first);
    return piece.from + share * (piece.to - piece.from);
  }
  return std::nullopt;
}

}  // namespace plimsoll::serve

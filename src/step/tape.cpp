// SPDX-License-Identifier: Apache-2.0
#include "step/tape.h"

#include <algorithm>
#include <utility>

namespace plimsoll::step {

namespace {

constexpr auto kMost = static_cast<std::size_t>(kBudget.events);

}  // namespace

bool Tape::make_room() {
  constexpr std::size_t kFirst = 4096;
  if (events_.size() < kMost) {
    events_.reserve(std::min(kMost, std::max(kFirst, 2 * events_.capacity())));
    return true;
  }
  overflow();
  return false;
}

void Tape::overflow() {
  recording_ = false;
  overflowed_ = true;
  events_ = {};
  marks_ = {};
}

Tape::Piece Tape::piece(const Place& begin, const Place& end) const {
  Piece piece{begin, end, {}, {}};
  std::size_t m = begin.mark > 0 && marks_[begin.mark - 1].event == begin.event ? begin.mark - 1 : begin.mark;
  Moment moment = begin.moment;
  for (std::size_t i = begin.event; i < end.event; ++i) {
    for (; m < marks_.size() && marks_[m].event <= i; ++m) moment = marks_[m].moment;
    piece.profile.net += events_[i].bytes;
    if (piece.profile.net <= piece.profile.peak) continue;
    piece.profile.peak = piece.profile.net;
    piece.peak = moment;
  }
  return piece;
}

bool Tape::touches_only(const Piece& piece, std::span<const Renumbered> others) const {
  return std::all_of(events_.begin() + static_cast<std::ptrdiff_t>(piece.begin.event),
                     events_.begin() + static_cast<std::ptrdiff_t>(piece.end.event), [&](const Event& event) {
                       if (event.id >= piece.begin.id) return event.id < piece.end.id;
                       return std::any_of(others.begin(), others.end(), [&](const Renumbered& other) {
                         return event.id >= other.first && event.id < other.last;
                       });
                     });
}

void Tape::repeat(const Piece& piece, std::span<const Renumbered> others) {
  const std::int64_t highest = live_ + piece.profile.peak;
  const Moment peak = now(piece.peak);
  const Moment end = now(piece.end.moment);
  ++repeats_;
  if (recording_) copy(piece, others);
  span_peak_ = std::max(span_peak_, highest);
  if (highest > peak_) {
    peak_ = highest;
    peak_moment_ = peak;
  }
  live_ += piece.profile.net;
  moment_ = end;
  if (recording_ && piece.end.has_mark) mark();
}

void Tape::copy(const Piece& piece, std::span<const Renumbered> others) {
  const Place& begin = piece.begin;
  const std::size_t count = piece.end.event - begin.event;
  const std::size_t at = events_.size();
  while (events_.capacity() < at + count)
    if (at + count > kMost || !make_room()) return overflow();
  const std::uint32_t made = next_id_ - begin.id;  // what is added to the ids of its own tensors
  events_.resize(at + count);
  const Event* const from = events_.data() + begin.event;
  Event* const to = events_.data() + at;
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = from[i];
    to[i].id += made;
    if (from[i].id >= begin.id) continue;
    for (const Renumbered& other : others)
      if (from[i].id >= other.first && from[i].id < other.last) to[i].id = from[i].id - other.first + other.to;
  }
  next_id_ += piece.end.id - begin.id;
  const std::size_t first = begin.mark > 0 && marks_[begin.mark - 1].event == begin.event ? begin.mark - 1 : begin.mark;
  for (std::size_t m = first; m < marks_.size() && marks_[m].event < piece.end.event; ++m)
    mark(marks_[m].event - begin.event + at, now(marks_[m].moment));
}

void Tape::restart(bool recording) {
  constexpr std::size_t kMostRoom = std::size_t{1} << 18;  // of events: 8 MiB
  std::vector<Event> events = events_.capacity() <= kMostRoom ? std::move(events_) : std::vector<Event>();
  std::vector<Mark> marks = marks_.capacity() <= kMostRoom ? std::move(marks_) : std::vector<Mark>();
  events.clear();
  marks.clear();
  *this = Tape(recording);
  events_ = std::move(events);
  marks_ = std::move(marks);
}

}  // namespace plimsoll::step

// SPDX-License-Identifier: Apache-2.0
#include "step/tape.h"

#include <algorithm>
#include <utility>

namespace plimsoll::step {

bool Tape::make_room() {
  constexpr std::size_t kFirst = 4096;
  if (size_ < kMost) {
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
  stretches_ = {};
  marks_ = {};
  size_ = 0;
  is_open_ = false;
}

Tape::Piece Tape::piece(const Place& begin, const Place& end) const {
  Piece piece{begin, end, {}, {}};
  std::size_t m = begin.mark > 0 && marks_[begin.mark - 1].event == begin.event ? begin.mark - 1 : begin.mark;
  Moment moment = begin.moment;
  for (std::size_t i = begin.written; i < end.written; ++i) {
    for (; m < marks_.size() && marks_[m].event <= begin.event + (i - begin.written); ++m) moment = marks_[m].moment;
    piece.profile.net += events_[i].bytes;
    if (piece.profile.net <= piece.profile.peak) continue;
    piece.profile.peak = piece.profile.net;
    piece.peak = moment;
  }
  return piece;
}

bool Tape::touches_only(const Piece& piece, std::span<const Renumbered> others) const {
  const Place& begin = piece.begin;
  const Place& end = piece.end;
  const bool has_repeats = end.written - begin.written != end.event - begin.event;
  if (has_repeats || others.size() > kMostOthers) return false;
  return std::all_of(events_.begin() + static_cast<std::ptrdiff_t>(begin.written),
                     events_.begin() + static_cast<std::ptrdiff_t>(end.written), [&](const Event& event) {
                       if (event.id >= begin.id) return event.id < end.id;
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
  if (recording_) append(piece, others);
  span_peak_ = std::max(span_peak_, highest);
  if (highest > peak_) {
    peak_ = highest;
    peak_moment_ = peak;
  }
  live_ += piece.profile.net;
  moment_ = end;
  if (recording_ && has_moments_ && piece.end.has_mark) mark();
}

void Tape::append(const Piece& piece, std::span<const Renumbered> others) {
  const Place& begin = piece.begin;
  const std::size_t count = piece.end.event - begin.event;
  const std::size_t at = size_;
  if (count > kMost - at) return overflow();
  if (count > 0) {
    Stretch again{at, at + count, begin.written, true, begin.id, next_id_ - begin.id, {}};
    std::copy(others.begin(), others.end(), again.others.begin());
    stretches_.push_back(again);
    is_open_ = false;
    size_ += count;
  }
  next_id_ += piece.end.id - begin.id;
  if (!has_moments_) return;
  const std::size_t first = begin.mark > 0 && marks_[begin.mark - 1].event == begin.event ? begin.mark - 1 : begin.mark;
  for (std::size_t m = first; m < marks_.size() && marks_[m].event < piece.end.event; ++m)
    mark(marks_[m].event - begin.event + at, now(marks_[m].moment));
}

void Tape::write_out() {
  if (is_written_out()) return;
  std::vector<Event> all;
  all.reserve(size_);
  Cursor cursor;
  follow(cursor, size_, [&all](const Event& event, std::uint32_t id) {
    all.push_back(event);
    all.back().id = id;
    return true;
  });
  events_ = std::move(all);
  stretches_ = {{0, size_, 0, false, 0, 0, {}}};
  is_open_ = true;
}

void Tape::restart(bool recording, Moments moments) {
  constexpr std::size_t kMostRoom = std::size_t{1} << 18;  // of events: 8 MiB
  std::vector<Event> events = events_.capacity() <= kMostRoom ? std::move(events_) : std::vector<Event>();
  std::vector<Stretch> stretches = std::move(stretches_);
  std::vector<Mark> marks = marks_.capacity() <= kMostRoom ? std::move(marks_) : std::vector<Mark>();
  events.clear();
  stretches.clear();
  marks.clear();
  *this = Tape(recording, moments);
  events_ = std::move(events);
  stretches_ = std::move(stretches);
  marks_ = std::move(marks);
}

}  // namespace plimsoll::step

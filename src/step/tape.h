// SPDX-License-Identifier: Apache-2.0
// The tape: what a rank does to memory, written in order. Builders of frameworks call alloc and free as
// the framework would; the tape keeps the running sum and its peak, and, when it records, every event.
//
// Two lives of one description:
//   recording  every event is stored; memory/ walks them through an allocator (the walked answer)
//   metering   only sums are kept, so the same builder code measures a layer once and the schedule
//              adds its Profile n times (the folded answer)
// Invariant: at the end of a step's forward and backward, live() is what it was before them, except
// for what a framework really keeps between steps.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "base/budget.h"
#include "step/tensor.h"

namespace plimsoll::step {

// Every block of the caching allocator is a multiple of this (facts pytorch-allocator.md 1).
inline constexpr std::int64_t kBlockUnit = 512;

// A live tensor: bytes already rounded to blocks, and its identity on a recording tape.
struct Tensor {
  std::int64_t bytes = 0;  // 0: nothing is allocated
  std::uint32_t id = 0;
  Name name = Name::kHidden;

  explicit operator bool() const { return bytes > 0; }
};

// Cached memory is reused within a stream only.
enum class Stream : std::uint8_t { kCompute, kGather, kReduce };
inline constexpr int kStreams = 3;

struct Event {
  std::int64_t bytes = 0;      // > 0 allocated, < 0 freed, 0 renamed
  std::int64_t requested = 0;  // what the framework asked for, before rounding
  std::uint32_t id = 0;
  Name name = Name::kHidden;
  Stream stream = Stream::kCompute;  // of an allocation
};

// From `event` on, events happen at `moment`.
struct Mark {
  std::uint32_t event = 0;
  Moment moment;
  bool empties_cache = false;  // before it, cached memory goes back to the device
};

// What a piece of a step does to memory, without its details: the highest point above its start, and
// the bytes it leaves behind.
struct Profile {
  std::int64_t peak = 0;
  std::int64_t net = 0;

  // First this, then `next`.
  [[nodiscard]] Profile then(const Profile& next) const { return {std::max(peak, net + next.peak), net + next.net}; }
  // This piece n times in a row; n >= 0.
  [[nodiscard]] Profile times(std::int64_t n) const {
    if (n == 0) return {};
    return {net > 0 ? peak + net * (n - 1) : peak, net * n};
  }
};

// Whether a recording says when its events happen. Where only sums are asked for it need not: a quarter of what a walk
// reads are moments.
enum class Moments : std::uint8_t { kKept, kDropped };

class Tape {
 public:
  explicit Tape(bool recording = false, Moments moments = Moments::kKept)
      : recording_(recording), has_moments_(moments == Moments::kKept) {}

  Tensor alloc(std::int64_t bytes, Name name) {
    if (bytes <= 0) return {};
    const std::int64_t block = (bytes + kBlockUnit - 1) / kBlockUnit * kBlockUnit;
    live_ += block;
    span_peak_ = std::max(span_peak_, live_);
    if (live_ > peak_) {
      peak_ = live_;
      peak_moment_ = moment_;
    }
    Tensor tensor{block, 0, name};
    if (recording_) record(tensor, bytes);
    return tensor;
  }

  // Frees and empties; an empty tensor is left alone.
  void free(Tensor& tensor) {
    if (!tensor) return;
    live_ -= tensor.bytes;
    if (recording_) push({-tensor.bytes, 0, tensor.id, tensor.name, Stream::kCompute});
    tensor = {};
  }

  // A temporary that lives for one operation only.
  void touch(std::int64_t bytes, Name name) {
    Tensor tensor = alloc(bytes, name);
    free(tensor);
  }

  // Memory that the first matrix product takes for good: its library's workspace once the product has its output, the
  // buffer that its input is gathered into before that.
  void arm_before_product(std::int64_t bytes, Name name) { before_product_.push_back({bytes, name}); }
  void arm_after_product(std::int64_t bytes, Name name) { after_product_.push_back({bytes, name}); }
  void before_product() {
    if (!before_product_.empty()) take(before_product_);
  }
  void after_product() {
    if (!after_product_.empty()) take(after_product_);
  }

  [[nodiscard]] bool has_armed() const { return !before_product_.empty() || !after_product_.empty(); }
  // For a piece that is measured on a tape of its own.
  void take_over_armed(Tape& other) {
    before_product_.swap(other.before_product_);
    after_product_.swap(other.after_product_);
  }
  // What no product has taken yet.
  void take_armed() {
    before_product();
    after_product();
  }

  // The same storage seen under another name, e.g. an output that becomes the next layer's residual.
  void rename(Tensor& tensor, Name name) {
    if (!tensor || tensor.name == name) return;
    tensor.name = name;
    if (recording_) push({0, 0, tensor.id, name, Stream::kCompute});
  }

  void apply(const Profile& profile) {
    span_peak_ = std::max(span_peak_, live_ + profile.peak);
    if (live_ + profile.peak > peak_) {
      peak_ = live_ + profile.peak;
      peak_moment_ = moment_;
    }
    live_ += profile.net;
  }

  // torch.cuda.empty_cache(): what the allocator keeps for later and nobody uses goes back to the device.
  void empty_cache() {
    if (!recording_) return;
    mark();
    marks_.back().empties_cache = true;
  }

  // Allocations from here on are made on this stream.
  void use(Stream stream) { stream_ = stream; }

  void enter(Phase phase) { set(phase, Operation::kNone, -1, moment_.chunk, moment_.micro_batch); }
  void pass(Phase phase, std::int64_t chunk, std::int64_t micro_batch) {
    set(phase, Operation::kNone, -1, static_cast<std::int16_t>(chunk), static_cast<std::int32_t>(micro_batch));
  }
  void layer(std::int64_t index) {
    set(moment_.phase, Operation::kNone, static_cast<std::int16_t>(index), moment_.chunk, moment_.micro_batch);
  }
  void at(Operation operation) { set(moment_.phase, operation, moment_.layer, moment_.chunk, moment_.micro_batch); }

  [[nodiscard]] bool recording() const { return recording_; }
  // More events than a walk may take: they were dropped, and only the sums are kept.
  [[nodiscard]] bool overflowed() const { return overflowed_; }
  [[nodiscard]] std::int64_t live() const { return live_; }
  [[nodiscard]] std::int64_t peak() const { return peak_; }
  // The highest point since begin_span: what a memory pool over that span would have to hold.
  void begin_span() { span_peak_ = live_; }
  [[nodiscard]] std::int64_t span_peak() const { return span_peak_; }
  [[nodiscard]] const Moment& moment() const { return moment_; }
  [[nodiscard]] const Moment& peak_moment() const { return peak_moment_; }
  // How many events there are, those of repeated pieces among them.
  [[nodiscard]] std::size_t size() const { return size_; }
  // Without moments: those alone that empty the cache.
  [[nodiscard]] const std::vector<Mark>& marks() const { return marks_; }
  // A reader's place: the stretch that it reads and the event before which it stands.
  struct Cursor {
    std::size_t stretch = 0;
    std::size_t event = 0;
  };
  // visit(event, id) for the events from the cursor to `last`, in order, until it says false: `id` is the tensor's,
  // which the event itself names only where it was written first.
  template <class Visit>
  void follow(Cursor& cursor, std::size_t last, Visit&& visit) const;
  // Writes out what was repeated, for readers that go to an event by its number. Moments and sums stay.
  void write_out();
  // Of a tape that is written out, or on which nothing was repeated. Valid until the next event is written.
  [[nodiscard]] std::span<const Event> events() const {
    assert(is_written_out());
    return events_;
  }
  [[nodiscard]] bool is_written_out() const { return size_ == events_.size(); }
  // How many were recorded: their ids count up from 0.
  [[nodiscard]] std::uint32_t tensors() const { return next_id_; }

  // A place on the tape, for pieces between two of them.
  struct Place {
    std::size_t event = 0;
    std::size_t written = 0;  // events that were not repeated
    std::size_t mark = 0;
    std::uint32_t id = 0;  // of the next tensor
    Moment moment;
    bool has_mark = false;  // one that no event has followed yet
  };
  [[nodiscard]] Place place() const {
    const bool has_mark = !marks_.empty() && marks_.back().event == size_;
    return {size_, events_.size(), marks_.size(), next_id_, moment_, has_mark};
  }
  // A piece of the tape that may be written again: a pass through a chunk is the same for every micro-batch. It has
  // tensors that it makes itself and others that it only frees or renames. Nothing in it is repeated itself.
  struct Piece {
    Place begin, end;
    Profile profile;
    Moment peak;  // when its highest point is reached
  };
  [[nodiscard]] Piece piece(const Place& begin, const Place& end) const;
  struct Renumbered {  // ids [first, last) of a piece are those from `to` on where it is written again
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    std::uint32_t to = 0;
  };
  static constexpr std::size_t kMostOthers = 2;
  // Whether the piece touches nothing but what it makes and these.
  [[nodiscard]] bool touches_only(const Piece& piece, std::span<const Renumbered> others) const;
  // The piece again, in the present phase, chunk and micro-batch: the same events as if its writer had run. They are
  // not copied: a step has hundreds of thousands, a piece a thousand that stay in the processor's cache.
  void repeat(const Piece& piece, std::span<const Renumbered> others);
  // Whether writers should repeat what they can. Tests ask for all to be written.
  void write_all() { may_repeat_ = false; }
  [[nodiscard]] bool may_repeat() const { return may_repeat_; }
  // Pieces that were written again.
  [[nodiscard]] std::size_t repeats() const { return repeats_; }

  // An empty tape again, as one that is new; what it recorded leaves its room to what comes, unless that is much.
  void restart(bool recording, Moments moments = Moments::kKept);

  // The profile of everything since the tape was made or reset.
  [[nodiscard]] Profile profile() const { return {peak_, live_}; }
  void reset() {
    live_ = peak_ = span_peak_ = 0;
    moment_ = peak_moment_ = {};
    events_.clear();
    stretches_.clear();
    marks_.clear();
    size_ = 0;
    is_open_ = false;
    next_id_ = 0;
  }

 private:
  static constexpr auto kMost = static_cast<std::size_t>(kBudget.events);

  // Events that are read one after the other: as they were written, or a piece again.
  struct Stretch {
    std::size_t first = 0;    // among all events
    std::size_t last = 0;     // the one after its last
    std::size_t written = 0;  // the first where it was written
    bool is_repeated = false;
    std::uint32_t own = 0;   // where it is: ids from here on ...
    std::uint32_t made = 0;  // ... are this much higher, lower ones are of `others`
    std::array<Renumbered, kMostOthers> others{};

    [[nodiscard]] std::uint32_t id_of(const Event& event) const {
      if (event.id >= own) return event.id + made;
      const Renumbered& other = event.id >= others[0].first && event.id < others[0].last ? others[0] : others[1];
      return event.id - other.first + other.to;
    }
  };
  struct Armed {
    std::int64_t bytes;
    Name name;
  };

  void record(Tensor& tensor, std::int64_t requested) {
    tensor.id = next_id_++;
    push({tensor.bytes, requested, tensor.id, tensor.name, stream_});
  }
  void push(const Event& event) {
    if ((events_.size() == events_.capacity() || size_ >= kMost) && !make_room()) return;
    events_.push_back(event);
    if (is_open_) {
      ++stretches_.back().last;
    } else {
      stretches_.push_back({size_, size_ + 1, events_.size() - 1, false, 0, 0, {}});
      is_open_ = true;
    }
    ++size_;
  }
  // False, and nothing is recorded any more, where a tape may have no more events.
  bool make_room();
  void overflow();
  void take(std::vector<Armed>& armed) {
    for (const Armed& a : armed) (void)alloc(a.bytes, a.name);
    armed.clear();
  }
  void set(Phase phase, Operation operation, std::int16_t layer, std::int16_t chunk, std::int32_t micro_batch) {
    moment_ = {phase, operation, chunk, layer, micro_batch};
    if (recording_ && has_moments_) mark();
  }
  void append(const Piece& piece, std::span<const Renumbered> others);
  // A moment of a piece where it is written again.
  [[nodiscard]] Moment now(const Moment& then) const {
    return {moment_.phase, then.operation, moment_.chunk, then.layer, moment_.micro_batch};
  }
  void mark() { mark(size_, moment_); }
  void mark(std::size_t event, const Moment& moment) {
    if (!marks_.empty() && marks_.back().event == event) {
      marks_.back().moment = moment;
    } else {
      marks_.push_back({static_cast<std::uint32_t>(event), moment, false});
    }
  }

  bool recording_;
  bool has_moments_;
  bool overflowed_ = false;
  Stream stream_ = Stream::kCompute;
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t span_peak_ = 0;
  Moment moment_;
  Moment peak_moment_;
  std::vector<Event> events_;  // as they were written, without repeats
  std::vector<Stretch> stretches_;
  bool is_open_ = false;  // the last stretch takes what is written next
  std::size_t size_ = 0;
  std::vector<Mark> marks_;
  std::vector<Armed> before_product_;
  std::vector<Armed> after_product_;
  std::uint32_t next_id_ = 0;
  bool may_repeat_ = true;
  std::size_t repeats_ = 0;
};

template <class Visit>
void Tape::follow(Cursor& cursor, std::size_t last, Visit&& visit) const {
  for (; cursor.event < last && cursor.stretch < stretches_.size(); ++cursor.stretch) {
    const Stretch& stretch = stretches_[cursor.stretch];
    const Event* event = events_.data() + stretch.written + (cursor.event - stretch.first);
    const Event* const end = event + (std::min(last, stretch.last) - cursor.event);
    if (!stretch.is_repeated) {
      for (; event != end; ++event, ++cursor.event)
        if (!visit(*event, event->id)) return;
    } else {
      for (; event != end; ++event, ++cursor.event)
        if (!visit(*event, stretch.id_of(*event))) return;
    }
    if (cursor.event < stretch.last) return;
  }
}

}  // namespace plimsoll::step

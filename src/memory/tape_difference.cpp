// SPDX-License-Identifier: Apache-2.0
#include "memory/tape_difference.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/alignment.h"

namespace plimsoll::memory {

namespace {

// Requests below this share of the larger peak say nothing about it, and are many.
constexpr std::int64_t kShareThatCounts = 10'000;

// Follows the moments of a tape from event to event.
class Moments {
 public:
  explicit Moments(const step::Tape& tape) : marks_(tape.marks()) {}

  const step::Moment& at(std::size_t event) {
    while (next_ < marks_.size() && marks_[next_].event <= event) moment_ = marks_[next_++].moment;
    return moment_;
  }

 private:
  const std::vector<step::Mark>& marks_;
  std::size_t next_ = 0;
  step::Moment moment_;
};

std::vector<std::int64_t> sizes_of(const std::vector<TapeTensor>& tensors) {
  std::vector<std::int64_t> sizes(tensors.size());
  std::ranges::transform(tensors, sizes.begin(), &TapeTensor::bytes);
  return sizes;
}

std::vector<TapeTensor> picked(const std::vector<TapeTensor>& all, const std::vector<std::size_t>& indices) {
  std::vector<TapeTensor> found;
  for (const std::size_t index : indices) found.push_back(all[index]);
  return found;
}

// Tensors of one size on both sides, and of one phase where that counts, are the same ones, made in another order.
template <class Key>
void drop_moved(std::vector<TapeTensor>& a, std::vector<TapeTensor>& b, Key key) {
  std::map<decltype(key(TapeTensor{})), std::int64_t> in_a;
  auto in_b = in_a;
  for (const TapeTensor& tensor : a) ++in_a[key(tensor)];
  for (const TapeTensor& tensor : b) ++in_b[key(tensor)];
  for (std::vector<TapeTensor>* side : {&a, &b}) {
    auto& others = side == &a ? in_b : in_a;
    std::erase_if(*side, [&](const TapeTensor& tensor) { return others[key(tensor)]-- > 0; });
  }
}

bool is_steady(step::Phase phase) {
  return phase == step::Phase::kForward || phase == step::Phase::kBackward || phase == step::Phase::kUpdate;
}

std::vector<TapeTensor> requests_of(const step::Tape& tape, std::int64_t least) {
  std::vector<TapeTensor> requests;
  Moments moments(tape);
  const auto events = tape.events();
  for (std::size_t i = 0; i < events.size(); ++i) {
    const step::Moment& moment = moments.at(i);
    if (events[i].bytes >= least && is_steady(moment.phase))
      requests.push_back({events[i].id, events[i].bytes, events[i].name, moment});
  }
  return requests;
}

}  // namespace

std::vector<TapeTensor> tensors_at(const step::Tape& tape, std::uint32_t event) {
  std::vector<TapeTensor> made(tape.tensors());
  Moments moments(tape);
  const auto events = tape.events();
  for (std::size_t i = 0; i <= event && i < events.size(); ++i) {
    TapeTensor& tensor = made[events[i].id];
    if (events[i].bytes > 0) {
      tensor = {events[i].id, events[i].bytes, events[i].name, moments.at(i)};
    } else if (events[i].bytes < 0) {
      tensor.bytes = 0;
    } else {
      tensor.name = events[i].name;
    }
  }
  std::erase_if(made, [](const TapeTensor& tensor) { return tensor.bytes == 0; });
  return made;
}

TapeDifference compare(const TapeAtPeak& a, const TapeAtPeak& b) {
  TapeDifference found;
  const auto align_into = [](const std::vector<TapeTensor>& in_a, const std::vector<TapeTensor>& in_b,
                             std::vector<TapeTensor>& only_a, std::vector<TapeTensor>& only_b) {
    const Alignment alignment = align(sizes_of(in_a), sizes_of(in_b));
    only_a = picked(in_a, alignment.only_a);
    only_b = picked(in_b, alignment.only_b);
  };
  align_into(tensors_at(a.tape, a.peak), tensors_at(b.tape, b.peak), found.only_a, found.only_b);
  drop_moved(found.only_a, found.only_b, [](const TapeTensor& tensor) { return tensor.bytes; });

  found.least = std::max(step::kBlockUnit, std::max(a.tape.peak(), b.tape.peak()) / kShareThatCounts);
  const std::vector<TapeTensor> requests = requests_of(a.tape, found.least);
  align_into(requests, requests_of(b.tape, found.least), found.requested_by_a, found.requested_by_b);
  drop_moved(found.requested_by_a, found.requested_by_b,
             [](const TapeTensor& tensor) { return std::pair{tensor.made.phase, tensor.bytes}; });
  found.same_requests = requests.size() - found.requested_by_a.size();
  return found;
}

}  // namespace plimsoll::memory

// SPDX-License-Identifier: Apache-2.0
#include "capture/sizes.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace plimsoll::capture {

namespace {

constexpr const char* kHowToRecord =
    "plimsoll capture three times: at one size, with another --batch, and with another --seq";

// The three that span the plane.
struct Corners {
  const Capture* base = nullptr;
  const Capture* batch = nullptr;
  const Capture* sequence = nullptr;
};

Result<Corners> corners_of(std::span<const Capture> known) {
  for (const Capture& base : known) {
    Corners corners{&base, nullptr, nullptr};
    for (const Capture& other : known) {
      if (other.sequence == base.sequence && other.batch != base.batch) corners.batch = &other;
      if (other.batch == base.batch && other.sequence != base.sequence) corners.sequence = &other;
    }
    if (corners.batch != nullptr && corners.sequence != nullptr) return corners;
  }
  return bad_input("another size is asked for than was captured; wanted captures that differ in batch and in length",
                   kHowToRecord);
}

// Where two captures are not of the same program.
Status check_alike(const Capture& a, const Capture& b) {
  if (a.events.size() == b.events.size() && a.tensors.size() == b.tensors.size() && a.dims.size() == b.dims.size()) {
    for (std::size_t i = 0; i < a.events.size(); ++i) {
      const Event& x = a.events[i];
      const Event& y = b.events[i];
      const bool same = x.kind == y.kind && x.storage == y.storage && x.inputs == y.inputs && x.outputs == y.outputs &&
                        ((x.kind != Kind::kOperation && x.kind != Kind::kPhase) || a.name_of(x) == b.name_of(y));
      if (!same)
        return bad_input(fmt::format("event {} of the captures at {} x {} and {} x {} differs: the program takes "
                                     "another path at another size",
                                     i, a.batch, a.sequence, b.batch, b.sequence),
                         "capture the size that you ask for");
    }
    return {};
  }
  return bad_input(fmt::format("the captures at {} x {} and {} x {} have {} and {} events: the program takes another "
                               "path at another size, or they are of two programs",
                               a.batch, a.sequence, b.batch, b.sequence, a.events.size(), b.events.size()),
                   "capture the size that you ask for");
}

class Scale {
 public:
  Scale(const Corners& corners, std::int64_t batch, std::int64_t sequence)
      : batch_step_(corners.batch->batch - corners.base->batch),
        batch_way_(batch - corners.base->batch),
        sequence_step_(corners.sequence->sequence - corners.base->sequence),
        sequence_way_(sequence - corners.base->sequence) {}

  // A value that is `base` at the first corner, linear in the batch and linear in the length.
  [[nodiscard]] std::int64_t operator()(std::int64_t base, std::int64_t batch, std::int64_t sequence) const {
    const std::int64_t wide = along(base, batch, batch_step_, batch_way_);
    const std::int64_t long_ = along(base, sequence, sequence_step_, sequence_way_);
    if (base == 0) return wide + long_;
    // wide * long_ / base; where both are linear the division leaves no rest.
    const std::int64_t common = std::gcd(wide, base);
    return saturating(wide / common, long_ / (base / common));
  }

 private:
  static constexpr std::int64_t kMost = std::int64_t{1} << 50;

  static std::int64_t saturating(std::int64_t a, std::int64_t b) {
    std::int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? kMost : std::clamp(product, -kMost, kMost);
  }
  static std::int64_t along(std::int64_t from, std::int64_t to, std::int64_t step, std::int64_t way) {
    return std::clamp<std::int64_t>(from + saturating((to - from) / step, way), 0, kMost);
  }

  std::int64_t batch_step_;
  std::int64_t batch_way_;
  std::int64_t sequence_step_;
  std::int64_t sequence_way_;
};

// The output that a storage was made for, so that its bytes follow from its dimensions.
const Tensor* made_for(const Capture& capture, const Event& operation, std::uint32_t storage) {
  for (const Tensor& out : capture.outputs_of(operation))
    if (out.storage == storage) return &out;
  return nullptr;
}

}  // namespace

Result<Capture> at_size(std::span<const Capture> known, std::int64_t batch, std::int64_t sequence) {
  for (const Capture& one : known)
    if (one.batch == batch && one.sequence == sequence) return one;
  if (batch < 1 || sequence < 1) return bad_input("batch and length must be positive");
  PLIMSOLL_TRY(corners, corners_of(known));
  PLIMSOLL_TRY_STATUS(check_alike(*corners.base, *corners.batch));
  PLIMSOLL_TRY_STATUS(check_alike(*corners.base, *corners.sequence));
  const Scale scale(corners, batch, sequence);
  Capture result = *corners.base;
  result.batch = batch;
  result.sequence = sequence;
  for (std::size_t i = 0; i < result.dims.size(); ++i)
    result.dims[i] = scale(corners.base->dims[i], corners.batch->dims[i], corners.sequence->dims[i]);
  const Event* operation = nullptr;
  for (std::size_t i = 0; i < result.events.size(); ++i) {
    Event& event = result.events[i];
    if (event.kind == Kind::kOperation) operation = &corners.base->events[i];
    if (event.kind != Kind::kAllocate && event.kind != Kind::kResize) continue;
    const Tensor* tensor = operation == nullptr ? nullptr : made_for(*corners.base, *operation, event.storage);
    const bool whole = tensor != nullptr && corners.base->elements_of(*tensor) * corners.base->width_of(*tensor) ==
                                                corners.base->events[i].bytes;
    event.bytes =
        whole ? result.elements_of(*tensor) * result.width_of(*tensor)
              : scale(corners.base->events[i].bytes, corners.batch->events[i].bytes, corners.sequence->events[i].bytes);
  }
  return result;
}

}  // namespace plimsoll::capture

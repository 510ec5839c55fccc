// SPDX-License-Identifier: Apache-2.0
#include "capture/tape.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace plimsoll::capture {

namespace {

using step::Name;
using step::Phase;

constexpr std::int64_t kBiasWorkspace = std::int64_t{1} << 20;  // of cuBLASLt, which adds the bias
constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

struct PhaseName {
  std::string_view text;
  Phase phase;
};
constexpr std::array<PhaseName, 8> kPhases = {{{"model", Phase::kModel},
                                               {"first forward", Phase::kFirstForward},
                                               {"first backward", Phase::kFirstBackward},
                                               {"first update", Phase::kFirstUpdate},
                                               {"forward", Phase::kForward},
                                               {"backward", Phase::kBackward},
                                               {"update", Phase::kUpdate},
                                               {"end", Phase::kUpdate}}};

bool is_forward(Phase phase) { return phase == Phase::kFirstForward || phase == Phase::kForward; }
bool is_backward(Phase phase) { return phase == Phase::kFirstBackward || phase == Phase::kBackward; }

class Recording {
 public:
  Recording(const Capture& capture, const Device& device) : c_(capture), device_(device) {
    for (const Event& e : c_.events)
      if (e.kind == Kind::kAllocate) last_ = std::max(last_, e.storage);
    blocks_.resize(std::size_t{last_} + 1);
    released_.resize(std::size_t{last_} + 1, kNever);
    kind_.resize(std::size_t{last_} + 1, Name::kHidden);
  }

  Recorded run() {
    find_releases();
    name_states();
    for (std::uint32_t i = 0; i < c_.events.size(); ++i) step(i);
    return std::move(recorded_);
  }

 private:
  void find_releases() {
    for (std::uint32_t i = 0; i < c_.events.size(); ++i)
      if (c_.events[i].kind == Kind::kRelease) released_[c_.events[i].storage] = i;
  }
  void name_states() {
    for (const std::uint32_t storage : c_.parameters)
      if (storage <= last_) kind_[storage] = Name::kWeight;
    for (const std::uint32_t storage : c_.buffers)
      if (storage <= last_) kind_[storage] = Name::kOtherWorkspace;
  }

  void step(std::uint32_t index) {
    const Event& e = c_.events[index];
    switch (e.kind) {
      case Kind::kPhase:
        enter(e, index);
        break;
      case Kind::kOperation:
        finish_operation();
        operation_ = index;
        sum_in_place(index);
        break;
      case Kind::kAllocate:
        allocate(e);
        break;
      case Kind::kRelease:
        finish_operation();
        release(e.storage);
        break;
      case Kind::kResize:
        finish_operation();
        recorded_.tape.free(blocks_[e.storage]);
        blocks_[e.storage] = make(e.bytes, kind_[e.storage]);
        break;
      case Kind::kStream:
        finish_operation();
        recorded_.tape.use(stream_of(e.storage));
        break;
    }
  }

  // The tape has two streams beside the usual one: that which takes memory first (FSDP2 gathers with it) and all
  // others.
  step::Stream stream_of(std::uint32_t number) {
    if (number == 0) return step::Stream::kCompute;
    if (side_stream_ == 0) side_stream_ = number;
    return number == side_stream_ ? step::Stream::kGather : step::Stream::kReduce;
  }

  void enter(const Event& e, std::uint32_t index) {
    finish_operation();
    for (const PhaseName& known : kPhases)
      if (known.text == c_.name_of(e)) phase_ = known.phase;
    phase_end_ = static_cast<std::uint32_t>(c_.events.size());
    for (std::uint32_t i = index + 1; i < c_.events.size(); ++i) {
      if (c_.events[i].kind != Kind::kPhase) continue;
      phase_end_ = i;
      break;
    }
    recorded_.tape.enter(phase_);
  }

  // A sum of two gradients that autograd itself makes goes into the storage of the one that nobody else holds (its
  // input buffer); fake tensors are always summed into a new one.
  void sum_in_place(std::uint32_t index) {
    const Event& e = c_.events[index];
    if (!e.by_engine || c_.name_of(e) != "aten.add.Tensor" || e.inputs != 2 || e.outputs != 1) return;
    const Tensor& out = c_.outputs_of(e)[0];
    for (const Tensor& in : c_.inputs_of(e)) {
      if (in.storage > last_ || out.storage > last_ || !dies_with(in.storage, index)) continue;
      if (c_.elements_of(in) != c_.elements_of(out) || in.type != out.type) continue;
      reuse_ = std::pair{out.storage, in.storage};
      return;
    }
  }
  // Released before the next operation begins.
  bool dies_with(std::uint32_t storage, std::uint32_t operation) const {
    if (released_[storage] == kNever || released_[storage] < operation) return false;
    for (std::uint32_t i = operation + 1; i < released_[storage]; ++i)
      if (c_.events[i].kind == Kind::kOperation || c_.events[i].kind == Kind::kPhase) return false;
    return true;
  }

  void allocate(const Event& e) {
    if (reuse_ && reuse_->first == e.storage) {
      blocks_[e.storage] = blocks_[reuse_->second];
      blocks_[reuse_->second] = {};
      reuse_.reset();
      return;
    }
    const Name name = kind_[e.storage] != Name::kHidden ? kind_[e.storage] : name_of(e.storage);
    kind_[e.storage] = name;
    blocks_[e.storage] = make(e.bytes, name);
  }
  void release(std::uint32_t storage) { recorded_.tape.free(blocks_[storage]); }

  // What a tensor is, by when it is made and whether it outlives the phase.
  Name name_of(std::uint32_t storage) const {
    const bool outlives = released_[storage] >= phase_end_;
    if (phase_ == Phase::kModel) return outlives ? Name::kTokens : Name::kConstruction;
    if (is_forward(phase_)) return outlives ? Name::kLayerInput : Name::kHidden;
    if (is_backward(phase_)) return outlives ? Name::kGradient : Name::kGrad;
    return released_[storage] == kNever ? Name::kMoment : Name::kOptimizerTemp;
  }

  step::Tensor make(std::int64_t bytes, Name name) {
    const step::Tensor tensor = recorded_.tape.alloc(bytes, name);
    if (tensor) {
      if (tensor.id >= recorded_.makers.size()) recorded_.makers.resize(std::size_t{tensor.id} + 1);
      recorded_.makers[tensor.id].operation = operation_.value_or(0);
    }
    return tensor;
  }

  // Its outputs are there: the scratch of its kernel comes and goes.
  void finish_operation() {
    if (!operation_ || finished_ == operation_) return;
    finished_ = operation_;
    const Event& e = c_.events[*operation_];
    take_workspaces(product_of(c_.name_of(e)));
    std::vector<step::Tensor> scratch;
    for (const std::int64_t bytes : scratch_of(c_, e, device_)) scratch.push_back(make(bytes, Name::kAttentionTemp));
    for (step::Tensor& tensor : scratch) recorded_.tape.free(tensor);
  }
  void take_workspaces(Product product) {
    if (product == Product::kNone) return;
    bool& has = is_backward(phase_) ? backward_has_ : forward_has_;
    if (!has) (void)make(device_.workspace, Name::kCublas);
    has = true;
    if (product == Product::kWithBias && !bias_has_) {
      (void)make(kBiasWorkspace, Name::kCublas);
      bias_has_ = true;
    }
  }

  const Capture& c_;
  const Device& device_;
  Recorded recorded_;
  std::vector<step::Tensor> blocks_;
  std::vector<std::uint32_t> released_;
  std::vector<Name> kind_;
  std::optional<std::pair<std::uint32_t, std::uint32_t>> reuse_;
  std::optional<std::uint32_t> operation_;
  std::optional<std::uint32_t> finished_;
  Phase phase_ = Phase::kModel;
  std::uint32_t phase_end_ = 0;
  std::uint32_t last_ = 0;
  std::uint32_t side_stream_ = 0;
  bool forward_has_ = false;
  bool backward_has_ = false;
  bool bias_has_ = false;
};

// "aten.addmm.default" as "addmm".
std::string short_name(std::string_view operation) {
  if (operation.starts_with("aten.")) operation.remove_prefix(5);
  return std::string(operation.substr(0, operation.find('.')));
}

}  // namespace

Origin origin_of(const Capture& capture, const std::vector<Maker>& makers, std::uint32_t tensor) {
  if (tensor >= makers.size()) return {};
  const Event& maker = capture.events[makers[tensor].operation];
  if (maker.kind != Kind::kOperation) return {};
  return {short_name(capture.name_of(maker)), std::string(capture.place_of(maker))};
}

std::string without_numbers(std::string_view path) {
  const auto ends_part = [path](std::size_t i) { return i >= path.size() || path[i] == '.' || path[i] == ' '; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string text;
  for (std::size_t i = 0; i < path.size();) {
    std::size_t last = i;
    while (last < path.size() && is_digit(path[last])) ++last;
    const bool is_number = last > i && ends_part(last) && (i == 0 || ends_part(i - 1));
    last = std::max(last, i + 1);
    text += is_number ? std::string_view{"*"} : path.substr(i, last - i);
    i = last;
  }
  return text;
}

Recorded record(const Capture& capture, const Device& device) { return Recording(capture, device).run(); }

}  // namespace plimsoll::capture

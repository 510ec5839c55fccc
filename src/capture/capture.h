// SPDX-License-Identifier: Apache-2.0
// A capture: every operation of a training step that ran on fake tensors, with the storages that it made and the
// moment at which each went (python/plimsoll_capture.py writes it). Nothing in it depends on a GPU, so the same
// capture answers for any of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "snapshot/source.h"

namespace plimsoll::capture {

// A view of a storage as an operation saw it. Its shape and strides lie in Capture::dims.
struct Tensor {
  std::uint32_t storage = 0;
  std::uint32_t type = 0;  // index into names: "bfloat16"
  std::uint32_t dims = 0;  // first of `rank` sizes, then `rank` strides
  std::uint32_t rank = 0;
};

enum class Kind : std::uint8_t { kOperation, kAllocate, kRelease, kPhase, kResize, kStream };

struct Event {
  Kind kind = Kind::kOperation;
  bool by_engine = false;     // autograd itself called it: a sum of gradients is then made in place where it can be
  std::uint32_t name = 0;     // operation or phase, index into names
  std::uint32_t place = 0;    // module of the forward or node of the backward, index into names
  std::uint32_t storage = 0;  // of an allocation, a release, a resize; a stream: its number, 0 the usual one
  std::uint32_t tensors = 0;  // an operation's first input in Capture::tensors; its outputs follow
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
  std::int64_t bytes = 0;
};

struct Capture {
  std::string torch;
  std::int64_t capability = 90;  // of the GPU whose kernels were chosen, times ten
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::vector<std::string> names;
  std::vector<std::string> assumed;  // values that the code asked of data that was not there
  std::vector<std::uint32_t> parameters;
  std::vector<std::uint32_t> buffers;
  std::int64_t parameter_elements = 0;
  std::vector<Event> events;
  std::vector<Tensor> tensors;
  std::vector<std::int64_t> dims;

  [[nodiscard]] std::string_view name_of(const Event& event) const { return names[event.name]; }
  [[nodiscard]] std::string_view place_of(const Event& event) const { return names[event.place]; }
  [[nodiscard]] std::span<const Tensor> inputs_of(const Event& event) const {
    return {tensors.data() + event.tensors, event.inputs};
  }
  [[nodiscard]] std::span<const Tensor> outputs_of(const Event& event) const {
    return {tensors.data() + event.tensors + event.inputs, event.outputs};
  }
  [[nodiscard]] std::span<const std::int64_t> shape_of(const Tensor& tensor) const {
    return {dims.data() + tensor.dims, tensor.rank};
  }
  [[nodiscard]] std::int64_t elements_of(const Tensor& tensor) const;
  [[nodiscard]] std::int64_t width_of(const Tensor& tensor) const;  // bytes of an element
};

// Whether a file begins as a capture does, packed or not.
[[nodiscard]] bool is_capture(const std::string& path);

// A damaged or cut capture is an error that names the line.
[[nodiscard]] Result<Capture> read_capture(const std::string& path);
[[nodiscard]] Result<Capture> read_capture(snapshot::Source& source);

}  // namespace plimsoll::capture

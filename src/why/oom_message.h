// SPDX-License-Identifier: Apache-2.0
// The numbers of an allocator's message: PyTorch 0.4 to 2.14 on CUDA, HIP, NPU, XPU and MPS (facts
// pytorch-allocator.md 12), XLA and TensorFlow. Every figure that the message has is read; what it does
// not say stays empty. Figures are rounded by the message to hundredths of their unit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::why {

enum class Allocator : std::uint8_t { kUnknown, kCuda, kHip, kNpu, kXpu, kMps, kXla, kTensorFlow };

struct ProcessUse {
  std::int64_t pid = 0;
  std::int64_t bytes = 0;
};

struct OomNumbers {
  Allocator allocator = Allocator::kUnknown;
  std::optional<std::int64_t> request;  // the one request that failed, as rounded up by the allocator
  std::optional<std::int64_t> gpu;
  std::optional<std::int64_t> total;         // capacity of the device
  std::optional<std::int64_t> free;          // of the device, for anybody
  std::optional<std::int64_t> allowed;       // limit of this process (memory fraction)
  std::optional<std::int64_t> this_process;  // with context and NCCL
  std::vector<ProcessUse> processes;         // "Process N has": others, or this one where pids are hidden
  std::optional<std::int64_t> allocated;     // live tensors; from 2.4 with the free blocks of private pools
  std::optional<std::int64_t> private_pools;
  std::optional<std::int64_t> reserved_unallocated;
  std::optional<std::int64_t> reserved;   // all that the caching allocator holds
  std::optional<std::int64_t> needed;     // XLA: what the whole program wants
  std::optional<std::int64_t> elsewhere;  // MPS: this process beside PyTorch, counted against the limit as well
  bool is_impossible = false;             // "more than 1EB"

  // allocated and reserved are known, or the device's use is.
  [[nodiscard]] bool has_sizes() const { return request && (reserved || allocated || free); }
  [[nodiscard]] bool is_complete() const { return reserved.has_value() && allocated.has_value(); }
};

// nullopt where the text is no such message. "out of memory" in advice or prose is none.
[[nodiscard]] std::optional<OomNumbers> parse_oom_message(std::string_view text);

// The tensor that could not be made, as TensorFlow names it, has the form of a weight and not of anything that a batch
// passes through: "shape[4096]", or a convolution's kernel, "shape[7,7,512,4096]" (height, width, in, out).
[[nodiscard]] bool has_shape_of_weight(std::string_view text);

// The figures that PyTorch's labels name, wherever they stand; what is absent stays empty.
void read_labelled_figures(std::string_view text, OomNumbers& numbers);

// The message without the advice that allocators print after it: a hint is no evidence.
[[nodiscard]] std::string_view without_hint(std::string_view text);

[[nodiscard]] std::string_view allocator_name(Allocator allocator);

}  // namespace plimsoll::why

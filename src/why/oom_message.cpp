// SPDX-License-Identifier: Apache-2.0
#include "why/oom_message.h"

#include <algorithm>

#include "base/bytes.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

Allocator allocator_of(std::string_view before) {
  struct Name {
    std::string_view text;
    Allocator allocator;
  };
  static constexpr Name kNames[] = {{"hip", Allocator::kHip},   {"npu", Allocator::kNpu},   {"xpu", Allocator::kXpu},
                                    {"mps", Allocator::kMps},   {"cuda", Allocator::kCuda}, {"gpu", Allocator::kCuda},
                                    {"musa", Allocator::kCuda}, {"mlu", Allocator::kNpu}};
  for (const Name& name : kNames)
    if (has_text(before, name.text)) return name.allocator;
  return Allocator::kUnknown;
}

// "Used 21.90G of 7.48G hbm", "trying to allocate 17179869184 bytes", "2.00GiB (2147483648B)".
bool read_xla(std::string_view text, OomNumbers& numbers) {
  numbers.needed = size_after(text, "used ");
  if (numbers.needed) {
    const std::size_t of = find_word(text, " of ", find_word(text, "used "));
    if (of != kNone) numbers.total = leading_size(text.substr(of + 4));
  }
  for (const std::string_view label :
       {std::string_view{"trying to allocate"}, std::string_view{"memory allocating"}, std::string_view{"request for"},
        std::string_view{"attempting to allocate"}, std::string_view{"attempting to reserve"},
        std::string_view{"tried to allocate"}})
    if (!numbers.request) numbers.request = size_after(text, label);
  // "That was not possible. There are 6.78G free"
  if (has_text(text, "there are") && has_text(text, " free")) numbers.free = size_after(text, "there are");
  if (!numbers.free) numbers.free = size_after(text, "free memory");
  return numbers.needed || numbers.request;
}

// Words that stand before "out of memory" when it is advice, not an event.
bool is_advice(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(at > 48 ? at - 48 : 0, std::min<std::size_t>(at, 48));
  return has_any(before, {"if you",    "may ",   "might",   "could",   "avoid",   "prevent", "in case", "when ",
                          "risk",      "can ",   "not ",    "without", "until",   "would",   "to run",  "instead of",
                          "potential", "likely", "possibl", "handle",  "before ", "against"});
}

// The runtime's number for it, where no word follows: "cuda execution failed with error 2", "cudaSuccess (2 vs. 0)".
bool is_cuda_error_two(std::string_view text) {
  if (!has_text(text, "cuda")) return false;
  if (has_text(text, "cudasuccess (2 vs")) return true;
  for (const std::string_view form : {std::string_view{"error 2"}, std::string_view{"error code 2"},
                                      std::string_view{"error code: 2"}, std::string_view{"error code=2"}}) {
    const std::size_t at = find_word(text, form);
    if (at == kNone) continue;
    const std::size_t end = at + form.size();
    if (end >= text.size() || (!is_word(text[end]) && text[end] != '.')) return true;
  }
  return false;
}

}  // namespace

bool has_shape_of_weight(std::string_view text) {
  constexpr std::string_view kLabel = "allocating tensor with shape[";
  constexpr std::int64_t kLargestKernel = 11;
  const std::size_t at = find_word(text, kLabel);
  if (at == kNone) return false;
  const std::string_view rest = text.substr(at + kLabel.size());
  const std::size_t close = rest.find(']');
  if (close == kNone) return false;
  std::vector<std::int64_t> shape;
  for (const std::string_view size : split(rest.substr(0, close), ',')) {
    const auto number = leading_integer(size);
    if (!number) return false;
    shape.push_back(*number);
  }
  // An image is about as wide as it is high, and a channel wider than both is none.
  return shape.size() == 1 || (shape.size() == 4 && shape[0] == shape[1] && shape[1] <= kLargestKernel &&
                               shape[2] > kLargestKernel && shape[3] > kLargestKernel);
}

std::optional<OomNumbers> parse_oom_message(std::string_view text) {
  OomNumbers numbers;
  if (has_any(text, {"resource_exhausted", "resourceexhausted", "resource exhausted: ", "hbm capacity",
                     "memory space hbm"})) {
    numbers.allocator = has_text(text, "tensor with shape") ? Allocator::kTensorFlow : Allocator::kXla;
    static_cast<void>(read_xla(text, numbers));
    return numbers;
  }
  // TensorFlow's allocator lists what it holds only where it has given up; where it tries again it says so.
  if (has_text(text, "ran out of memory trying to allocate") && has_text(text, "summary")) {
    numbers.allocator = Allocator::kTensorFlow;
    static_cast<void>(read_xla(text, numbers));
    return numbers;
  }
  if (has_any(text, {"oom when allocating tensor", "summary of in-use chunks by size"})) {
    numbers.allocator = Allocator::kTensorFlow;
    return numbers;
  }
  if (has_any(text, {"cuda_error_out_of_memory", "cudaerrormemoryallocation", "hiperroroutofmemory"})) {
    numbers.allocator = has_text(text, "hiperror") ? Allocator::kHip : Allocator::kCuda;
    return numbers;
  }
  // The second half of the allocator's message, whose first stands elsewhere or was cut away.
  if (find_word(text, "tried to allocate") < 8 && has_text(text, "total capacity")) {
    read_labelled_figures(text, numbers);
    if (numbers.allocator == Allocator::kUnknown) numbers.allocator = Allocator::kCuda;
    return numbers;
  }
  const std::size_t at = find_word(text, "out of memory");
  const bool typed = has_text(text, "outofmemoryerror");
  if (at == kNone && !typed) {
    if (!is_cuda_error_two(text)) return std::nullopt;
    numbers.allocator = Allocator::kCuda;
    return numbers;
  }
  if (has_any(text, {"killed process", "cgroup out of memory", "killed by"})) return std::nullopt;  // the kernel's
  const std::string_view before = text.substr(0, at == kNone ? text.size() : at);
  numbers.allocator = allocator_of(before.substr(before.size() > 60 ? before.size() - 60 : 0));
  if (at == kNone) numbers.allocator = allocator_of(text.substr(0, 120));
  const bool tried = at != kNone && has_text(text.substr(at), "tried to allocate");
  if (tried || has_text(before, "backend ")) {
    read_labelled_figures(text, numbers);
    return numbers;
  }
  // What is raised as such an error is one, however its text goes on: "Allocation on device 0 would exceed allowed
  // memory. (out of memory)" of the asynchronous allocator.
  const std::size_t raised = find_word(text, "outofmemoryerror:");
  const bool is_raised = raised < 40 && text.substr(0, raised).find(' ') == kNone;
  if (at == kNone || (typed && (is_raised || !is_advice(text, at)))) {
    // "torch.cuda.OutOfMemoryError" with its text cut away; in prose the name stands inside a sentence.
    const std::size_t name = find_word(text, "outofmemoryerror");
    const std::size_t end = name + std::string_view{"outofmemoryerror"}.size();
    const bool ends = end >= text.size() || text[end] == ':' || text[end] == '!';
    if (!ends) return std::nullopt;
    read_labelled_figures(text, numbers);
    if (numbers.allocator == Allocator::kUnknown) numbers.allocator = Allocator::kCuda;
    return numbers;
  }
  if (is_advice(text, at)) return std::nullopt;
  // Bare forms of the runtime and of C++ libraries.
  static constexpr std::string_view kBare[] = {"cuda error: out of memory",
                                               "cuda error out of memory",
                                               "hip error: out of memory",
                                               "cuda runtime error (2) : out of memory",
                                               "runtime error: out of memory",
                                               "cuda out of memory",
                                               "hip out of memory",
                                               "npu out of memory",
                                               "xpu out of memory",
                                               "error=2 : out of memory",
                                               "cudaerrormemoryallocation: out of memory",
                                               "cuda_error_out_of_memory",
                                               "cuda driver error: out of memory",
                                               "ran out of memory on gpu"};
  for (const std::string_view form : kBare) {
    const std::size_t found = find_word(text, form);
    if (found == kNone) continue;
    if (numbers.allocator == Allocator::kUnknown) numbers.allocator = Allocator::kCuda;
    if (const auto gpu = integer_after(text, "gpu #")) numbers.gpu = gpu;
    return numbers;
  }
  return std::nullopt;
}

void read_labelled_figures(std::string_view text, OomNumbers& numbers) {
  if (!numbers.request) numbers.request = size_after(text, "tried to allocate");
  if (numbers.allocator == Allocator::kUnknown) numbers.allocator = allocator_of(text.substr(0, 200));
  numbers.is_impossible = has_text(text, "more than 1eb");
  for (const std::string_view label : {std::string_view{"(gpu "}, std::string_view{"(npu "}, std::string_view{". gpu "},
                                       std::string_view{"gpu "}, std::string_view{"npu "}, std::string_view{"xpu "}}) {
    const std::size_t at = find_word(text, label);
    if (at == kNone) continue;
    numbers.gpu = leading_integer(text.substr(at + label.size()));
    if (numbers.gpu) break;
  }
  // 1.0 to 2.0: labels follow their figures.
  numbers.total = size_before(text, "total capacity");
  numbers.allocated = size_before(text, "already allocated");
  numbers.free = size_before(text, "free;");
  if (!numbers.free) numbers.free = size_before(text, "free)");
  numbers.reserved = size_before(text, "reserved in total");
  numbers.allowed = size_before(text, "allowed;");
  if (const auto cached = size_before(text, "cached)")) {  // 1.0 to 1.3: reserved but unallocated
    numbers.reserved_unallocated = cached;
    if (numbers.allocated) numbers.reserved = *numbers.allocated + *cached;
  }
  // 2.1 and later ("capacty" in 2.1).
  if (!numbers.total) numbers.total = size_after(text, "total capacity of");
  if (!numbers.total) numbers.total = size_after(text, "total capacty of");
  if (!numbers.free) numbers.free = size_before(text, "is free");
  if (!numbers.allocated) numbers.allocated = size_before(text, "is allocated by pytorch");
  if (!numbers.reserved_unallocated)
    numbers.reserved_unallocated = size_before(text, "is reserved by pytorch but unallocated");
  // The asynchronous allocator's, a line each.
  if (has_text(text, "currently allocated")) {
    if (!numbers.allocated) numbers.allocated = size_after(text, "currently allocated");
    if (!numbers.request) numbers.request = size_after(text, "requested");
    if (!numbers.total) numbers.total = size_after(text, "device limit");
    if (!numbers.free) numbers.free = size_after(text, "free (according to cuda)");
  }
  numbers.private_pools = size_before(text, "allocated in private pools");
  numbers.this_process = size_after(text, "this process has");
  numbers.processes.clear();
  for (std::size_t at = find_word(text, "process "); at != kNone; at = find_word(text, "process ", at + 8)) {
    const std::string_view rest = text.substr(at + 8);
    const auto pid = leading_integer(rest);
    const std::size_t has = find_word(rest, " has ");
    if (!pid || has == kNone || has > 24) continue;
    if (const auto bytes = leading_size(rest.substr(has + 5))) numbers.processes.push_back({*pid, *bytes});
    if (numbers.processes.size() >= 64) break;
  }
  if (numbers.allocator == Allocator::kMps) {
    numbers.allocated = size_after(text, "mps allocated");
    numbers.allowed = size_after(text, "max allowed");
    numbers.elsewhere = size_after(text, "other allocations");
    numbers.total = numbers.allowed;
    numbers.reserved = numbers.allocated;
  }
  if (!numbers.reserved && numbers.allocated && numbers.reserved_unallocated)
    numbers.reserved = *numbers.allocated + *numbers.reserved_unallocated;
  if (!numbers.reserved_unallocated && numbers.allocated && numbers.reserved)
    numbers.reserved_unallocated = std::max<std::int64_t>(0, *numbers.reserved - *numbers.allocated);
}

std::string_view without_hint(std::string_view text) {
  std::size_t end = text.size();
  for (const std::string_view hint :
       {std::string_view{"if reserved"}, std::string_view{"try setting"}, std::string_view{"see documentation"},
        std::string_view{"please use `empty_cache`"}, std::string_view{"use pytorch_mps_high"},
        std::string_view{"try increasing"}, std::string_view{"please try to"}, std::string_view{"please increase"}})
    end = std::min(end, find_word(text, hint));
  // A message that is nothing but advice is kept.
  return end < 16 ? text : text.substr(0, end);
}

std::string_view allocator_name(Allocator allocator) {
  switch (allocator) {
    case Allocator::kCuda:
      return "CUDA";
    case Allocator::kHip:
      return "HIP";
    case Allocator::kNpu:
      return "NPU";
    case Allocator::kXpu:
      return "XPU";
    case Allocator::kMps:
      return "MPS";
    case Allocator::kXla:
      return "XLA";
    case Allocator::kTensorFlow:
      return "TensorFlow";
    case Allocator::kUnknown:
      break;
  }
  return "device";
}

}  // namespace plimsoll::why

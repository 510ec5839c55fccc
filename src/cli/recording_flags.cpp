// SPDX-License-Identifier: Apache-2.0
#include "cli/recording_flags.h"

#include <charconv>

#include <fmt/format.h>

#include "base/bytes.h"

namespace plimsoll::cli {

namespace {

Result<double> fraction_of(const std::string& text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || !(value > 0) || value > 1)
    return usage_error(fmt::format("--fraction is '{}'; wanted a number above 0 and up to 1", text));
  return value;
}

Result<std::int64_t> device_of(const std::string& text) {
  std::int64_t device = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), device);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || device < 0)
    return usage_error(fmt::format("--device is '{}'; wanted a number such as 0", text));
  return device;
}

}  // namespace

const std::vector<Flag>& recording_flags() {
  static const std::vector<Flag> kFlags = {
      {.name = "device", .argument = "N", .help = "the GPU whose history is meant; the busiest one if not given"},
      {.name = "torch", .argument = "VERSION", .help = "the version of PyTorch, such as 2.6; 2.11 if not given"},
      {.name = "gpu", .argument = "NAME", .help = "the GPU that it runs on: its capacity is the limit"},
      {.name = "capacity", .argument = "BYTES", .help = "what PyTorch can take of the device, such as 76GiB"},
      {.name = "fraction", .argument = "F", .help = "a memory fraction that was set through the API"},
  };
  return kFlags;
}

Result<answer::RecordingConditions> recording_conditions(const Arguments& arguments) {
  answer::RecordingConditions conditions;
  conditions.gpu = arguments.value("gpu").value_or("");
  if (const auto text = arguments.value("device")) {
    PLIMSOLL_TRY(device, device_of(*text));
    conditions.device = device;
  }
  if (const auto version = arguments.value("torch")) {
    PLIMSOLL_TRY(torch, allocator::parse_version(*version));
    conditions.torch = torch;
  }
  if (const auto capacity = arguments.value("capacity")) {
    PLIMSOLL_TRY(bytes, parse_bytes(*capacity));
    if (bytes <= 0) return usage_error(fmt::format("--capacity is '{}'; wanted more than nothing", *capacity));
    conditions.capacity = bytes;
  }
  if (const auto fraction = arguments.value("fraction")) {
    PLIMSOLL_TRY(share, fraction_of(*fraction));
    conditions.fraction = share;
  }
  return conditions;
}

}  // namespace plimsoll::cli

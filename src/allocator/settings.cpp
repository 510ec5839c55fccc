// SPDX-License-Identifier: Apache-2.0
#include "allocator/settings.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::allocator {

namespace {

constexpr std::int64_t kMiB = 1 << 20;

Result<double> number(std::string_view key, std::string_view text) {
  const std::string copy{trim(text)};
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str() || *end != '\0' || !std::isfinite(value) || value < 0 || value > 1e9)
    return bad_input(fmt::format("allocator setting {}: '{}' is not a number that PyTorch accepts", key, text));
  return value;
}

// Sizes in MiB and numbers of divisions: PyTorch reads them as integers.
Result<std::int64_t> whole_number(std::string_view key, std::string_view text) {
  PLIMSOLL_TRY(value, number(key, text));
  if (value != std::floor(value))
    return bad_input(fmt::format("allocator setting {}: '{}' is not a whole number", key, trim(text)));
  return static_cast<std::int64_t>(value);
}

Result<std::int64_t> mebibytes(std::string_view key, std::string_view text) {
  PLIMSOLL_TRY(mib, whole_number(key, text));
  if (mib < 20)
    return bad_input(fmt::format("allocator setting {}: {} is too small; PyTorch wants at least 20", key, mib));
  return mib * kMiB;
}

Result<bool> truth_value(std::string_view key, std::string_view text) {
  if (equals_ignoring_case(text, "true")) return true;
  if (equals_ignoring_case(text, "false")) return false;
  return bad_input(fmt::format("allocator setting {}: '{}' is neither True nor False", key, text));
}

// Facts pytorch-allocator.md 14; an older release refuses the name.
struct Since {
  std::string_view name;
  Version version;
};
constexpr Since kSince[] = {
    {"max_non_split_rounding_mb", {2, 6}},          {"per_process_memory_fraction", {2, 9}},
    {"graph_capture_record_stream_reuse", {2, 10}}, {"large_segment_size_mb", {2, 11}},
    {"throw_on_cudamalloc_oom", {2, 12}},
};

bool is_power_of_two(std::int64_t n) { return n > 0 && std::has_single_bit(static_cast<std::uint64_t>(n)); }

std::size_t division_index(std::int64_t size) {
  const int log2 = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size))) - 1;
  return static_cast<std::size_t>(std::clamp(log2 - 20, 0, 15));
}

Result<std::int64_t> divisions_value(std::string_view text) {
  PLIMSOLL_TRY(n, whole_number("roundup_power2_divisions", text));
  if (n != 0 && !is_power_of_two(n))
    return bad_input(fmt::format("allocator setting roundup_power2_divisions: {} is not a power of two", n));
  return n;
}

// "[256:1,512:2,>:4]": the first pair also fills every lower index, '>' fills from the last key on.
Status division_list(std::string_view list, Settings& settings) {
  bool first = true;
  std::size_t last = 0;
  for (const std::string_view pair : split(list, ',')) {
    const std::size_t colon = pair.find(':');
    if (colon == std::string_view::npos)
      return bad_input(
          fmt::format("allocator setting roundup_power2_divisions: '{}' is not a size:divisions pair", pair));
    PLIMSOLL_TRY(value, divisions_value(pair.substr(colon + 1)));
    const std::string_view key = trim(pair.substr(0, colon));
    if (key == ">") {
      for (std::size_t i = last; i < settings.divisions.size(); ++i) settings.divisions[i] = value;
      continue;
    }
    PLIMSOLL_TRY(mib, whole_number("roundup_power2_divisions", key));
    if (!is_power_of_two(mib))
      return bad_input(fmt::format("allocator setting roundup_power2_divisions: size {} is not a power of two", mib));
    last = division_index(mib * kMiB);
    if (first)
      for (std::size_t i = 0; i < last; ++i) settings.divisions[i] = value;
    settings.divisions[last] = value;
    first = false;
  }
  return {};
}

}  // namespace

Result<Version> parse_version(std::string_view text) {
  const std::string copy{trim(text)};
  Version version;
  char* end = nullptr;
  version.major = static_cast<int>(std::clamp(std::strtol(copy.c_str(), &end, 10), 0L, 1000L));
  const bool has_minor = end != copy.c_str() && *end == '.' && end[1] >= '0' && end[1] <= '9';
  if (has_minor) version.minor = static_cast<int>(std::clamp(std::strtol(end + 1, &end, 10), 0L, 1000L));
  if (!has_minor || (*end != '\0' && *end != '.' && *end != '+' && *end != 'a'))
    return bad_input(fmt::format("'{}' is not a version of PyTorch", text), "write it as in 2.6 or 2.11.0+cu130");
  if (version < Version{2, 1})
    return bad_input(fmt::format("the allocator of PyTorch {} is not known; the oldest is 2.1", copy));
  return version;
}

Result<Settings> parse_settings(std::string_view text, Version torch) {
  Settings settings;
  settings.torch = torch;
  std::string_view rest = trim(text);
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    if (colon == std::string_view::npos)
      return bad_input(fmt::format("allocator setting '{}' has no value; wanted name:value", rest),
                       "write it as in expandable_segments:True,max_split_size_mb:128");
    const std::string_view key = trim(rest.substr(0, colon));
    std::string_view value = rest.substr(colon + 1);
    std::size_t end = value.find(',');
    if (!trim(value).empty() && trim(value).front() == '[')
      end = value.find(',', std::min(value.find(']'), value.size()));
    rest = end == std::string_view::npos ? std::string_view{} : trim(value.substr(end + 1));
    value = trim(value.substr(0, end));
    for (const auto& [name, since] : kSince)
      if (key == name && torch < since)
        return bad_input(fmt::format("allocator setting {} exists from PyTorch {}.{} on, not in {}.{}", key,
                                     since.major, since.minor, torch.major, torch.minor),
                         "leave it out, or say which version runs with --torch");
    if (key == "expandable_segments") {
      PLIMSOLL_TRY(on, truth_value(key, value));
      settings.expandable_segments = on;
    } else if (key == "max_split_size_mb") {
      PLIMSOLL_TRY(bytes, mebibytes(key, value));
      settings.max_split_size = bytes;
    } else if (key == "max_non_split_rounding_mb") {
      PLIMSOLL_TRY(bytes, mebibytes(key, value));
      settings.max_non_split_rounding = bytes;
    } else if (key == "large_segment_size_mb") {
      PLIMSOLL_TRY(bytes, mebibytes(key, value));
      settings.large_segment = bytes;
    } else if (key == "garbage_collection_threshold") {
      PLIMSOLL_TRY(share, number(key, value));
      if (share <= 0 || share >= 1)
        return bad_input(
            fmt::format("allocator setting garbage_collection_threshold: {} is not between 0 and 1", share));
      settings.gc_threshold = share;
    } else if (key == "per_process_memory_fraction") {
      PLIMSOLL_TRY(share, number(key, value));
      if (share <= 0 || share > 1)
        return bad_input(fmt::format("allocator setting {}: {} is not in (0, 1]", key, share));
      settings.fraction = share;
    } else if (key == "roundup_power2_divisions") {
      if (value.size() >= 2 && value.front() == '[' && value.back() == ']') {
        PLIMSOLL_TRY_STATUS(division_list(value.substr(1, value.size() - 2), settings));
      } else {
        PLIMSOLL_TRY(n, divisions_value(value));
        settings.divisions.fill(n);
      }
    } else if (key == "throw_on_cudamalloc_oom") {
      PLIMSOLL_TRY(on, truth_value(key, value));
      settings.throws_at_limit = on;
    } else if (key == "backend") {
      if (value != "native" && value != "cudaMallocAsync")
        return bad_input(fmt::format("allocator setting backend: '{}' is neither native nor cudaMallocAsync", value));
      settings.native = value == "native";
    } else if (key == "release_lock_on_cudamalloc" || key == "release_lock_on_hipmalloc" ||
               key == "pinned_use_cuda_host_register" || key == "pinned_num_register_threads" ||
               key == "pinned_use_background_threads" || key == "pinned_reserve_segment_size_mb" ||
               key == "graph_capture_record_stream_reuse") {
      settings.ignored.emplace_back(key);
    } else {
      const std::vector<std::string> known = {"expandable_segments",          "max_split_size_mb",
                                              "max_non_split_rounding_mb",    "large_segment_size_mb",
                                              "garbage_collection_threshold", "roundup_power2_divisions",
                                              "per_process_memory_fraction",  "backend"};
      const std::string guess = nearest(key, known);
      return bad_input(fmt::format("unknown allocator setting '{}'", key),
                       guess.empty() ? "" : "did you mean " + guess + "?");
    }
  }
  return settings;
}

std::int64_t round_size(const Settings& settings, std::int64_t requested) {
  if (requested < kMinBlock) return kMinBlock;
  // What no device has must not wrap when it is rounded; it is refused all the same.
  if (requested > kUnlimited / 2) return requested;
  const std::int64_t divisions = settings.divisions[division_index(requested)];
  if (divisions > 1 && requested > kMinBlock * divisions) {
    const auto n = static_cast<std::uint64_t>(requested);
    if (std::has_single_bit(n)) return requested;
    const std::uint64_t floor = std::bit_floor(n);
    const std::uint64_t step = floor / static_cast<std::uint64_t>(divisions);
    if (step == 0) return static_cast<std::int64_t>(floor * 2);
    return static_cast<std::int64_t>((n + step - 1) / step * step);
  }
  return (requested + kMinBlock - 1) / kMinBlock * kMinBlock;
}

}  // namespace plimsoll::allocator

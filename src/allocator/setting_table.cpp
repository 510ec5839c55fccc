// SPDX-License-Identifier: Apache-2.0
#include "allocator/setting_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "base/suggest.h"
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

// Parsers and printers for a field of each type.

template <bool Settings::* field>
Status read_switch(std::string_view name, std::string_view text, Settings& settings) {
  if (!equals_ignoring_case(text, "true") && !equals_ignoring_case(text, "false"))
    return bad_input(fmt::format("allocator setting {}: '{}' is neither True nor False", name, text),
                     did_you_mean(text, std::vector<std::string>{"True", "False"}));
  settings.*field = equals_ignoring_case(text, "true");
  return {};
}

template <bool Settings::* field>
std::string write_switch(const Settings& settings) {
  return settings.*field ? "True" : "";
}

template <std::int64_t Settings::* field>
Status read_mebibytes(std::string_view name, std::string_view text, Settings& settings) {
  PLIMSOLL_TRY(mib, whole_number(name, text));
  if (mib < 20)
    return bad_input(fmt::format("allocator setting {}: {} is too small; PyTorch wants at least 20", name, mib));
  settings.*field = mib * kMiB;
  return {};
}

template <std::int64_t Settings::* field>
std::string write_mebibytes(const Settings& settings) {
  return settings.*field == Settings{}.*field ? "" : fmt::format("{}", settings.*field / kMiB);
}

// A snapshot has the split limit in bytes; none is -1.
Status read_recorded_split(std::string_view name, std::string_view text, Settings& settings) {
  if (text.starts_with('-') || text == "0") {
    settings.max_split_size = kUnlimited;
    return {};
  }
  const std::string copy{text};
  char* end = nullptr;
  const long long bytes = std::strtoll(copy.c_str(), &end, 10);
  if (end == copy.c_str() || *end != '\0')
    return bad_input(fmt::format("allocator setting {}: '{}' is not a number of bytes", name, text));
  settings.max_split_size = bytes;
  return {};
}

Status read_threshold(std::string_view name, std::string_view text, Settings& settings) {
  PLIMSOLL_TRY(share, number(name, text));
  if (share <= 0 || share >= 1)
    return bad_input(fmt::format("allocator setting {}: {} is not between 0 and 1", name, share));
  settings.gc_threshold = share;
  return {};
}

Status read_recorded_threshold(std::string_view name, std::string_view text, Settings& settings) {
  PLIMSOLL_TRY(share, number(name, text));
  settings.gc_threshold = share;
  return {};
}

std::string write_threshold(const Settings& settings) {
  return settings.gc_threshold > 0 ? fmt::format("{}", settings.gc_threshold) : "";
}

Status read_fraction(std::string_view name, std::string_view text, Settings& settings) {
  PLIMSOLL_TRY(share, number(name, text));
  if (share <= 0 || share > 1) return bad_input(fmt::format("allocator setting {}: {} is not in (0, 1]", name, share));
  settings.fraction = share;
  return {};
}

std::string write_fraction(const Settings& settings) {
  return settings.fraction ? fmt::format("{}", *settings.fraction) : "";
}

bool is_power_of_two(std::int64_t n) { return n > 0 && std::has_single_bit(static_cast<std::uint64_t>(n)); }

Result<std::int64_t> divisions_value(std::string_view name, std::string_view text) {
  PLIMSOLL_TRY(n, whole_number(name, text));
  if (n != 0 && !is_power_of_two(n))
    return bad_input(fmt::format("allocator setting {}: {} is not a power of two", name, n));
  return n;
}

// "[256:1,512:2,>:4]": the first pair also fills every lower index, '>' fills from the last key on.
Status division_list(std::string_view name, std::string_view list, Settings& settings) {
  bool first = true;
  std::size_t last = 0;
  for (const std::string_view pair : split(list, ',')) {
    const std::size_t colon = pair.find(':');
    if (colon == std::string_view::npos)
      return bad_input(fmt::format("allocator setting {}: '{}' is not a size:divisions pair", name, pair));
    PLIMSOLL_TRY(value, divisions_value(name, pair.substr(colon + 1)));
    const std::string_view key = trim(pair.substr(0, colon));
    if (key == ">") {
      for (std::size_t i = last; i < settings.divisions.size(); ++i) settings.divisions[i] = value;
      continue;
    }
    PLIMSOLL_TRY(mib, whole_number(name, key));
    if (!is_power_of_two(mib))
      return bad_input(fmt::format("allocator setting {}: size {} is not a power of two", name, mib));
    last = division_index(mib * kMiB);
    if (first)
      for (std::size_t i = 0; i < last; ++i) settings.divisions[i] = value;
    settings.divisions[last] = value;
    first = false;
  }
  return {};
}

Status read_divisions(std::string_view name, std::string_view text, Settings& settings) {
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']')
    return division_list(name, text.substr(1, text.size() - 2), settings);
  PLIMSOLL_TRY(n, divisions_value(name, text));
  settings.divisions.fill(n);
  return {};
}

std::string write_divisions(const Settings& settings) {
  const auto& divisions = settings.divisions;
  if (std::all_of(divisions.begin(), divisions.end(), [&](std::int64_t d) { return d == divisions[0]; }))
    return divisions[0] > 0 ? fmt::format("{}", divisions[0]) : "";
  std::vector<std::string> pairs;
  for (std::size_t i = 0; i < divisions.size(); ++i)
    pairs.push_back(fmt::format("{}:{}", std::int64_t{1} << i, divisions[i]));
  return "[" + join(pairs, ",") + "]";
}

Status read_backend(std::string_view name, std::string_view text, Settings& settings) {
  if (text != "native" && text != "cudaMallocAsync")
    return bad_input(fmt::format("allocator setting {}: '{}' is neither native nor cudaMallocAsync", name, text),
                     did_you_mean(text, std::vector<std::string>{"native", "cudaMallocAsync"}));
  settings.native = text == "native";
  return {};
}

std::string write_backend(const Settings& settings) { return settings.native ? "" : "cudaMallocAsync"; }

// Facts pytorch-allocator.md 1, 2, 14.
constexpr Setting kSettings[] = {
    {.name = "expandable_segments",
     .doc = "segments that grow instead of new ones: little fragmentation",
     .parse = read_switch<&Settings::expandable_segments>,
     .print = write_switch<&Settings::expandable_segments>,
     .recorded_as = "expandable_segments",
     .to_show = "True",
     .to_search = "True",
     .to_combine = "True",
     .not_beside = "max_split_size_mb"},  // PyTorch #193400
    {.name = "max_split_size_mb",
     .doc = "blocks above it are not split",
     .parse = read_mebibytes<&Settings::max_split_size>,
     .print = write_mebibytes<&Settings::max_split_size>,
     .recorded_as = "max_split_size",
     .parse_recorded = read_recorded_split,
     .to_show = "64,128,256,512",
     .to_search = "20,32,48,64,96,128,192,256,384,512,768,1024",
     .to_combine = "128"},
    {.name = "roundup_power2_divisions",
     .doc = "requests are rounded to a share of a power of two; also [256:1,512:2,>:4] by size in MiB",
     .parse = read_divisions,
     .print = write_divisions,
     .recorded_as = "roundup_power2_divisions",
     .to_show = "4,8,16",
     .to_search = "2,4,8,16,32,64",
     .to_combine = "8"},
    {.name = "large_segment_size_mb",
     .since = {2, 11},
     .doc = "the size of segments for requests from 1 to 10 MiB",
     .parse = read_mebibytes<&Settings::large_segment>,
     .print = write_mebibytes<&Settings::large_segment>,
     .to_show = "64",
     .to_search = "32,64,128"},
    {.name = "max_non_split_rounding_mb",
     .since = {2, 6},
     .doc = "how much larger an unsplit block may be than its request",
     .parse = read_mebibytes<&Settings::max_non_split_rounding>,
     .print = write_mebibytes<&Settings::max_non_split_rounding>},
    {.name = "garbage_collection_threshold",
     .doc = "above this share of the memory fraction, unused blocks are given back",
     .parse = read_threshold,
     .print = write_threshold,
     .recorded_as = "garbage_collection_threshold",
     .parse_recorded = read_recorded_threshold,
     .to_show = "0.8,0.6",
     .needs_fraction = true},
    {.name = "per_process_memory_fraction",
     .since = {2, 9},
     .doc = "the share of the GPU that the process may take",
     .parse = read_fraction,
     .print = write_fraction},
    {.name = "throw_on_cudamalloc_oom",
     .since = {2, 12},
     .doc = "a request over the memory fraction fails at once",
     .parse = read_switch<&Settings::throws_at_limit>,
     .print = write_switch<&Settings::throws_at_limit>},
    {.name = "backend",
     .doc = "native, or cudaMallocAsync, whose policy is the driver's and cannot be simulated",
     .parse = read_backend,
     .print = write_backend},
    {.name = "release_lock_on_cudamalloc", .doc = "no effect on sizes"},
    {.name = "release_lock_on_hipmalloc", .doc = "no effect on sizes"},
    {.name = "pinned_use_cuda_host_register", .doc = "pinned host memory; no effect on the GPU's"},
    {.name = "pinned_num_register_threads", .doc = "pinned host memory; no effect on the GPU's"},
    {.name = "pinned_use_background_threads", .doc = "pinned host memory; no effect on the GPU's"},
    {.name = "pinned_reserve_segment_size_mb", .doc = "pinned host memory; no effect on the GPU's"},
    {.name = "graph_capture_record_stream_reuse",
     .since = {2, 10},
     .doc = "blocks of a captured graph that another stream used; no effect on sizes outside of captures"},
};

}  // namespace

std::span<const Setting> setting_table() { return kSettings; }

const Setting* find_setting(std::string_view name) {
  for (const Setting& setting : kSettings)
    if (setting.name == name) return &setting;
  return nullptr;
}

}  // namespace plimsoll::allocator

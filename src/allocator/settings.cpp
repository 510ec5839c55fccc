// SPDX-License-Identifier: Apache-2.0
#include "allocator/settings.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include <fmt/format.h>

#include "allocator/setting_table.h"
#include "base/text.h"

namespace plimsoll::allocator {

Result<Version> parse_version(std::string_view text) {
  const auto version = leading_version(text);
  if (!version)
    return bad_input(fmt::format("'{}' is not a version of PyTorch", text), "write it as in 2.6 or 2.11.0+cu130");
  if (*version < Version{2, 1})
    return bad_input(fmt::format("the allocator of PyTorch {} is not known; the oldest is 2.1", trim(text)));
  return *version;
}

namespace {

tl::unexpected<Error> unknown_setting(std::string_view name) {
  std::vector<std::string> known;
  for (const Setting& setting : setting_table()) known.emplace_back(setting.name);
  const std::string guess = nearest(name, known);
  return bad_input(fmt::format("unknown allocator setting '{}'", name),
                   guess.empty() ? "" : "did you mean " + guess + "?");
}

}  // namespace

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
    const Setting* setting = find_setting(key);
    if (setting == nullptr) return unknown_setting(key);
    if (torch < setting->since)
      return bad_input(fmt::format("allocator setting {} exists from PyTorch {}.{} on, not in {}.{}", key,
                                   setting->since.major, setting->since.minor, torch.major, torch.minor),
                       "leave it out, or say which version runs with --torch");
    if (setting->parse == nullptr)
      settings.ignored.emplace_back(key);
    else
      PLIMSOLL_TRY_STATUS(setting->parse(key, value, settings));
  }
  return settings;
}

std::string print_settings(const Settings& settings) {
  std::vector<std::string> written;
  for (const Setting& setting : setting_table()) {
    const std::string value = setting.print != nullptr ? setting.print(settings) : std::string{};
    if (!value.empty()) written.push_back(fmt::format("{}:{}", setting.name, value));
  }
  return join(written, ",");
}

Status take_recorded(std::string_view key, std::string_view value, Settings& settings) {
  for (const Setting& setting : setting_table()) {
    if (setting.recorded_as != key) continue;
    return (setting.parse_recorded != nullptr ? setting.parse_recorded : setting.parse)(key, value, settings);
  }
  return {};
}

std::size_t division_index(std::int64_t size) {
  const int log2 = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size))) - 1;
  return static_cast<std::size_t>(std::clamp(log2 - 20, 0, 15));
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

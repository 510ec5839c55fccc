// SPDX-License-Identifier: Apache-2.0
#include "answer/sweep.h"

#include <algorithm>

#include <fmt/format.h>

#include "answer/input.h"
#include "base/text.h"
#include "base/usage.h"

namespace plimsoll::answer {

namespace {

std::vector<std::string> split_outside_brackets(std::string_view text) {
  std::vector<std::string> parts = {""};
  int depth = 0;
  for (const char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth <= 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  for (std::string& part : parts) part = std::string{trim(part)};
  return parts;
}

}  // namespace

Result<SweepAxis> parse_sweep(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string key = full_key_name(replace(trim(text.substr(0, equals)), '-', '_'));
  if (equals == std::string_view::npos || key.empty())
    return usage_error(fmt::format("--sweep is '{}'; wanted KEY=A,B,C", text), "--sweep micro_batch_size=1,2,4");
  SweepAxis axis{key, split_outside_brackets(text.substr(equals + 1))};
  for (const std::string& value : axis.values)
    if (value.empty()) return usage_error(fmt::format("--sweep {} has an empty value in '{}'", key, text));
  for (auto it = axis.values.begin(); it != axis.values.end(); ++it)
    if (std::find(axis.values.begin(), it, *it) != it)
      return usage_error(fmt::format("--sweep {} has the value {} twice", key, *it));
  return axis;
}

Result<std::vector<Settings>> sweep_points(const std::vector<std::string>& sweeps) {
  std::vector<Settings> points = {{}};
  std::vector<std::string> keys;
  for (const std::string& sweep : sweeps) {
    PLIMSOLL_TRY(axis, parse_sweep(sweep));
    if (std::find(keys.begin(), keys.end(), axis.key) != keys.end())
      return usage_error(fmt::format("--sweep {} was given twice", axis.key), "give all its values in one --sweep");
    keys.push_back(axis.key);
    if (axis.values.size() > kMostSweepPoints / points.size())
      return usage_error(fmt::format("--sweep makes more than {} jobs", kMostSweepPoints), "sweep fewer values");
    std::vector<Settings> longer;
    longer.reserve(points.size() * axis.values.size());
    for (const Settings& point : points)
      for (const std::string& value : axis.values) {
        longer.push_back(point);
        longer.back().emplace_back(axis.key, value);
      }
    points = std::move(longer);
  }
  return points;
}

}  // namespace plimsoll::answer

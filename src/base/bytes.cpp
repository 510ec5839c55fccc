// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll {

std::string format_bytes(std::int64_t bytes) {
  const std::int64_t size = bytes < 0 ? -bytes : bytes;
  const auto in = [bytes](std::int64_t unit) { return static_cast<double>(bytes) / static_cast<double>(unit); };
  if (size >= kGiB) return fmt::format("{:.2f} GiB", in(kGiB));
  if (size >= kMiB) return fmt::format("{:.2f} MiB", in(kMiB));
  if (size >= kKiB) return fmt::format("{:.1f} KiB", in(kKiB));
  return fmt::format("{} B", bytes);
}

std::string format_gib(std::int64_t bytes, int digits) {
  return fmt::format("{:.{}f}", static_cast<double>(bytes) / static_cast<double>(kGiB), digits);
}

Result<std::int64_t> parse_bytes(std::string_view text) {
  const std::string copy{trim(text)};
  char* end = nullptr;
  const double number = std::strtod(copy.c_str(), &end);
  const std::string_view unit = trim(std::string_view{end});
  struct Unit {
    std::string_view name;
    double bytes;
  };
  constexpr Unit kUnits[] = {
      {"", 1},     {"b", 1},    {"kib", 1024.0}, {"mib", 1048576.0}, {"gib", 1073741824.0}, {"tib", 1099511627776.0},
      {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9},     {"tb", 1e12}};
  if (end == copy.c_str() || !std::isfinite(number) || number < 0)
    return bad_input(fmt::format("'{}' is not a size; wanted a number with a unit, such as 80GiB or 80GB", text));
  for (const Unit& u : kUnits) {
    if (!equals_ignoring_case(unit, u.name)) continue;
    const double bytes = number * u.bytes;
    if (bytes > 9e18) return bad_input(fmt::format("'{}' is larger than any memory", text));
    return static_cast<std::int64_t>(std::llround(bytes));
  }
  return bad_input(fmt::format("'{}' has an unknown unit '{}'; wanted GiB, GB, MiB, MB, TiB, TB or bytes", text, unit));
}

std::string with_commas(std::int64_t number) {
  std::string digits = std::to_string(number < 0 ? -number : number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<std::size_t>(at), ",");
  return number < 0 ? "-" + digits : digits;
}

}  // namespace plimsoll

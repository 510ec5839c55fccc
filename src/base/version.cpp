// SPDX-License-Identifier: Apache-2.0
#include "base/version.h"

#include <charconv>

#include "base/text.h"

namespace plimsoll {

std::optional<Version> leading_version(std::string_view text) {
  const std::string_view word = trim(text);
  const char* const end = word.data() + word.size();
  Version version;
  const auto [dot, bad_major] = std::from_chars(word.data(), end, version.major);
  if (bad_major != std::errc{} || version.major < 0 || dot == end || *dot != '.') return std::nullopt;
  const auto [rest, bad_minor] = std::from_chars(dot + 1, end, version.minor);
  if (bad_minor != std::errc{} || version.minor < 0) return std::nullopt;
  if (rest != end && *rest != '.' && *rest != '+' && *rest != 'a') return std::nullopt;
  return version;
}

}  // namespace plimsoll

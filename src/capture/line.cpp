// SPDX-License-Identifier: Apache-2.0
#include "capture/line.h"

#include <charconv>

namespace plimsoll::capture {

bool Line::integer(std::int64_t& value) {
  const auto [rest, error] = std::from_chars(at_, end_, value);
  if (error != std::errc{}) return false;
  at_ = rest;
  return true;
}

bool Line::skip_array() {
  if (!open()) return false;
  constexpr std::string_view kOfNumbers = "0123456789+-.eE,truefalsInityN";
  while (at_ != end_ && *at_ != ']' && kOfNumbers.find(*at_) != std::string_view::npos) ++at_;
  return close();
}

}  // namespace plimsoll::capture

// SPDX-License-Identifier: Apache-2.0
#include "why/words.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/bytes.h"
#include "base/text.h"

namespace plimsoll::why {

namespace {

bool same_folded(std::string_view text, std::size_t at, std::string_view what) {
  for (std::size_t i = 0; i < what.size(); ++i)
    if (folded(text[at + i]) != what[i]) return false;
  return true;
}

using Bytes = unsigned char __attribute__((vector_size(16)));

// The bit in which a capital letter differs from a small one. Other bytes that it makes alike are told apart
// afterwards.
constexpr unsigned char kCase = 0x20;

Bytes broadcast(char c) {
  Bytes bytes;
  std::memset(&bytes, static_cast<unsigned char>(c) | kCase, sizeof bytes);
  return bytes;
}

// One bit per byte of which all bits are set.
unsigned places(const Bytes& hits) {
#if defined(__SSE2__)
  __m128i packed;
  std::memcpy(&packed, &hits, sizeof packed);
  return static_cast<unsigned>(_mm_movemask_epi8(packed));
#else
  unsigned set = 0;
  for (unsigned i = 0; i < sizeof hits; ++i) set |= static_cast<unsigned>(hits[i] & 1U) << i;
  return set;
#endif
}

std::size_t find_slowly(std::string_view text, std::string_view what, std::size_t from) {
  if (what.empty() || text.size() < what.size()) return kNone;
  for (std::size_t at = from; at + what.size() <= text.size(); ++at)
    if (same_folded(text, at, what)) return at;
  return kNone;
}

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() && is_blank(text[at])) ++at;
  return at;
}

std::optional<std::int64_t> times(double number, std::int64_t unit) {
  const double bytes = number * static_cast<double>(unit);
  if (!(bytes >= 0) || bytes > 9e18) return std::nullopt;
  return std::llround(bytes);
}

}  // namespace

std::size_t find_word(std::string_view text, std::string_view what, std::size_t from) {
  if (what.size() < 2 || text.size() < what.size()) return find_slowly(text, what, from);
  const std::size_t last = text.size() - what.size();
  const Bytes first = broadcast(what[0]);
  const Bytes second = broadcast(what[1]);
  const Bytes small = broadcast('\0');
  std::size_t at = from;
  // Sixteen places at a time: does the first letter stand here and the second after it? Mostly not.
  for (; at + sizeof(Bytes) + 1 <= text.size() && at <= last; at += sizeof(Bytes)) {
    Bytes here;
    Bytes next;
    std::memcpy(&here, text.data() + at, sizeof here);
    std::memcpy(&next, text.data() + at + 1, sizeof next);
    const auto hits = ((here | small) == first) & ((next | small) == second);
    Bytes set;
    std::memcpy(&set, &hits, sizeof set);
    for (unsigned left = places(set); left != 0; left &= left - 1) {
      const std::size_t place = at + static_cast<std::size_t>(std::countr_zero(left));
      if (place <= last && same_folded(text, place, what)) return place;
    }
  }
  return find_slowly(text, what, at);
}

bool has_text(std::string_view text, std::string_view what) { return find_word(text, what) != kNone; }

bool has_any(std::string_view text, std::initializer_list<std::string_view> what) {
  for (const std::string_view one : what)
    if (has_text(text, one)) return true;
  return false;
}

bool has_whole(std::string_view text, std::string_view what) {
  for (std::size_t at = find_word(text, what); at != kNone; at = find_word(text, what, at + 1)) {
    const std::size_t end = at + what.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

std::optional<std::int64_t> leading_integer(std::string_view text) {
  const std::size_t at = skip_blanks(text, 0);
  std::int64_t number = 0;
  const auto parsed = std::from_chars(text.data() + at, text.data() + text.size(), number);
  if (parsed.ec != std::errc{}) return std::nullopt;
  return number;
}

std::optional<double> leading_number(std::string_view text, std::size_t* length) {
  const std::size_t at = skip_blanks(text, 0);
  if (at == text.size() || !(is_digit(text[at]) || text[at] == '.')) return std::nullopt;
  double number = 0;
  const auto parsed = std::from_chars(text.data() + at, text.data() + text.size(), number);
  if (parsed.ec != std::errc{}) return std::nullopt;
  if (length != nullptr) *length = static_cast<std::size_t>(parsed.ptr - text.data());
  return number;
}

std::int64_t unit_bytes(std::string_view unit) {
  if (unit.empty()) return 0;
  const char first = folded(unit.front());
  const std::string_view rest = unit.substr(1);
  const bool binary = rest.empty() || equals_ignoring_case(rest, "b") || equals_ignoring_case(rest, "ib");
  if (first == 'b' && (rest.empty() || equals_ignoring_case(rest, "yte") || equals_ignoring_case(rest, "ytes")))
    return 1;
  if (!binary) return 0;
  if (first == 'k') return kKiB;
  if (first == 'm') return kMiB;
  if (first == 'g') return kGiB;
  if (first == 't') return kGiB * 1024;
  return 0;
}

std::optional<std::int64_t> leading_size(std::string_view text, std::size_t* length) {
  std::size_t at = 0;
  const std::optional<double> number = leading_number(text, &at);
  if (!number) return std::nullopt;
  at = skip_blanks(text, at);
  std::size_t end = at;
  while (end < text.size() && is_letter(text[end])) ++end;
  const std::int64_t unit = unit_bytes(text.substr(at, end - at));
  if (unit == 0) return std::nullopt;
  if (length != nullptr) *length = end;
  return times(*number, unit);
}

std::optional<std::int64_t> size_after(std::string_view text, std::string_view label) {
  std::size_t at = find_word(text, label);
  if (at == kNone) return std::nullopt;
  at += label.size();
  while (at < text.size() && (is_blank(text[at]) || text[at] == ':' || text[at] == '=')) ++at;
  return leading_size(text.substr(at));
}

std::optional<std::int64_t> size_before(std::string_view text, std::string_view label) {
  const std::size_t at = find_word(text, label);
  if (at == kNone) return std::nullopt;
  std::size_t begin = at;
  while (begin > 0 && is_blank(text[begin - 1])) --begin;
  while (begin > 0 && is_letter(text[begin - 1])) --begin;
  while (begin > 0 && is_blank(text[begin - 1])) --begin;
  while (begin > 0 && (is_digit(text[begin - 1]) || text[begin - 1] == '.')) --begin;
  std::size_t length = 0;
  const std::optional<std::int64_t> size = leading_size(text.substr(begin, at - begin), &length);
  return size;
}

std::optional<std::int64_t> integer_after(std::string_view text, std::string_view label) {
  std::size_t at = find_word(text, label);
  if (at == kNone) return std::nullopt;
  at += label.size();
  while (at < text.size() && !is_digit(text[at]) && text[at] != '-' && !is_letter(text[at])) ++at;
  return leading_integer(text.substr(at));
}

std::string_view cut_text(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

}  // namespace plimsoll::why

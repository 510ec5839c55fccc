// SPDX-License-Identifier: Apache-2.0
// Figures of a complaint by the words around them.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/text.h"
#include "why/complaint.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

struct Figure {
  std::int64_t bytes = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// "12 GiB", "25769803776 bytes", "32,000,000,000 bytes", and a bare number of a megabyte or more after "size".
std::optional<Figure> figure_at(std::string_view text, std::size_t at) {
  std::string digits;
  std::size_t end = at;
  while (end < text.size() && (is_digit(text[end]) || text[end] == '.' || text[end] == ',')) {
    if (text[end] != ',') digits.push_back(text[end]);
    ++end;
  }
  while (!digits.empty() && digits.back() == '.') digits.pop_back();
  const auto number = leading_number(digits);
  if (!number) return std::nullopt;
  std::size_t unit_at = end;
  while (unit_at < text.size() && unit_at < end + 2 && (is_blank(text[unit_at]) || text[unit_at] == '-')) ++unit_at;
  std::size_t unit_end = unit_at;
  while (unit_end < text.size() && is_letter(text[unit_end])) ++unit_end;
  double unit = static_cast<double>(unit_bytes(text.substr(unit_at, unit_end - unit_at)));
  if (unit == 0) {
    const std::string_view before = text.substr(at > 12 ? at - 12 : 0, std::min<std::size_t>(at, 12));
    if (*number < 1 << 20 || !has_any(before, {"size", "bytes", "alloc"})) return std::nullopt;
    unit = 1;
    unit_end = end;
  }
  const double bytes = *number * unit;
  if (!(bytes >= 0) || bytes > 9e18) return std::nullopt;
  return Figure{std::llround(bytes), at, unit_end};
}

std::optional<std::int64_t>* slot_of(std::string_view before, std::string_view after, OomNumbers& figures) {
  // The word that follows a figure speaks of it: "3 GiB left", "20 GiB in use".
  const std::string_view next = trim(after.substr(0, 26));
  const auto begins = [&](std::string_view word) { return find_word(next.substr(0, word.size()), word) == 0; };
  for (const std::string_view word : {"left", "free", "available", "is free", "remain", "are free"})
    if (begins(word)) return &figures.free;
  for (const std::string_view word :
       {"in use", "used", "allocated", "already", "is allocated", "has been allocated", "are in use"})
    if (begins(word)) return &figures.allocated;
  for (const std::string_view word : {"total", "capacity", "limit"})
    if (begins(word)) return &figures.total;
  for (const std::string_view word : {"requested", "needed", "required", "wanted"})
    if (begins(word)) return &figures.request;
  struct Label {
    std::string_view word;
    std::optional<std::int64_t> OomNumbers::* slot;
  };
  static constexpr Label kLabels[] = {
      {"available", &OomNumbers::free},   {"free", &OomNumbers::free},           {"remaining", &OomNumbers::free},
      {"left", &OomNumbers::free},        {"allocated", &OomNumbers::allocated}, {"so far", &OomNumbers::allocated},
      {"in use", &OomNumbers::allocated}, {"used", &OomNumbers::allocated},      {"using", &OomNumbers::allocated},
      {"total", &OomNumbers::total},      {"capacity", &OomNumbers::total},      {"limit", &OomNumbers::total},
      {"maximum", &OomNumbers::total},    {"larger than", &OomNumbers::total},   {"allocat", &OomNumbers::request},
      {"request", &OomNumbers::request},  {"want", &OomNumbers::request},        {"need", &OomNumbers::request},
      {"asked", &OomNumbers::request},    {"tried", &OomNumbers::request},       {"trying", &OomNumbers::request},
      {"size", &OomNumbers::request},     {"reserve", &OomNumbers::request},     {"requir", &OomNumbers::request},
      {"calloc", &OomNumbers::request},   {"malloc", &OomNumbers::request},      {"pinning", &OomNumbers::request},
      {"map", &OomNumbers::request},      {"extend", &OomNumbers::request},      {"for ", &OomNumbers::request}};
  // The label that stands nearest before the figure; "size" and "for" say something only where no other word does.
  std::optional<std::int64_t> OomNumbers::* best = nullptr;
  std::size_t nearest = 0;
  const auto vague = [](const Label& label) { return label.word == "size" || label.word == "for "; };
  const bool any_clear = std::any_of(std::begin(kLabels), std::end(kLabels), [&](const Label& label) {
    return !vague(label) && find_word(before, label.word) != kNone;
  });
  for (const Label& label : kLabels)
    for (std::size_t at = find_word(before, label.word); at != kNone; at = find_word(before, label.word, at + 1))
      if (at + label.word.size() > nearest && !(any_clear && vague(label))) {
        nearest = at + label.word.size();
        best = label.slot;
      }
  return best == nullptr ? nullptr : &(figures.*best);
}

}  // namespace

void read_figures(std::string_view text, OomNumbers& figures) {
  read_labelled_figures(text, figures);
  // Labels that are known have been read; the words around them would only be taken twice.
  const bool labelled = figures.total || figures.free || figures.reserved;
  std::size_t previous = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!is_digit(text[at]) || (at > 0 && (is_word(text[at - 1]) || text[at - 1] == '.'))) continue;
    const auto figure = figure_at(text, at);
    if (!figure) {
      while (at + 1 < text.size() && (is_digit(text[at + 1]) || text[at + 1] == '.')) ++at;
      continue;
    }
    const std::size_t from = std::max(previous, at > 40 ? at - 40 : 0);
    std::optional<std::int64_t>* slot =
        slot_of(text.substr(from, at - from), text.substr(std::min(figure->end, text.size())), figures);
    const bool wanted = slot != nullptr && (!labelled || slot == &figures.request);
    if (wanted && !slot->has_value()) *slot = figure->bytes;
    previous = figure->end;
    at = std::max(at, figure->end - 1);
  }
}

}  // namespace plimsoll::why

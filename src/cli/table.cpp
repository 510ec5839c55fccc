// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <algorithm>

#include "base/text.h"

namespace plimsoll::cli {

namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowestColumn = 10;

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

// Bytes of the first `count` characters.
std::size_t bytes_of(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if (starts_character(text[at]) && count-- == 0) break;
  return at;
}

// Where a list or a path goes on: no column has to be wider than the piece before.
constexpr std::string_view kSeams = ",/";
// Where a word that is longer than its line is cut, if it has such a place: the end of an item, then within one.
constexpr std::string_view kCuts[] = {",", "/-_"};
// What no seam divides stays whole up to here.
constexpr std::size_t kLongestWhole = 36;

// garbage_collection_threshold:0.8, NCCL_NVLS_ENABLE=0: one thing to read and to paste.
bool is_setting(std::string_view word) { return word.find_first_of(":=") < word.size() - 1; }

// Bytes of the front of a word that go on a line of `width` characters.
std::size_t cut_of(std::string_view word, std::size_t width) {
  const std::size_t most = bytes_of(word, width);
  for (const std::string_view cuts : kCuts)
    if (const std::size_t seam = word.substr(0, most).find_last_of(cuts); seam != std::string_view::npos && seam > 0)
      return seam + 1;
  return most;
}

// The width of the longest piece that wrap() would have to break in a narrower column.
std::size_t longest_whole(std::string_view text, bool only_settings) {
  std::size_t longest = 0;
  for (std::string_view word : split(text, ' '))
    while (!word.empty() && (!only_settings || is_setting(word))) {
      const std::size_t piece = std::min(word.size(), word.find_first_of(kSeams) + 1);  // npos + 1 is 0
      const std::size_t bytes = piece == 0 ? word.size() : piece;
      if (const std::size_t width = display_width(word.substr(0, bytes)); width <= kLongestWhole)
        longest = std::max(longest, width);
      word.remove_prefix(bytes);
    }
  return longest;
}

void trim_line(std::string& text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  for (std::string_view word : split(text, ' ')) {
    while (true) {
      const std::size_t room = line.empty() ? width : width - std::min(width, display_width(line) + 1);
      if (display_width(word) <= room) {
        if (!line.empty()) line += ' ';
        line += word;
        break;
      }
      if (!line.empty()) {
        lines.push_back(std::move(line));
        line.clear();
        continue;
      }
      const std::size_t cut = cut_of(word, width);
      lines.emplace_back(word.substr(0, cut));
      word.remove_prefix(cut);
    }
  }
  lines.push_back(std::move(line));
  return lines;
}

namespace {

// Gaps between columns, flags and keys to paste.
constexpr std::string_view kNoProse[] = {"  ", " --", " = "};

// Characters that stand on the screen: ESC [ ... m is colour.
std::size_t shown_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const std::size_t escape = text.find("\x1b[");
    width += display_width(text.substr(0, escape));
    if (escape == std::string_view::npos) break;
    const std::size_t end = text.find('m', escape);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return width;
}

bool is_prose(std::string_view line) {
  constexpr std::size_t kDeepest = 8;  // more is a cell that goes on below
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin > kDeepest) return false;
  return std::none_of(std::begin(kNoProse), std::end(kNoProse),
                      [&](std::string_view mark) { return line.find(mark, begin) != std::string_view::npos; });
}

void fold_line(std::string_view line, std::size_t width, std::string& text) {
  const std::size_t begin = line.find_first_not_of(' ');
  const std::string indent(begin + 2, ' ');
  std::string here(begin, ' ');
  bool is_empty = true;
  for (const std::string_view word : split(line.substr(begin), ' ')) {
    if (!is_empty && shown_width(here) + 1 + shown_width(word) > width) {
      text += here + '\n';
      here = indent;
      is_empty = true;
    }
    if (!is_empty) here += ' ';
    here += word;
    is_empty = false;
  }
  text += here;
}

}  // namespace

std::string fold_prose(std::string_view text, int width) {
  if (width <= 0) return std::string(text);
  std::string folded;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (shown_width(line) > static_cast<std::size_t>(width) && is_prose(line))
      fold_line(line, static_cast<std::size_t>(width), folded);
    else
      folded += line;
    if (end < text.size()) folded += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return folded;
}

void Table::add_row(std::vector<Cell> cells) {
  cells.resize(columns_.size(), Cell{""});
  rows_.push_back({std::move(cells), false});
}

void Table::add_rule() { rows_.push_back({{}, true}); }

void Table::shrink(std::vector<std::size_t>& widths, std::size_t width, bool breaks_words) const {
  std::size_t total = kGap * (widths.size() - 1);
  for (const std::size_t each : widths) total += each;
  if (total <= width) return;
  std::vector<std::size_t> narrowest(columns_.size(), kNarrowestColumn);
  for (std::size_t i = 0; i < columns_.size(); ++i)
    for (const Row& row : rows_)
      if (columns_[i].shrinks && !row.is_rule)
        narrowest[i] = std::max(narrowest[i], longest_whole(row.cells[i].text, breaks_words));
  // Takes characters one by one from the widest column that may shrink: tables are small.
  for (; total > width; --total) {
    std::size_t widest = columns_.size();
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i].shrinks && widths[i] > narrowest[i] && (widest == columns_.size() || widths[i] > widths[widest]))
        widest = i;
    if (widest == columns_.size()) return;
    --widths[widest];
  }
}

std::vector<std::size_t> Table::column_widths(int width) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t widest = display_width(columns_[i].title);
    for (const Row& row : rows_)
      if (!row.is_rule) widest = std::max(widest, display_width(row.cells[i].text));
    widths.push_back(widest);
  }
  if (width <= 0 || widths.empty()) return widths;
  // Words are broken only where that is not enough, settings never.
  shrink(widths, static_cast<std::size_t>(width), false);
  shrink(widths, static_cast<std::size_t>(width), true);
  return widths;
}

std::string Table::to_text(int width, bool colour) const {
  const std::vector<std::size_t> widths = column_widths(width);
  std::string text;
  const auto add_line = [&](const std::vector<Cell>& cells) {
    std::vector<std::vector<std::string>> lines;
    std::size_t height = 1;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const bool fits = display_width(cells[i].text) <= widths[i];
      lines.push_back(fits ? std::vector<std::string>{cells[i].text} : wrap(cells[i].text, widths[i]));
      height = std::max(height, lines.back().size());
    }
    for (std::size_t at = 0; at < height; ++at) {
      std::string line;
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        const std::string part = at < lines[i].size() ? lines[i][at] : std::string{};
        const std::string padding(widths[i] - std::min(widths[i], display_width(part)), ' ');
        const std::string painted = part.empty() ? part : paint(part, cells[i].style, colour);
        if (i > 0) line.append(kGap, ' ');
        line += columns_[i].align == Align::kRight ? padding + painted : painted + padding;
      }
      trim_line(line);
      text += line + '\n';
    }
  };
  const auto add_dashes = [&] {
    std::vector<Cell> cells;
    for (const std::size_t each : widths) cells.emplace_back(std::string(each, '-'), Style::kDim);
    add_line(cells);
  };

  std::vector<Cell> head;
  for (const Column& column : columns_) head.emplace_back(column.title, Style::kBold);
  add_line(head);
  add_dashes();
  for (const Row& row : rows_) {
    if (row.is_rule)
      add_dashes();
    else
      add_line(row.cells);
  }
  return text;
}

}  // namespace plimsoll::cli

// SPDX-License-Identifier: Apache-2.0
// Tables for people: aligned columns, a head, rules between groups. Columns that may shrink wrap their
// words so that the table fits the width; nothing is cut away. A table that would have to break words for that is
// wider. Widths count characters, not bytes.
//
//   part           GiB
//   -----------  -----
//   parameters   16.42
//   free         12.01
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"

namespace plimsoll::cli {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
  bool shrinks = false;  // wraps when the table is wider than the output
};

struct Cell {
  Cell(std::string cell_text, Style cell_style = Style::kPlain)  // NOLINT(google-explicit-constructor)
      : text(std::move(cell_text)), style(cell_style) {}
  Cell(const char* cell_text) : text(cell_text) {}  // NOLINT(google-explicit-constructor)

  std::string text;
  Style style = Style::kPlain;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column; missing ones at the end are empty.
  void add_row(std::vector<Cell> cells);
  // A line of dashes under the rows so far, as before a sum.
  void add_rule();

  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // Every line ends with a newline and has no blanks at its end. Width 0 means no limit.
  [[nodiscard]] std::string to_text(int width, bool colour) const;

 private:
  struct Row {
    std::vector<Cell> cells;
    bool is_rule = false;
  };

  [[nodiscard]] std::vector<std::size_t> column_widths(int width) const;
  // Takes from columns that may shrink what they have to give.
  void shrink(std::vector<std::size_t>& widths, std::size_t width, bool breaks_words) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// Characters that UTF-8 text takes on a line: one per code point.
[[nodiscard]] std::size_t display_width(std::string_view text);

// Lines of prose that are wider than `width` go on below, indented; 0 means no limit. Lines of tables, which have gaps
// between their columns, and flags and keys to paste stay whole. Colour takes no room.
[[nodiscard]] std::string fold_prose(std::string_view text, int width);

// The words of a text on lines of at most `width` characters; a longer word is cut.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, std::size_t width);

}  // namespace plimsoll::cli

// SPDX-License-Identifier: Apache-2.0
#include "document/json_writer.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/result.h"

namespace plimsoll::document {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 when there is none. Overlong
// forms, surrogates and code points over U+10FFFF are not well formed (Unicode, table 3-7).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  const unsigned second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool is_well_formed = !(first == 0xE0 && second < 0xA0) && !(first == 0xED && second > 0x9F);
    return is_well_formed && follows(1) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool is_well_formed = !(first == 0xF0 && second < 0x90) && !(first == 0xF4 && second > 0x8F);
    return is_well_formed && follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\r':
      out += "\\r";
      return;
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(c);
  if (code < 0x20 || code == 0x7F)
    out += fmt::format("\\u{:04x}", code);
  else
    out += c;
}

}  // namespace

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 1)
      append_escaped(out, text.front());
    else if (length == 0)
      out += kReplacement;
    else
      out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

JsonWriter& JsonWriter::key(std::string_view name) {
  PLIMSOLL_CHECK(!levels_.empty() && levels_.back().closer == '}' && !after_key_);
  separate();
  text_ += json_quoted(name);
  text_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) { return scalar(json_quoted(text)); }

JsonWriter& JsonWriter::value(double number) {
  return std::isfinite(number) ? scalar(fmt::format("{}", number)) : scalar("null");
}

std::string JsonWriter::take() {
  PLIMSOLL_CHECK(levels_.empty() && !after_key_ && !text_.empty());
  text_ += '\n';
  return std::exchange(text_, {});
}

JsonWriter& JsonWriter::begin(char opener, Layout layout) {
  const bool is_inline = layout == Layout::kInline || (!levels_.empty() && levels_.back().is_inline);
  scalar(std::string_view{&opener, 1});
  levels_.push_back({opener == '{' ? '}' : ']', is_inline});
  return *this;
}

JsonWriter& JsonWriter::end(char closer) {
  PLIMSOLL_CHECK(!levels_.empty() && levels_.back().closer == closer && !after_key_);
  const Level level = levels_.back();
  levels_.pop_back();
  if (level.has_content && !level.is_inline) break_line();
  text_ += closer;
  return *this;
}

JsonWriter& JsonWriter::scalar(std::string_view text) {
  PLIMSOLL_CHECK(levels_.empty() ? text_.empty() : (levels_.back().closer == ']') != after_key_);
  if (!after_key_ && !levels_.empty()) separate();
  after_key_ = false;
  text_ += text;
  return *this;
}

void JsonWriter::separate() {
  Level& level = levels_.back();
  if (level.has_content) text_ += level.is_inline ? ", " : ",";
  level.has_content = true;
  if (!level.is_inline) break_line();
}

void JsonWriter::break_line() {
  text_ += '\n';
  text_.append(levels_.size() * 2, ' ');
}

}  // namespace plimsoll::document

// SPDX-License-Identifier: Apache-2.0
#include "serve/log_window.h"

#include <algorithm>
#include <vector>

#include "document/json_writer.h"
#include "snapshot/source.h"

namespace plimsoll::serve {

Result<std::string> log_json(const std::string& path, std::int64_t first, std::int64_t count) {
  PLIMSOLL_TRY(packed, snapshot::file_source(path));
  PLIMSOLL_TRY(source, snapshot::unpacked_source(std::move(packed), snapshot::InflateLimits{}));
  constexpr std::size_t kLongestLine = 4000;  // what follows is cut; the mark says so
  std::vector<std::string> lines;
  std::string line;
  std::int64_t number = 1;
  bool is_cut = false;
  const auto is_asked = [&] { return number >= first && number < first + count; };
  const auto end_line = [&] {
    if (is_asked()) lines.push_back(is_cut ? line + " …" : line);
    line.clear();
    is_cut = false;
    ++number;
  };
  for (std::string piece(1 << 16, '\0');;) {
    auto got = source->read(piece.data(), piece.size());
    if (!got) return tl::make_unexpected(std::move(got.error()).with_context(path));
    if (*got == 0) break;
    for (std::size_t i = 0; i < *got; ++i) {
      if (piece[i] == '\n') {
        end_line();
      } else if (is_asked()) {
        if (line.size() < kLongestLine) {
          line += piece[i];
        } else {
          is_cut = true;
        }
      } else if (line.empty()) {
        line += ' ';  // so that a last line without an end is counted
      }
    }
  }
  if (!line.empty()) end_line();
  document::JsonWriter json;
  json.begin_object().member("schema", 1).member("first", first).member("lines_in_all", number - 1);
  json.key("lines").begin_array();
  for (const std::string& text : lines) json.value(text);
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::serve

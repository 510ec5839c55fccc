// SPDX-License-Identifier: Apache-2.0
#include "job/format.h"

#include <algorithm>

namespace plimsoll::job {

namespace {

template <FileKind kKind>
Result<Draft> read_dialect(const InputFile& file, const ReadOptions& options) {
  static_cast<void>(options);
  return read_trainer_dialect(file, kKind);
}

}  // namespace

std::span<const TextSign> text_signs() {
  static constexpr TextSign kSigns[] = {
#define PLIMSOLL_ROW(kind, strength, holds) {FileKind::kind, TextStrength::strength, holds},
      PLIMSOLL_TEXT_SIGNS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
  };
  return kSigns;
}

std::span<const TableSign> table_signs() {
  static constexpr TableSign kSigns[] = {
#define PLIMSOLL_ROW(kind, strength, holds) {FileKind::kind, Strength::strength, holds},
      PLIMSOLL_TABLE_SIGNS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
  };
  return kSigns;
}

std::span<const Format> formats() {
  static constexpr Format kFormats[] = {
#define PLIMSOLL_ROW(kind, read) {FileKind::kind, read},
      PLIMSOLL_FORMATS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
#define PLIMSOLL_ROW(kind, name) {FileKind::kind, read_dialect<FileKind::kind>},
          PLIMSOLL_DIALECTS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
  };
  return kFormats;
}

bool has_any(const document::Node& table, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(), [&table](std::string_view key) { return table.has(key); });
}

bool is_table(const document::Node* node) { return node != nullptr && node->is_object(); }

}  // namespace plimsoll::job

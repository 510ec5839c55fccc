// SPDX-License-Identifier: Apache-2.0
// What is asked of a kind of file: how it is known, and how it is read. The kinds, their readers and signs are rows of
// framework/list.h; src/framework defines them, and this folder those of the job file and of a model's own files.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "document/node.h"
#include "framework/list.h"
#include "job/draft.h"

namespace plimsoll::job {

// Of a text that is not parsed yet.
enum class TextStrength : std::uint8_t {
  kBytes,     // any file
  kLog,       // one that does not start like JSON: what a run printed
  kText,      // the same: a program
  kCommands,  // the same: flags that make it a script without a shell's first line
  kLines,     // one that is no script either
};

// Of a table of keys. Every strength is tried for all kinds before the next.
enum class Strength : std::uint8_t {
  kSure,     // a key that nothing else has
  kTool,     // keys of a tool, the files below it laid under them
  kTypical,  // sections as this tool has them; a model's config.json goes before
  kCommon,   // words that several have
};

struct TextSign {
  FileKind kind;
  TextStrength strength;
  bool (*holds)(std::string_view text);
};
[[nodiscard]] std::span<const TextSign> text_signs();

struct TableSign {
  FileKind kind;
  Strength strength;
  bool (*holds)(const document::Node& root);
};
[[nodiscard]] std::span<const TableSign> table_signs();

struct Format {
  FileKind kind;
  Result<Draft> (*read)(const InputFile& file, const ReadOptions& options);
};
[[nodiscard]] std::span<const Format> formats();

#define PLIMSOLL_ROW(kind, read) [[nodiscard]] Result<Draft> read(const InputFile& file, const ReadOptions& options);
PLIMSOLL_FORMATS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
// The tools around Transformers' Trainer share one reader.
[[nodiscard]] Result<Draft> read_trainer_dialect(const InputFile& file, FileKind kind);

#define PLIMSOLL_ROW(kind, strength, holds) [[nodiscard]] bool holds(std::string_view text);
PLIMSOLL_TEXT_SIGNS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
#define PLIMSOLL_ROW(kind, strength, holds) [[nodiscard]] bool holds(const document::Node& root);
PLIMSOLL_TABLE_SIGNS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW

// A program of a tool that has a command of its own: "axolotl train".
struct Command {
  std::string_view program;
  std::string_view verbs;       // that train, separated by spaces; empty: any
  std::string_view wraps = {};  // the verb that only starts another command
};
[[nodiscard]] const std::vector<Command>& tool_commands();

// What signs are made of.
[[nodiscard]] bool has_any(const document::Node& table, std::initializer_list<std::string_view> keys);
[[nodiscard]] bool is_table(const document::Node* node);

// A table in the common words of training programs that is of no tool that is known.
[[nodiscard]] bool is_of_unknown_tool(const document::Node& root);

}  // namespace plimsoll::job

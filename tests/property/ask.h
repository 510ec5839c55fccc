// SPDX-License-Identifier: Apache-2.0
// Asks the program as a user would, and reads its JSON.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/program.h"
#include "document/node.h"

namespace plimsoll::testing {

using Words = std::vector<std::string>;

struct Reply {
  int code = 0;
  document::Node json;
};

// What the program prints for these words, as JSON; nothing where it refuses.
inline std::optional<Reply> ask(Words words) {
  words.emplace_back("--json");
  char* text = nullptr;
  std::size_t size = 0;
  cli::Console console;
  console.out = open_memstream(&text, &size);
  std::FILE* const nowhere = std::fopen("/dev/null", "w");
  console.err = nowhere;
  Reply reply;
  reply.code = cli::run_program(words, console);
  std::fclose(console.out);
  std::fclose(nowhere);
  const std::string printed(text, size);
  std::free(text);
  if (reply.code > 1) return std::nullopt;
  auto json = document::parse_json(printed);
  EXPECT_TRUE(json) << printed.substr(0, 400);
  if (!json) return std::nullopt;
  reply.json = *std::move(json);
  return reply;
}

inline std::string command(const Words& words) { return "plimsoll " + join(words, " "); }

// Settings of an answer as flags, instead of flags of the same names.
inline void add_flags(const document::Node& settings, Words& words) {
  for (const auto& [key, value] : settings.members) {
    const std::string name = key.find('.') == std::string::npos ? replace(key, '_', '-') : key;
    for (std::size_t i = 0; i + 1 < words.size(); ++i)
      if (words[i] == "--" + name) {
        words.erase(words.begin() + static_cast<std::ptrdiff_t>(i), words.begin() + static_cast<std::ptrdiff_t>(i) + 2);
        break;
      }
    words.push_back("--" + name + "=" + value.text);
  }
}

inline const document::Node& worst_of(const document::Node& fit) {
  const std::int64_t rank = fit.find("worst_rank")->integer;
  for (const document::Node& one : fit.find("ranks")->items)
    if (one.find("pp_rank")->integer == rank) return one;
  return fit.find("ranks")->items.front();
}

inline double rate_of(const document::Node& fit) {
  return fit.find("time")->find("tokens_per_second_per_gpu")->as_real();
}

// How many random questions: many with ./test --long.
inline int questions(int few, int many) { return std::getenv("PLIMSOLL_LONG") != nullptr ? many : few; }

}  // namespace plimsoll::testing

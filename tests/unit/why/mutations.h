// SPDX-License-Identifier: Apache-2.0
// Ways in which the same failure is told otherwise: other words, another order, another program around it, a figure
// less. What a log says stays the same, or less of it.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "why/support.h"

namespace plimsoll::why {

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

inline const std::vector<std::pair<std::string, std::string>>& other_words() {
  static const std::vector<std::pair<std::string, std::string>> kWords = {
      {"CUDA out of memory. Tried to allocate", "GPU memory exhausted: could not allocate"},
      {"CUDA out of memory", "insufficient GPU memory"},
      {"HIP out of memory", "not enough memory on the HIP device"},
      {"out of memory", "memory exhausted"},
      {"No space left on device", "cannot write: the disk is full"},
      {"Too many open files", "no more file descriptors"},
      {"Cannot allocate memory", "memory allocation refused"},
      {"Killed process", "terminated process"},
      {"DefaultCPUAllocator: can't allocate memory", "host memory exhausted"},
      {"torch.OutOfMemoryError", "acme.runtime.MemoryFault"},
      {"torch.cuda.OutOfMemoryError", "RuntimeError"}};
  return kWords;
}

inline std::string in_other_words(const std::string& text) {
  std::string told = text;
  for (const auto& [from, to] : other_words()) told = replaced(told, from, to);
  return told;
}

inline std::string with_prefix(const std::string& text, const std::string& prefix) {
  std::string wrapped;
  for (const std::string& line : lines_of(text)) wrapped += prefix + line + "\n";
  return wrapped;
}

inline std::string as_json(const std::string& text) {
  std::string json;
  for (const std::string& line : lines_of(text)) {
    const std::string escaped = replaced(replaced(line, "\\", "\\\\"), "\"", "\\\"");
    json += R"({"ts":"2026-01-02T03:04:05Z","stream":"stderr","log":")" + escaped + "\\n\"}\n";
  }
  return json;
}

// Where the figures of a log stand, the last 24 of them.
inline std::vector<std::pair<std::size_t, std::size_t>> figures_of(const std::string& text) {
  static const std::regex kFigure(R"([0-9][0-9.,]* ?(GiB|MiB|KiB|GB|MB|kB|bytes|G|B)\b)");
  std::vector<std::pair<std::size_t, std::size_t>> found;
  for (std::sregex_iterator it(text.begin(), text.end(), kFigure), end; it != end; ++it)
    found.emplace_back(it->position(), it->length());
  if (found.size() > 24) found.erase(found.begin(), found.end() - 24);
  return found;
}

// Who wrote a line, as its prefix says: "[rank3]", "[default3]", "3: ", "(Worker pid=7)".
inline std::string writer_of(const std::string& line) {
  static const std::regex kWriter(R"(^(\[(rank|default)[0-9]+\]|[0-9]+: |\([A-Za-z_]+ pid=[0-9]+\)))");
  std::smatch match;
  return std::regex_search(line, match, kWriter) ? match[1].str() : std::string{};
}

// Each writer's lines keep their order; whose come first is drawn.
inline std::string ranks_apart(const std::string& text, std::mt19937& random) {
  std::map<std::string, std::vector<std::string>> by_writer;
  for (const std::string& line : lines_of(text)) by_writer[writer_of(line)].push_back(line);
  std::vector<std::string> order;
  for (const auto& [writer, lines] : by_writer) order.push_back(writer);
  std::shuffle(order.begin(), order.end(), random);
  std::string apart;
  for (const std::string& writer : order) apart += joined(by_writer[writer]);
  return apart;
}

// A traceback with its message is one block, every other line another. What a buffered stream does: one block comes
// a few blocks earlier or later than it was written.
inline std::vector<std::string> blocks_of(const std::string& text) {
  std::vector<std::string> blocks;
  bool open = false;
  for (const std::string& line : lines_of(text)) {
    const bool begins = line.find("Traceback (most recent") != std::string::npos;
    const bool inner = open && (line.empty() || line.front() == ' ' || line.front() == '\t' ||
                                line.find("  File \"") != std::string::npos || line.find("    ") != std::string::npos);
    if ((open && !begins) || inner)
      blocks.back() += line + "\n";
    else
      blocks.push_back(line + "\n");
    open = begins || inner;
  }
  return blocks;
}
inline std::string one_block_moved(const std::string& text, std::mt19937& random) {
  std::vector<std::string> blocks = blocks_of(text);
  if (blocks.size() < 2) return text;
  const std::size_t from = std::uniform_int_distribution<std::size_t>(0, blocks.size() - 1)(random);
  const std::size_t step = std::uniform_int_distribution<std::size_t>(1, 4)(random);
  const bool later = random() % 2 == 0;
  const std::size_t to = later ? std::min(blocks.size() - 1, from + step) : from - std::min(from, step);
  std::string block = std::move(blocks[from]);
  blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(from));
  blocks.insert(blocks.begin() + static_cast<std::ptrdiff_t>(to), std::move(block));
  std::string moved;
  for (const std::string& one : blocks) moved += one;
  return moved;
}

// Between the lines those of a healthy rank, which say nothing about the failure.
inline std::string with_a_healthy_rank(const std::string& text) {
  std::string mixed;
  int step = 0;
  for (const std::string& line : lines_of(text)) {
    mixed += line + "\n";
    if (++step % 3 == 0)
      mixed += "[rank63]: NCCL INFO Channel " + std::to_string(step) + "/0 : 63[7] -> 0[0] via P2P\n";
  }
  return mixed;
}

}  // namespace plimsoll::why

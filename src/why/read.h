// SPDX-License-Identifier: Apache-2.0
// Streams logs through the collector: files, folders, standard input; plain, gzip, UTF-16; any size in
// bounded memory. The beginning of a log is read line by line, until nothing but known lines comes. After that only
// lines with a literal of a recogniser are read, their surroundings, and a sample of the rest for steps and memory
// figures.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "why/collector.h"

namespace plimsoll::why {

struct ReadLimits {
  std::size_t dense_bytes = 12U << 20;    // per file, read line by line
  std::size_t sample_bytes = 12U << 10;   // of every block after that
  std::size_t window_bytes = 48U << 10;   // read before and after a line that says something failed
  std::size_t windows_bytes = 96U << 20;  // of all such surroundings of a file
};

// What is in memory already, as a file of this name. For tests and for text that is not a file.
void read_text(std::string_view name, std::string_view text, Collector& collector, const ReadLimits& limits = {});

// One file, "-" for standard input. Binary files are bad input. `progress` is told the bytes read so far.
[[nodiscard]] Status read_log(const std::string& path, Collector& collector, const ReadLimits& limits = {},
                              const std::function<void(std::int64_t)>& progress = {});

// The files behind the operands: a folder stands for the logs in it, at any depth, in the order of their names.
[[nodiscard]] Result<std::vector<std::string>> log_files(const std::vector<std::string>& operands);

}  // namespace plimsoll::why

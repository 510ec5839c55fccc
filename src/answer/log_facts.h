// SPDX-License-Identifier: Apache-2.0
// What one log of many says by itself, in few figures: for folders whose logs are read in parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "why/read.h"

namespace plimsoll::answer {

struct LogFacts {
  std::optional<std::int64_t> rank;  // as the name of the file or its lines number it
  std::string cause;                 // of a failure, as `why` names it; "" where the log shows none
  std::string phase;                 // in which it failed; "" where it does not say
  bool is_echo = false;              // it failed because another rank was lost
  bool ran_out = false;              // of the device's memory
  std::int64_t requested = 0;        // bytes, when it ran out
  std::int64_t allocated = 0;        // bytes of tensors, the most that a line shows; 0 where none does
  std::int64_t reserved = 0;
  std::int64_t steps = 0;  // the last that was done
};

// Thousands of ranks say the same for most of their logs: the more files there are, the less of each is read line by
// line. Lines that a recogniser knows are read everywhere.
[[nodiscard]] why::ReadLimits limits_for(std::size_t files);

// `files`: logs of the whole folder, so that a part reads as much of each as one reader of all would.
[[nodiscard]] Result<LogFacts> read_log_facts(const std::string& path, std::size_t files);

// Whether the message of an error says no more than that another rank was lost.
[[nodiscard]] bool echoes_another_rank(const std::string& message);

}  // namespace plimsoll::answer

// SPDX-License-Identifier: Apache-2.0
// A framework as logs show it: its marks, and what its users write. One value per row of framework/list.h, defined in
// the framework's folder.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "framework/list.h"

namespace plimsoll::why {

enum class Framework : std::uint8_t {
  kUnknown,
#define PLIMSOLL_ROW(id, name) id,
  PLIMSOLL_SPEAKERS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
      kPyTorch,  // a script of its own
};

struct RungLine {
  std::string_view rung;
  std::string_view line;  // "": the rung does not exist there
};

struct Speaker {
  std::string_view name;                    // as answers name it
  std::span<const std::string_view> marks;  // of lines and paths that only it prints
  std::span<const RungLine> lines;          // those of its own; the others have one for any framework
  int precedence = 0;                       // a stack names its parts too: the outermost, of highest precedence, counts
  bool serves = false;                      // it answers requests and trains nothing
  bool is_megatron = false;                 // Megatron-Core's parallelism
  bool is_compiled_whole = false;           // programs are compiled and sharded as one (XLA)
};

#define PLIMSOLL_ROW(id, name) extern const Speaker name##_speaker;
PLIMSOLL_SPEAKERS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW

// nullptr for a log that names none.
[[nodiscard]] const Speaker* speaker_of(Framework framework);
// The first whose mark the text has; kUnknown where it has none.
[[nodiscard]] Framework framework_marked_in(std::string_view text);
[[nodiscard]] std::span<const Framework> all_speakers();

[[nodiscard]] std::string_view framework_name(Framework framework);

}  // namespace plimsoll::why

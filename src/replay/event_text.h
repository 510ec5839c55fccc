// SPDX-License-Identifier: Apache-2.0
// Events and stacks as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "snapshot/snapshot.h"

namespace plimsoll::replay {

// "alloc of 4096 bytes at 0x7f0000000200, stream 0".
[[nodiscard]] std::string event_text(const snapshot::Snapshot& snapshot, std::uint32_t event);

// "model.py:42 forward": the file without its folders.
[[nodiscard]] std::string frame_text(const snapshot::Snapshot& snapshot, std::uint32_t frame);

// Who allocated: the innermost frame outside PyTorch and Python's library, and the innermost of all where that is
// another: "model.py:42 forward, in linear.py:134 forward". "" for an absent or empty stack.
[[nodiscard]] std::string stack_line(const snapshot::Snapshot& snapshot, std::uint32_t stack);

// All frames, innermost first, joined by " < ", at most `most` of them.
[[nodiscard]] std::string stack_text(const snapshot::Snapshot& snapshot, std::uint32_t stack, std::size_t most);

// Whether a frame's file belongs to PyTorch itself, or to Python's library.
[[nodiscard]] bool is_library_file(std::string_view file);

}  // namespace plimsoll::replay

// SPDX-License-Identifier: Apache-2.0
// The words by which a sentence says whose memory, space or limit it speaks of.
#pragma once

#include <string_view>

namespace plimsoll::why {

[[nodiscard]] bool names_device(std::string_view text);
[[nodiscard]] bool names_host(std::string_view text);
[[nodiscard]] bool names_pinned(std::string_view text);
[[nodiscard]] bool names_shared(std::string_view text);
[[nodiscard]] bool names_budget(std::string_view text);  // a serving engine's cache
[[nodiscard]] bool names_object_store(std::string_view text);
[[nodiscard]] bool names_disk(std::string_view text);
[[nodiscard]] bool names_files(std::string_view text);
// The largest single block, though memory is there: "larger than 4GB", "maximum buffer size", "Invalid buffer size".
[[nodiscard]] bool names_block_limit(std::string_view text);
// An option of a serving engine that a message advises to change: what ran out is a pool of the engine's own.
[[nodiscard]] bool names_engine_option(std::string_view text);

}  // namespace plimsoll::why

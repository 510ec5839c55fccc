// SPDX-License-Identifier: Apache-2.0
// What a buffer was for that could not be had, in the words of runtimes that print no frames.
#pragma once

#include <optional>
#include <string_view>

#include "why/phase.h"

namespace plimsoll::why {

// kForward: what is computed; kKvInit: a cache; kLoad: weights. nullopt where the text does not say.
[[nodiscard]] std::optional<Phase> phase_of_purpose(std::string_view text);

// "llama_kv_cache_init: failed to ...": the message without the name of the function that prints it.
[[nodiscard]] std::string_view without_function(std::string_view text);

}  // namespace plimsoll::why

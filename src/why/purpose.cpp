// SPDX-License-Identifier: Apache-2.0
#include "why/purpose.h"

#include <algorithm>

#include "why/words.h"

namespace plimsoll::why {

std::string_view without_function(std::string_view text) {
  const std::size_t colon = text.find(": ");
  if (colon == kNone || colon == 0) return text;
  const std::string_view name = text.substr(0, colon);
  const bool is_name = std::all_of(name.begin(), name.end(), [](char c) { return is_word(c) || c == ':'; });
  return is_name && name.find('_') != kNone ? text.substr(colon + 2) : text;
}

std::optional<Phase> phase_of_purpose(std::string_view text) {
  const std::string_view body = without_function(text);
  if (has_any(body, {"kv cache", "kv_cache", "kv buffer", "kv-cache", "key-value cache"})) return Phase::kKvInit;
  if (has_any(body, {"compute buffer", "compute pp buffer", "compute tg buffer", "activation buffer", "graph buffer"}))
    return Phase::kForward;
  if (has_any(body, {"model buffer", "weights buffer", "loading model", "load model", "model tensors"}))
    return Phase::kLoad;
  // The operator that a runtime was executing: some only give a tensor its values.
  const bool sets = has_any(body, {"operator set_value", "operator assign", "operator load", "operator fill",
                                   "operator uniform_random", "operator gaussian_random"});
  if (sets && has_text(body, "raises a")) return Phase::kLoad;
  if ((has_text(body, "while running") && has_whole(body, "node")) || has_text(body, "execute op") ||
      (has_any(body, {"raises an exception", "raises an "}) && has_any(body, {"operator", "badalloc"})))
    return Phase::kForward;
  return std::nullopt;
}

}  // namespace plimsoll::why

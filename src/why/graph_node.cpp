// SPDX-License-Identifier: Apache-2.0
#include "why/graph_node.h"

#include "why/words.h"

namespace plimsoll::why {

namespace {

std::string_view node_name(std::string_view text) {
  constexpr std::string_view kBraces = "{{node ";
  constexpr std::string_view kOld = "[[node: ";
  if (const std::size_t at = find_word(text, kBraces); at != kNone) {
    const std::string_view rest = text.substr(at + kBraces.size());
    return rest.substr(0, rest.find("}}"));
  }
  if (const std::size_t at = find_word(text, kOld); at != kNone) {
    const std::string_view rest = text.substr(at + kOld.size());
    return rest.substr(0, rest.find(" = "));
  }
  return {};
}

}  // namespace

std::optional<Phase> phase_of_graph_node(std::string_view text) {
  const std::string_view name = node_name(text);
  if (name.empty()) return std::nullopt;
  // The gradients lie below the optimizer that asked for them: they are looked for first.
  if (has_any(name, {"gradient", "_grad"})) return Phase::kBackward;
  if (has_any(name, {"restorev2", "save/restore"})) return Phase::kResume;
  if (has_any(name, {"savev2", "mergev2"})) return Phase::kSave;
  if (has_any(name, {"/adam", "adam/", "adagrad", "rmsprop", "momentum", "adadelta", "ftrl", "optimizer/"}))
    return Phase::kOptimizerStep;
  if (has_any(name, {"initializer", "random_uniform", "truncated_normal", "/assign"})) return Phase::kLoad;
  return Phase::kForward;
}

}  // namespace plimsoll::why

// SPDX-License-Identifier: Apache-2.0
#include "why/signal.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

bool matches(std::string_view message, const std::vector<std::string>& pieces) {
  std::size_t at = 0;
  for (const std::string& piece : pieces) {
    if (piece.empty()) continue;
    at = find_word(message, piece, at);
    if (at == kNone) return false;
    at += piece.size();
  }
  return true;
}

std::size_t letters(const std::vector<std::string>& pieces) {
  std::size_t sum = 0;
  for (const std::string& piece : pieces) sum += piece.size();
  return sum;
}

}  // namespace

const ConfigRule* find_config_rule(std::string_view message, std::span<const ConfigRule> rules) {
  const ConfigRule* best = nullptr;
  for (const ConfigRule& rule : rules)
    if ((best == nullptr || letters(rule.pieces) > letters(best->pieces)) && matches(message, rule.pieces))
      best = &rule;
  return best;
}

}  // namespace plimsoll::why

// SPDX-License-Identifier: Apache-2.0
#include "answer/log_rules.h"

#include <vector>

#include "base/text.h"
#include "rules/rules.h"

namespace plimsoll::answer {

namespace {

std::vector<why::ConfigRule> texts_of(const rules::RuleSet& set) {
  std::vector<why::ConfigRule> texts;
  for (const rules::Rule& rule : set.rules()) {
    if (rule.vague) continue;
    for (const rules::Message& message : rule.printed) {
      why::ConfigRule text{rule.id, {}, rule.fix};
      for (const std::string& literal : message.literals) text.pieces.emplace_back(lower(trim(literal)));
      texts.push_back(std::move(text));
    }
  }
  return texts;
}

}  // namespace

std::span<const why::ConfigRule> catalogue_texts() {
  static const std::vector<why::ConfigRule> kTexts = texts_of(rules::catalogue());
  return kTexts;
}

}  // namespace plimsoll::answer

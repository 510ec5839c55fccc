// SPDX-License-Identifier: Apache-2.0
#include "cli/rl_observe.h"

#include <fmt/format.h>

#include "cli/table.h"

namespace plimsoll::cli {

namespace {

using rl::Advice;
using rl::Evidence;
using rl::Finding;
using rl::Observation;
using rl::Verdict;

std::string headline(const Observation& observation, bool colour) {
  switch (observation.verdict) {
    case Verdict::kBottleneck:
      return paint(rl::text_of(observation.findings.front().bottleneck), Style::kBad, colour);
    case Verdict::kBalanced:
      return paint("balanced", Style::kGood, colour) + ": neither side waits for more than a tenth of a step";
    case Verdict::kUnknown:
      return paint("unknown", Style::kWarning, colour) + ": these files do not show what bounds the run";
  }
  return {};
}

// Words on lines of the console's width, the first behind `first`, the others under it.
std::string paragraph(std::string_view first, std::string_view text, int width) {
  constexpr std::size_t kNarrowest = 40;
  const std::size_t room = width > 0 ? static_cast<std::size_t>(width) : 0;
  if (room == 0) return fmt::format("{}{}\n", first, text);
  std::string result;
  const std::size_t left = room > first.size() + kNarrowest ? room - first.size() : kNarrowest;
  std::string indent{first};
  for (const std::string& line : wrap(text, left)) {
    result += indent + line + "\n";
    indent.assign(first.size(), ' ');
  }
  return result;
}

std::string where(const Evidence& evidence) {
  return evidence.line > 0 ? fmt::format("{}:{}", evidence.file, evidence.line) : evidence.file;
}

std::string finding_text(const Finding& finding, const Console& console) {
  std::string text;
  for (const Evidence& evidence : finding.evidence)
    text += paragraph("  ", fmt::format("{}: {}", where(evidence), evidence.text), console.width);
  int number = 1;
  for (const Advice& advice : finding.advice) {
    const std::string head =
        advice.knob.empty() ? advice.why : fmt::format("{}: {}; {}", advice.knob, advice.change, advice.why);
    text += paragraph(fmt::format("  {}. ", number++), head, console.width);
    if (!advice.amount.empty()) text += paragraph("     in this run ", advice.amount, console.width);
  }
  for (const std::string& note : finding.notes) text += paragraph("  note: ", note, console.width);
  return text;
}

}  // namespace

std::string observation_text(const Observation& observation, const Console& console) {
  std::string text = headline(observation, console.colour_out);
  if (observation.framework) text += fmt::format(" ({})", rl::name_of(*observation.framework));
  text += "\n";
  bool is_first = true;
  for (const Finding& finding : observation.findings) {
    if (!is_first) text += fmt::format("\nalso {}\n", rl::text_of(finding.bottleneck));
    is_first = false;
    text += finding_text(finding, console);
  }
  if (!observation.seen.empty()) text += "\nmeasured\n";
  for (const Evidence& evidence : observation.seen)
    text += paragraph("  ", fmt::format("{} ({})", evidence.text, where(evidence)), console.width);
  if (!observation.missing.empty()) text += "\nnot in these files\n";
  for (const std::string& missing : observation.missing) text += paragraph("  ", missing, console.width);
  return text;
}

}  // namespace plimsoll::cli

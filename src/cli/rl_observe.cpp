// SPDX-License-Identifier: Apache-2.0
#include "cli/rl_observe.h"

#include <fmt/format.h>

#include "cli/json_writer.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

using rl::Advice;
using rl::Evidence;
using rl::Finding;
using rl::Observation;
using rl::Verdict;

std::string_view id_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBottleneck:
      return "bottleneck";
    case Verdict::kBalanced:
      return "balanced";
    case Verdict::kUnknown:
      return "unknown";
  }
  return {};
}

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

void write_evidence(JsonWriter& json, std::string_view name, const std::vector<Evidence>& all) {
  json.key(name).begin_array();
  for (const Evidence& evidence : all) {
    json.begin_object(Layout::kInline)
        .member("text", evidence.text)
        .member("file", evidence.file)
        .member("line", evidence.line)
        .member("value", evidence.value)
        .member("threshold", evidence.threshold)
        .end_object();
  }
  json.end_array();
}

void write_texts(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name).begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

void write_finding(JsonWriter& json, const Finding& finding) {
  json.begin_object()
      .member("bottleneck", rl::id_of(finding.bottleneck))
      .member("text", rl::text_of(finding.bottleneck));
  write_evidence(json, "evidence", finding.evidence);
  json.key("advice").begin_array();
  for (const Advice& advice : finding.advice)
    json.begin_object(Layout::kInline)
        .member("knob", advice.knob)
        .member("change", advice.change)
        .member("why", advice.why)
        .member("amount", advice.amount)
        .end_object();
  json.end_array();
  write_texts(json, "notes", finding.notes);
  json.end_object();
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

std::string observation_json(const Observation& observation) {
  JsonWriter json;
  json.begin_object().member("schema", 1).member("verdict", id_of(observation.verdict));
  json.key("framework");
  if (observation.framework)
    json.value(rl::name_of(*observation.framework));
  else
    json.value(nullptr);
  json.key("findings").begin_array();
  for (const Finding& finding : observation.findings) write_finding(json, finding);
  json.end_array();
  write_evidence(json, "measured", observation.seen);
  write_texts(json, "missing", observation.missing);
  write_texts(json, "warnings", observation.warnings);
  json.member("lines", observation.lines).member("understood", observation.understood).end_object();
  return json.take();
}

int observation_exit_code(const Observation& observation) { return observation.verdict == Verdict::kUnknown ? 1 : 0; }

}  // namespace plimsoll::cli

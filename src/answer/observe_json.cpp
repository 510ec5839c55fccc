// SPDX-License-Identifier: Apache-2.0
#include "answer/json.h"
#include "answer/rl.h"

namespace plimsoll::answer {

using rl::Advice;
using rl::Evidence;
using rl::Finding;
using rl::Observation;
using rl::Verdict;

namespace {

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

std::string to_json(const Observation& observation) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("verdict", id_of(observation.verdict));
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

}  // namespace plimsoll::answer

// SPDX-License-Identifier: Apache-2.0
#include "answer/describe.h"

namespace plimsoll::answer {

bool is_launch_bound(const timing::StepTime& time) {
  constexpr double kShare = 0.25;
  return time.parts.host > kShare * time.seconds;
}

void describe(JsonWriter& json, const timing::StepTime& time) {
  json.key("time")
      .begin_object()
      .member("step_seconds", time.seconds)
      .member("tokens_per_second_per_gpu", time.tokens_per_second_per_gpu)
      .member("tflops_per_gpu", time.tflops_per_gpu)
      .member("mfu", time.mfu)
      .member("model_flops_per_token", time.flops_per_token);
  json.key("interval")
      .begin_object(Layout::kInline)
      .member("low_seconds", time.low)
      .member("high_seconds", time.high)
      .end_object();
  json.key("parts").begin_object();
  for (const timing::NamedPart& part : timing::named_parts()) json.member(part.key, time.parts.*part.field);
  json.end_object();
  json.key("rank_compute_seconds").begin_array(Layout::kInline);
  for (const double seconds : time.rank_seconds) json.value(seconds);
  json.end_array().end_object();
}

void describe_fix(JsonWriter& json, const rules::Rule& rule) {
  json.member("fix", rule.fix);
  if (rule.fix_key.empty()) return;
  json.key("set").begin_object(Layout::kInline).member(rule.fix_key, rule.fix_value).end_object();
}

void describe(JsonWriter& json, const std::vector<rules::Violation>& violations) {
  json.key("violations").begin_array();
  for (const rules::Violation& violation : violations) {
    const rules::Rule& rule = *violation.rule;
    json.begin_object()
        .member("id", rule.id)
        .member("severity", rules::name_of(rule.severity))
        .member("wrong", violation.wrong);
    write_texts(json, "prints", violation.prints, Layout::kInline);
    describe_fix(json, rule);
    if (!rule.versions.empty()) json.member("versions", rule.versions);
    if (!rule.source.empty()) json.member("source", rule.source);
    json.end_object();
  }
  json.end_array();
}

void describe(JsonWriter& json, const std::vector<memory::Row>& table) {
  json.key("table").begin_array();
  for (const memory::Row& row : table)
    json.begin_object(Layout::kInline)
        .member("name", row.name)
        .member("bytes", row.bytes)
        .member("estimated", row.estimated)
        .end_object();
  json.end_array();
}

}  // namespace plimsoll::answer

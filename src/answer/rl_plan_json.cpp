// SPDX-License-Identifier: Apache-2.0
#include "answer/json.h"
#include "answer/rl.h"

namespace plimsoll::answer {

std::string to_json(const rl::Plan& plan) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("ideal_inference_share", plan.ideal_inference_share);
  json.key("plans").begin_array();
  for (const rl::Proposal& proposal : plan.best) {
    const rl::Run& run = proposal.run;
    const rl::Evaluation& answer = proposal.evaluation;
    json.begin_object();
    write_settings(json, proposal.settings, Layout::kInline);
    json.member("trainer_gpus", run.trainer_gpus)
        .member("inference_gpus", run.inference_gpus)
        .member("servers", run.servers())
        .member("tokens_per_second", answer.tokens_per_second())
        .member("period_seconds", answer.period())
        .member("closed_form_tokens_per_second", answer.balance.tokens_per_second)
        .member("trainer_peak_bytes", answer.memory.peak())
        .member("kv_bytes", answer.server.kv_bytes)
        .member("mean_staleness", answer.simulation.mean_staleness)
        .member("bound_by", rl::text_of(answer.limit))
        .end_object();
  }
  json.end_array();
  json.key("counts")
      .begin_object(Layout::kInline)
      .member("considered", plan.counts.considered)
      .member("refused", plan.counts.refused)
      .member("trainer_too_large", plan.counts.trainer_too_large)
      .member("server_too_large", plan.counts.server_too_large)
      .member("simulated", plan.counts.simulated)
      .end_object();
  return json.end_object().take();
}

std::string to_json(const std::vector<rl::Priced>& knobs) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema);
  json.key("knobs").begin_array();
  for (const rl::Priced& one : knobs) {
    json.begin_object(Layout::kInline).member("group", one.knob.group).member("says", one.knob.says);
    json.key("was").begin_array(Layout::kInline);
    for (const std::string& was : one.was) json.value(was);
    json.end_array();
    write_settings(json, one.knob.settings, Layout::kInline);
    if (!one.refused.empty()) {
      json.member("refused", one.refused).end_object();
      continue;
    }
    json.member("fits", one.fits)
        .member("trainer_bytes", one.trainer_bytes)
        .member("step_bytes", one.step_bytes)
        .member("kv_bytes", one.kv_bytes)
        .member("requests", one.requests)
        .member("train_seconds", one.train_seconds)
        .member("period_seconds", one.period)
        .member("tokens_per_second_share", one.tokens_per_second)
        .member("staleness", one.staleness)
        .end_object();
  }
  json.end_array();
  return json.end_object().take();
}

}  // namespace plimsoll::answer

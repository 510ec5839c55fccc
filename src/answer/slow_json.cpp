// SPDX-License-Identifier: Apache-2.0
#include "answer/json.h"
#include "answer/slow.h"

namespace plimsoll::answer {

namespace {

void write_run(JsonWriter& json, const char* name, const MeasuredRun& run) {
  json.key(name)
      .begin_object()
      .member("file", run.pace.file)
      .member("format", run.pace.format)
      .member("points", run.pace.points.size())
      .member_if("mfu", run.pace.mfu);
  if (run.tempo) {
    const why::Tempo& tempo = *run.tempo;
    if (!run.is_relative)
      json.member("step_seconds", tempo.steady)
          .member("low_seconds", tempo.low)
          .member("high_seconds", tempo.high)
          .member("warm_up_seconds", tempo.warm_up);
    json.member("warm_up_steps", tempo.warm_up_steps)
        .member("spikes", tempo.spikes)
        .member("spikes_share", tempo.lost_to_spikes)
        .member_if("spikes_period", tempo.period)
        .member("drift_share_per_hundred_steps", tempo.drift);
    if (tempo.change) {
      json.key("change")
          .begin_object(Layout::kInline)
          .member("step", tempo.change->step)
          .member("line", tempo.change->line);
      json.member("ratio", tempo.change->after / tempo.change->before).end_object();
    }
  }
  json.key("timers").begin_array();
  for (const why::PaceTimer& timer : run.pace.timers)
    json.begin_object(Layout::kInline)
        .member("name", timer.name)
        .member("seconds", timer.median_most())
        .member("spread_seconds", timer.median_spread())
        .end_object();
  json.end_array();
  if (!run.pace.damage.empty()) json.member("damage", run.pace.damage);
  json.end_object();
}

}  // namespace

std::string to_json(const Slow& slow) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("slow", slow.is_slow());
  write_run(json, "run", slow.run);
  if (slow.before) write_run(json, "before", *slow.before);
  if (slow.fit) {
    json.key("predicted")
        .begin_object()
        .member("step_seconds", slow.fit->time.seconds)
        .member("low_seconds", slow.fit->time.low)
        .member("high_seconds", slow.fit->time.high)
        .member("gap_share", slow.gap())
        .member("unexplained_seconds", slow.unexplained);
    json.key("parts").begin_object();
    for (const timing::NamedPart& part : timing::named_parts()) json.member(part.key, slow.fit->time.parts.*part.field);
    json.end_object().end_object();
  }
  json.key("suspects").begin_array();
  for (const Suspect& suspect : slow.suspects) {
    json.begin_object(Layout::kInline).member("id", suspect.id).member("says", suspect.says).member("fix", suspect.fix);
    if (suspect.seconds > 0) json.member("seconds", suspect.seconds);
    if (suspect.line > 0) json.member("line", suspect.line);
    json.end_object();
  }
  json.end_array().key("faster").begin_array();
  for (const lever::PricedChange& change : slow.faster) {
    json.begin_object(Layout::kInline).member("lever", change.change.lever).member("label", change.change.label);
    json.member("time_share", change.slower).member("device_used_bytes", change.device_used);
    write_settings(json, change.change.settings);
    json.end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::answer

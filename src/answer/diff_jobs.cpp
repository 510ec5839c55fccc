// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <tuple>

#include "answer/diff.h"
#include "answer/json.h"
#include "document/node.h"
#include "job/keys.h"

namespace plimsoll::answer {

namespace {

std::string shown(const std::optional<document::Node>& value) {
  if (!value || value->is_null()) return "none";
  return value->is_string() ? value->text : document::to_json(*value);
}

// Keys that are no plain field (lists, layouts) count as they were written.
std::string value_in_job(const job::Job& job, const std::string& key) {
  if (const auto value = job::value_of(job, key)) return shown(value);
  const auto stated = job.stated.find(key);
  return stated == job.stated.end() ? "none" : stated->second;
}

// Every key whose value differs, in the order of the keys, then environment variables.
std::vector<KnobStep::Knob> differing_knobs(const job::Job& a, const job::Job& b) {
  std::vector<KnobStep::Knob> knobs;
  for (const std::string& key : job::key_names()) {
    const std::string before = value_in_job(a, key);
    const std::string after = value_in_job(b, key);
    if (before != after) knobs.push_back({key, before, after});
  }
  std::set<std::string> names;
  for (const job::Job* job : {&a, &b})
    for (const auto& [name, value] : job->environment) names.insert(name);
  const auto value_in = [](const job::Job& job, const std::string& name) {
    const auto found = job.environment.find(name);
    return found == job.environment.end() ? std::string{} : found->second;
  };
  for (const std::string& name : names)
    if (value_in(a, name) != value_in(b, name))
      knobs.push_back({"environment." + name, value_in(a, name), value_in(b, name)});
  return knobs;
}

}  // namespace

Result<JobDiff> compare_jobs(const job::Request& a, const job::Request& b, const lever::World& world) {
  PLIMSOLL_TRY(job_a, job::resolve(a));
  PLIMSOLL_TRY(job_b, job::resolve(b));
  JobDiff diff;
  PLIMSOLL_TRY(price_a, lever::price(job_a, world));
  PLIMSOLL_TRY(price_b, lever::price(job_b, world));
  diff.a = price_a.worst();
  diff.b = price_b.worst();
  diff.time_a = price_a.time;
  diff.time_b = price_b.time;
  std::int64_t reached = diff.a.device_used;
  timing::StepTime reached_time = diff.time_a;
  const auto set_time = [&reached_time](KnobStep& step, const timing::StepTime& time) {
    step.seconds = time.seconds;
    step.slower = lever::slower(reached_time, time).value_or(0);
    reached_time = time;
  };
  job::Request way = a;
  KnobStep waiting;  // refused alone: changed together with the next
  for (KnobStep::Knob& knob : differing_knobs(job_a, job_b)) {
    waiting.knobs.push_back(std::move(knob));
    job::Settings settings;
    for (const KnobStep::Knob& each : waiting.knobs) settings.emplace_back(each.key, each.after);
    job::Request next = way.with(settings);
    const auto job = job::resolve(next);
    if (!job) continue;
    // A value that another key overrules leaves the job as it was: not a step of its own.
    if (value_in_job(*job, waiting.knobs.back().key) != waiting.knobs.back().after &&
        !waiting.knobs.back().key.starts_with("environment.")) {
      waiting.knobs.pop_back();
      continue;
    }
    const auto price = lever::price(*job, world);
    if (!price) continue;
    waiting.device_used = price->worst().device_used;
    waiting.difference = waiting.device_used - reached;
    reached = waiting.device_used;
    set_time(waiting, price->time);
    way = std::move(next);
    diff.steps.push_back(std::exchange(waiting, {}));
  }
  if (!waiting.knobs.empty() || reached != diff.b.device_used) {
    waiting.device_used = diff.b.device_used;
    waiting.difference = diff.b.device_used - reached;
    set_time(waiting, diff.time_b);
    diff.steps.push_back(std::move(waiting));
  }
  return diff;
}

std::string to_json(const JobDiff& diff, bool within_limit) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("kind", "jobs").member("within_limit", within_limit);
  for (const auto& [name, path, rank, time] :
       {std::tuple{"a", &diff.name_a, &diff.a, &diff.time_a}, std::tuple{"b", &diff.name_b, &diff.b, &diff.time_b}})
    json.key(name)
        .begin_object(Layout::kInline)
        .member("file", *path)
        .member("device_used", rank->device_used)
        .member("peak_reserved", rank->peak_reserved)
        .member("peak_allocated", rank->peak_allocated)
        .member("headroom", rank->headroom)
        .member("fits", rank->fits)
        .member("step_seconds", time->seconds)
        .member("tokens_per_second_per_gpu", time->tokens_per_second_per_gpu)
        .end_object();
  json.member("difference", diff.b.device_used - diff.a.device_used).member("time_share", diff.slower());
  json.key("steps").begin_array();
  for (const KnobStep& step : diff.steps) {
    json.begin_object().key("knobs").begin_array();
    for (const KnobStep::Knob& knob : step.knobs)
      json.begin_object(Layout::kInline)
          .member("key", knob.key)
          .member("before", knob.before)
          .member("after", knob.after)
          .end_object();
    json.end_array().member("difference", step.difference).member("device_used", step.device_used);
    json.member("time_share", step.slower).member("step_seconds", step.seconds).end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::answer

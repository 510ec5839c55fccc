// SPDX-License-Identifier: Apache-2.0
// Plans and ladders as JSON, and the words that their reports share.
#include <fmt/format.h>

#include "answer/json.h"
#include "answer/plan.h"
#include "base/bytes.h"
#include "base/text.h"

namespace plimsoll::answer {

namespace {

const plan::Variant& activations_of(const plan::Plan& plan, const plan::Candidate& c) {
  return plan.space.activations[static_cast<std::size_t>(c.activations)];
}
const plan::Variant& state_of(const plan::Plan& plan, const plan::Candidate& c) {
  return plan.space.states[static_cast<std::size_t>(c.state)];
}

}  // namespace

bool is_near_tie(const plan::Plan& plan, const plan::Found& other) {
  return plan.objective == plan::Objective::kTime && other.time.seconds <= plan.best.front().time.seconds * (1 + kTie);
}

std::string question_line(const job::Job& job) {
  const std::string precision = job.precision.fp4 ? "nvfp4"
                                : job.precision.fp8 != job::Fp8Recipe::kNone
                                    ? fmt::format("fp8 {}", job::name_of(job.precision.fp8))
                                    : std::string(job::name_of(job.precision.compute));
  return fmt::format("{}, {}, {}, {} x {}, {} sequences of {} tokens a step", job.model.name,
                     job::name_of(job.framework), precision, with_commas(job.cluster.gpus), job.cluster.gpu.id,
                     with_commas(job.batch.global_batch.value_or(0)), with_commas(job.batch.seq_length));
}

std::string shown(const plan::Plan& plan, const plan::Candidate& c) {
  std::vector<std::string> parts;
  const auto add = [&parts](std::string part) {
    if (!part.empty()) parts.push_back(std::move(part));
  };
  const bool splits_model = plan.space.tensor.size() > 1 || plan.space.pipeline.size() > 1 || c.tensor * c.pipeline > 1;
  if (splits_model) add(fmt::format("TP {}, PP {}", c.tensor, c.pipeline));
  if (c.virtual_pipeline > 1) add(fmt::format("VPP {}", c.virtual_pipeline));
  if (c.layout == plan::LayoutChoice::kEndsCount) add("ends counted");
  if (c.layout == plan::LayoutChoice::kBalanced) add("balanced layout");
  if (c.layout == plan::LayoutChoice::kLossCounts) add("loss-balanced layout");
  if (c.context > 1) add(fmt::format("CP {} {}", c.context, job::name_of(c.context_messages)));
  if (c.expert > 1) add(fmt::format("EP {}, ETP {}", c.expert, c.expert_tensor));
  if (c.tensor > 1 && !c.sequence_parallel && plan.space.sequence_parallel.size() > 1) add("no SP");
  if (c.tensor_overlap && c.tensor > 1) add("TP overlap");
  if (c.expert_overlap && c.expert > 1) add("EP overlap");
  add(state_of(plan, c).label);
  add(fmt::format("micro-batch {}", c.micro_batch));
  const plan::Variant& activations = activations_of(plan, c);
  add(activations.label.starts_with("offload") ? activations.label : "recompute " + activations.label);
  return join(parts, ", ");
}

std::string shown(const plan::Plan& plan, const plan::Found& found) {
  std::string text = shown(plan, found.candidate);
  for (const std::string& label : found.levers) text += ", " + label;
  if (found.expandable) text += ", expandable segments";
  return text;
}

std::string to_json(const plan::Plan& plan) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("interrupted", plan.interrupted);
  if (!plan.best.empty()) {
    json.member("framework", std::string(job::name_of(plan.best.front().job.framework)));
    json.member("question", question_line(plan.best.front().job));
  } else if (plan.least_peak > 0) {
    json.key("nearest").begin_object();
    json.member("configuration", shown(plan, plan.nearest)).member("peak", plan.least_peak).end_object();
  }
  const plan::Counts& c = plan.counts;
  json.key("counts")
      .begin_object(Layout::kInline)
      .member("considered", c.considered)
      .member("refused", c.refused)
      .member("too_large", c.does_not_fit)
      .member("skipped", c.skipped)
      .member("slower", c.slower)
      .member("host_too_small", c.no_host)
      .member("fit", c.fits)
      .member("fragmented_out", c.walked_out)
      .end_object();
  json.key("refusals").begin_array();
  for (const plan::Refusal& refusal : plan.refusals)
    json.begin_object(Layout::kInline).member("reason", refusal.reason).member("count", refusal.count).end_object();
  json.end_array();
  json.key("assumed").begin_object();
  for (const auto& [key, value] : plan.assumed) json.member(key, value);
  json.end_object();
  const auto write_row = [&json, &plan](const plan::Found& f) {
    json.begin_object();
    json.member("configuration", shown(plan, f)).member("tie", is_near_tie(plan, f));
    json.member("surely_fits", f.worst.surely_fits());
    json.key("settings").begin_object();
    for (const auto& [key, value] : f.settings) json.member(key, value);
    json.end_object();
    json.key("warnings").begin_array();
    for (const std::string& warning : f.warnings) json.value(warning);
    json.end_array();
    json.member("device_used_low", f.worst.low).member("device_used_high", f.worst.high);
    json.member("peak_allocated", f.worst.peak_allocated)
        .member("peak_reserved", f.worst.peak_reserved)
        .member("device_used", f.worst.device_used)
        .member("headroom", f.worst.headroom)
        .member("worst_rank", f.worst.pp_rank)
        .member("step_seconds", f.time.seconds)
        .member("step_seconds_low", f.time.low)
        .member("step_seconds_high", f.time.high)
        .member("tokens_per_second_per_gpu", f.time.tokens_per_second_per_gpu)
        .member("tflops_per_gpu", f.time.tflops_per_gpu)
        .member("mfu", f.time.mfu);
    json.key("time").begin_object(Layout::kInline);
    for (const timing::NamedPart& part : timing::named_parts()) json.member(part.key, f.time.parts.*part.field);
    json.end_object().end_object();
  };
  json.key("plans").begin_array();
  for (const plan::Found& f : plan.best) write_row(f);
  json.end_array().key("tight").begin_array();
  for (const plan::Found& f : plan.tight) write_row(f);
  json.end_array();
  json.key("pareto").begin_array();
  for (const plan::Priced& p : plan.pareto)
    json.begin_object(Layout::kInline)
        .member("configuration", shown(plan, p.candidate))
        .member("peak", p.peak)
        .member("step_seconds", p.seconds)
        .end_object();
  return json.end_array().end_object().take();
}

std::string to_json(const plan::Ladder& ladder) {
  JsonWriter json;
  const auto write = [&json](const lever::PricedChange& change) {
    json.begin_object(Layout::kInline)
        .member("lever", change.change.lever)
        .member("label", change.change.label)
        .key("settings")
        .begin_object();
    for (const auto& [key, value] : change.change.settings) json.member(key, value);
    json.end_object()
        .member("saves_bytes", -change.difference)
        .member("time_share", change.slower)
        .member("device_used_bytes", change.device_used)
        .member("fits", change.fits)
        .end_object();
  };
  json.begin_object().member("schema", kSchema).member("fits_already", ladder.fits_already).member("fits", ladder.fits);
  json.member("headroom_before", ladder.before.headroom).member("headroom_after", ladder.after.headroom);
  json.member("time_share", ladder.slower).member("tried", ladder.tried).member("is_cheapest", ladder.is_cheapest);
  json.key("steps").begin_array();
  for (const plan::LadderStep& step : ladder.steps) {
    json.begin_object().key("taken");
    write(step.taken);
    json.key("passed_over").begin_array();
    for (const lever::PricedChange& other : step.passed_over) write(other);
    json.end_array().end_object();
  }
  json.end_array().key("changes_science").begin_array();
  for (const lever::PricedChange& change : ladder.science) write(change);
  json.end_array().key("settings").begin_object();
  for (const auto& [key, value] : ladder.settings) json.member(key, value);
  return json.end_object().end_object().take();
}

}  // namespace plimsoll::answer

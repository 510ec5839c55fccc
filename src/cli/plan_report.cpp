// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "cli/fit_report.h"
#include "cli/json_writer.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

std::string number(std::int64_t n) { return with_commas(n); }

const plan::Variant& activations_of(const plan::Plan& plan, const plan::Candidate& c) {
  return plan.space.activations[static_cast<std::size_t>(c.activations)];
}
const plan::Variant& state_of(const plan::Plan& plan, const plan::Candidate& c) {
  return plan.space.states[static_cast<std::size_t>(c.state)];
}

// The part of the step in which two configurations differ most.
std::string why_faster(const plan::Found& first, const plan::Found& second) {
  const timing::NamedPart* most = nullptr;
  double gain = 0;
  for (const timing::NamedPart& part : timing::named_parts()) {
    const double difference = second.time.parts.*part.field - first.time.parts.*part.field;
    if (difference > gain) {
      gain = difference;
      most = &part;
    }
  }
  if (most == nullptr) return "no part of its step is shorter";
  return fmt::format("{:.0f} ms less of {}", 1e3 * gain, most->text);
}

std::string counts_line(const plan::Counts& c) {
  const std::pair<std::size_t, const char*> parts[] = {
      {c.refused, "refused by the framework or not divisible"},
      {c.does_not_fit, "too large"},
      {c.skipped, "skipped because a smaller micro-batch was too large already"},
      {c.slower, "passed over because something faster needs less"},
      {c.no_host, "too large for the hosts"},
  };
  std::string text = fmt::format("{} configurations considered: ", number(static_cast<std::int64_t>(c.considered)));
  for (const auto& [count, what] : parts)
    if (count > 0) text += fmt::format("{} {}, ", number(static_cast<std::int64_t>(count)), what);
  return text + fmt::format("{} fit", number(static_cast<std::int64_t>(c.fits)));
}

// Which share of the interval two predictions have in common says little when both come from one model: configurations
// within two percent are called equal.
constexpr double kTie = 0.02;

bool is_near_tie(const plan::Plan& plan, const plan::Found& other) {
  return plan.objective == plan::Objective::kTime && other.time.seconds <= plan.best.front().time.seconds * (1 + kTie);
}

// Fits by the prediction, but not at the upper end of its interval.
bool is_tight(const plan::Found& f) { return !f.worst.surely_fits(); }

// "llama3-70b, megatron-bridge, bf16, 32 x h100-sxm-80gb, 32 sequences of 4,096 tokens a step"
std::string question_line(const job::Job& job) {
  const std::string precision = job.precision.fp4 ? "nvfp4"
                                : job.precision.fp8 != job::Fp8Recipe::kNone
                                    ? fmt::format("fp8 {}", job::name_of(job.precision.fp8))
                                    : std::string(job::name_of(job.precision.compute));
  return fmt::format("{}, {}, {}, {} x {}, {} sequences of {} tokens a step", job.model.name,
                     job::name_of(job.framework), precision, number(job.cluster.gpus), job.cluster.gpu.id,
                     number(job.batch.global_batch.value_or(0)), number(job.batch.seq_length));
}

std::string why_first(const plan::Plan& plan) {
  const plan::Found& first = plan.best[0];
  const plan::Found& second = plan.best[1];
  if (plan.objective == plan::Objective::kHeadroom)
    return fmt::format("{} GiB more headroom", format_gib(first.worst.headroom - second.worst.headroom));
  const double gain = second.time.seconds - first.time.seconds;
  if (gain < 1e-3) return "equal to the millisecond";
  return fmt::format("{:.0f} ms, {}", 1e3 * gain, why_faster(first, second));
}

std::string nothing_fits(const plan::Plan& plan) {
  std::string text = "nothing of the space fits\n" + counts_line(plan.counts) + "\n";
  if (plan.least_peak > 0)
    text +=
        fmt::format("nearest: {}, which needs at least {}\n", shown(plan, plan.nearest), format_bytes(plan.least_peak));
  for (std::size_t i = 0; i < std::min<std::size_t>(3, plan.refusals.size()); ++i)
    text += fmt::format("refused {} times: {}\n", number(static_cast<std::int64_t>(plan.refusals[i].count)),
                        plan.refusals[i].reason);
  return text;
}

std::string front_plot(const plan::Plan& plan) {
  if (plan.pareto.size() < 2) return {};
  constexpr std::size_t kMostPoints = 12;
  const double fastest = plan.pareto.front().seconds;
  std::string text = "\nmemory (the sum of tensors) against time, nothing is better in both\n";
  const std::size_t step = plan.pareto.size() / kMostPoints + 1;
  for (std::size_t i = 0; i < plan.pareto.size(); i += step) {
    const plan::Priced& p = plan.pareto[i];
    const auto bar = static_cast<std::size_t>(std::lround(30 * std::min(p.seconds / fastest - 1, 1.0)));
    text += fmt::format("{:>8} GiB  {:>9.3f} s  {}o {}\n", format_gib(p.peak), p.seconds, std::string(bar, ' '),
                        shown(plan, p.candidate));
  }
  return text;
}

}  // namespace

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

std::string plan_report(const plan::Plan& plan, const Console& console) {
  if (plan.best.empty()) return nothing_fits(plan);
  Table table({{"#", Align::kRight},
               {"configuration", Align::kLeft, true},
               {"device GiB", Align::kRight},
               {"headroom", Align::kRight},
               {"step s", Align::kRight},
               {"tokens/s/GPU", Align::kRight},
               {"TFLOP/s", Align::kRight},
               {"bubble %", Align::kRight},
               {"messages %", Align::kRight}});
  const plan::Found& best = plan.best.front();
  const auto add_row = [&](const std::string& number, const plan::Found& f) {
    const timing::Breakdown& p = f.time.parts;
    const double messages = p.tensor + p.context + p.expert + p.data + p.pipeline;
    table.add_row({number, shown(plan, f), format_gib(f.worst.device_used),
                   format_gib(f.worst.headroom) + (is_tight(f) ? "!" : ""), fmt::format("{:.3f}", f.time.seconds),
                   fmt::format("{:.0f}", f.time.tokens_per_second_per_gpu),
                   fmt::format("{:.0f}", f.time.tflops_per_gpu), fmt::format("{:.1f}", 100 * p.bubble / f.time.seconds),
                   fmt::format("{:.1f}", 100 * messages / f.time.seconds)});
  };
  for (std::size_t i = 0; i < plan.best.size(); ++i) {
    const bool tie = i > 0 && is_near_tie(plan, plan.best[i]);
    add_row(std::to_string(i + 1) + (tie ? "=" : ""), plan.best[i]);
  }
  if (!plan.tight.empty()) table.add_rule();
  for (const plan::Found& f : plan.tight) add_row("", f);
  std::string text = question_line(best.job) + "\n\n" + table.to_text(console.width, console.colour_out);
  text += "\n";
  if (plan.best.size() > 1) text += fmt::format("1 before 2: {}\n", why_first(plan));
  if (plan.objective == plan::Objective::kTime) {
    const auto ties = std::count_if(plan.best.begin() + 1, plan.best.end(),
                                    [&](const plan::Found& f) { return is_near_tie(plan, f); });
    if (ties > 0) text += fmt::format("= within {:.0f} % of the first: take the one with more headroom\n", 100 * kTie);
  }
  if (!plan.tight.empty())
    text += fmt::format(
        "! {} faster, but {} by less than the error of the prediction: give the keys to try {}, and keep row 1 at "
        "hand\n",
        plan.tight.size() == 1 ? "is" : "are", plan.tight.size() == 1 ? "fits" : "fit",
        plan.tight.size() == 1 ? "it" : "one");
  else if (std::any_of(plan.best.begin(), plan.best.end(), is_tight))
    text += "! fits by less than the error of the prediction, as all that fit: try it, and keep a leaner row at hand\n";
  text += fmt::format("a predicted step is good to {:.0f} %: {:.3f} to {:.3f} s for the first\n",
                      100 * (best.time.high / best.time.seconds - 1), best.time.low, best.time.high);
  text += front_plot(plan);
  text += "\n" + counts_line(plan.counts) + "\n";
  if (plan.counts.walked_out > 0)
    text += fmt::format("{} of those dropped: the allocator's fragmentation makes them too large\n",
                        plan.counts.walked_out);
  if (plan.interrupted) text += "interrupted: the best so far\n";
  return text;
}

std::string plan_explanation(const plan::Plan& plan, std::size_t row, const Console& console) {
  const plan::Found& f = plan.best[row];
  std::string text = fmt::format("{}. {}\n\n", row + 1, shown(plan, f));
  text += memory_table(f.worst, console);
  Table table({{"time of a step"}, {"ms", Align::kRight}, {"next ms", Align::kRight}});
  const plan::Found* next = row + 1 < plan.best.size() ? &plan.best[row + 1] : nullptr;
  for (const timing::NamedPart& part : timing::named_parts()) {
    if (f.time.parts.*part.field == 0 && (next == nullptr || next->time.parts.*part.field == 0)) continue;
    table.add_row({std::string(part.text), fmt::format("{:.1f}", 1e3 * (f.time.parts.*part.field)),
                   next == nullptr ? "" : fmt::format("{:.1f}", 1e3 * (next->time.parts.*part.field))});
  }
  table.add_rule();
  table.add_row({"step", fmt::format("{:.1f}", 1e3 * f.time.seconds),
                 next == nullptr ? "" : fmt::format("{:.1f}", 1e3 * next->time.seconds)});
  text += "\n" + table.to_text(console.width, console.colour_out);
  if (next != nullptr) text += fmt::format("\nbefore the next ({}): {}\n", shown(plan, *next), why_faster(f, *next));
  text += "\nas keys of a job:\n";
  for (const auto& [key, value] : f.settings) text += fmt::format("  {} = {}\n", key, value);
  return text;
}

std::string plan_comparison(const plan::Plan& plan, std::size_t a, std::size_t b, const Console& console) {
  const plan::Found& first = plan.best[a];
  const plan::Found& second = plan.best[b];
  std::string text = fmt::format("{}: {}\n{}: {}\n\n", a + 1, shown(plan, first), b + 1, shown(plan, second));
  Table table({{""},
               {std::to_string(a + 1), Align::kRight},
               {std::to_string(b + 1), Align::kRight},
               {"change", Align::kRight}});
  const auto gib = [&](const char* name, std::int64_t x, std::int64_t y) {
    table.add_row({name, format_gib(x), format_gib(y), fmt::format("{}{}", y > x ? "+" : "", format_gib(y - x))});
  };
  gib("device GiB", first.worst.device_used, second.worst.device_used);
  gib("headroom GiB", first.worst.headroom, second.worst.headroom);
  table.add_rule();
  const auto ms = [&](const std::string& name, double x, double y) {
    table.add_row(
        {name, fmt::format("{:.1f}", 1e3 * x), fmt::format("{:.1f}", 1e3 * y), fmt::format("{:+.1f}", 1e3 * (y - x))});
  };
  for (const timing::NamedPart& part : timing::named_parts())
    if (first.time.parts.*part.field != 0 || second.time.parts.*part.field != 0)
      ms(std::string(part.text) + ", ms", first.time.parts.*part.field, second.time.parts.*part.field);
  ms("step, ms", first.time.seconds, second.time.seconds);
  return text + table.to_text(console.width, console.colour_out);
}

std::string plan_json(const plan::Plan& plan) {
  JsonWriter json;
  json.begin_object().member("schema", 1).member("interrupted", plan.interrupted);
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

std::string pareto_svg(const plan::Plan& plan) {
  constexpr double kWidth = 720;
  constexpr double kHeight = 420;
  constexpr double kMargin = 60;
  double most_seconds = 0;
  double most_bytes = 0;
  for (const plan::Priced& p : plan.pareto) {
    most_seconds = std::max(most_seconds, p.seconds);
    most_bytes = std::max(most_bytes, static_cast<double>(p.peak));
  }
  std::string text = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" font-family="sans-serif" font-size="11">)"
      "\n",
      kWidth, kHeight);
  text += fmt::format(R"(<text x="{}" y="{}">step seconds</text><text x="4" y="{}">GiB</text>)"
                      "\n",
                      kWidth / 2, kHeight - 8, kMargin - 10);
  const auto x = [&](double s) { return kMargin + (kWidth - 2 * kMargin) * (most_seconds > 0 ? s / most_seconds : 0); };
  const auto y = [&](double b) {
    return kHeight - kMargin - (kHeight - 2 * kMargin) * (most_bytes > 0 ? b / most_bytes : 0);
  };
  text += fmt::format(R"(<path d="M{0} {1}V{2}H{3}" fill="none" stroke="black"/>)"
                      "\n",
                      kMargin, kMargin, kHeight - kMargin, kWidth - kMargin);
  for (const plan::Priced& p : plan.pareto)
    text += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3"><title>{}: {} GiB, {:.3f} s</title></circle>)"
                        "\n",
                        x(p.seconds), y(static_cast<double>(p.peak)), shown(plan, p.candidate), format_gib(p.peak),
                        p.seconds);
  return text + "</svg>\n";
}

}  // namespace plimsoll::cli

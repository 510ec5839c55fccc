// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "cli/fit_report.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

std::string number(std::int64_t n) { return with_commas(n); }

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

// Fits by the prediction, but not at the upper end of its interval.
bool is_tight(const plan::Found& f) { return !f.worst.surely_fits(); }

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
    text += fmt::format("nearest: {}, which needs at least {}\n", answer::shown(plan, plan.nearest),
                        format_bytes(plan.least_peak));
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
                        answer::shown(plan, p.candidate));
  }
  return text;
}

}  // namespace

std::string plan_report(const plan::Plan& plan, const Console& console) {
  if (plan.best.empty()) return nothing_fits(plan);
  // What explains a row gives way to the row itself where the terminal is narrow; --explain has it.
  constexpr int kWide = 110;
  const bool is_narrow = console.width > 0 && console.width < kWide;
  std::vector<Column> columns = {{"#", Align::kRight},          {"configuration", Align::kLeft, true},
                                 {"device GiB", Align::kRight}, {"headroom", Align::kRight},
                                 {"step s", Align::kRight},     {"tokens/s/GPU", Align::kRight},
                                 {"TFLOP/s", Align::kRight},    {"bubble %", Align::kRight},
                                 {"messages %", Align::kRight}};
  constexpr std::size_t kNarrow = 6;
  if (is_narrow) columns.erase(columns.begin() + kNarrow, columns.end());
  Table table(columns);
  const plan::Found& best = plan.best.front();
  const auto add_row = [&](const std::string& number, const plan::Found& f) {
    const timing::Breakdown& p = f.time.parts;
    const double messages = p.tensor + p.context + p.expert + p.data + p.pipeline;
    std::vector<Cell> cells = {number,
                               answer::shown(plan, f),
                               format_gib(f.worst.device_used),
                               format_gib(f.worst.headroom) + (is_tight(f) ? "!" : ""),
                               fmt::format("{:.3f}", f.time.seconds),
                               fmt::format("{:.0f}", f.time.tokens_per_second_per_gpu),
                               fmt::format("{:.0f}", f.time.tflops_per_gpu),
                               fmt::format("{:.1f}", 100 * p.bubble / f.time.seconds),
                               fmt::format("{:.1f}", 100 * messages / f.time.seconds)};
    if (is_narrow) cells.erase(cells.begin() + kNarrow, cells.end());
    table.add_row(std::move(cells));
  };
  for (std::size_t i = 0; i < plan.best.size(); ++i) {
    const bool tie = i > 0 && answer::is_near_tie(plan, plan.best[i]);
    add_row(std::to_string(i + 1) + (tie ? "=" : ""), plan.best[i]);
  }
  if (!plan.tight.empty()) table.add_rule();
  for (const plan::Found& f : plan.tight) add_row("", f);
  std::string text = answer::question_line(best.job) + "\n\n" + table.to_text(console.width, console.colour_out);
  text += "\n";
  if (plan.best.size() > 1) text += fmt::format("1 before 2: {}\n", why_first(plan));
  if (plan.objective == plan::Objective::kTime) {
    const auto ties = std::count_if(plan.best.begin() + 1, plan.best.end(),
                                    [&](const plan::Found& f) { return answer::is_near_tie(plan, f); });
    if (ties > 0)
      text += fmt::format("= within {:.0f} % of the first: take the one with more headroom\n", 100 * answer::kTie);
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
  std::string text = fmt::format("{}. {}\n\n", row + 1, answer::shown(plan, f));
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
  if (next != nullptr)
    text += fmt::format("\nbefore the next ({}): {}\n", answer::shown(plan, *next), why_faster(f, *next));
  text += "\nas keys of a job:\n";
  for (const auto& [key, value] : f.settings) text += fmt::format("  {} = {}\n", key, value);
  return text;
}

std::string plan_comparison(const plan::Plan& plan, std::size_t a, std::size_t b, const Console& console) {
  const plan::Found& first = plan.best[a];
  const plan::Found& second = plan.best[b];
  std::string text =
      fmt::format("{}: {}\n{}: {}\n\n", a + 1, answer::shown(plan, first), b + 1, answer::shown(plan, second));
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
                        x(p.seconds), y(static_cast<double>(p.peak)), answer::shown(plan, p.candidate),
                        format_gib(p.peak), p.seconds);
  return text + "</svg>\n";
}

}  // namespace plimsoll::cli

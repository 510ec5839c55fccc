// SPDX-License-Identifier: Apache-2.0
// A check as a comment of a pull request, which has a largest size.
#include <fmt/format.h>

#include "answer/check.h"
#include "base/bytes.h"
#include "base/text.h"

namespace plimsoll::answer {

namespace {

constexpr std::size_t kCommentBytes = 60'000;  // GitHub takes 65,536 characters
constexpr std::size_t kCellBytes = 600;
constexpr std::size_t kRowsOfAll = 40;  // with more jobs than that, those that hold and are as they were are counted

// Names come from files: nothing in a cell may end it, or be markup.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : printable(text, kCellBytes)) {
    if (std::string_view("|`*_[]<\\").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string change(std::int64_t before, std::int64_t after) {
  if (before == after) return format_gib(after);
  return fmt::format("{} → {} ({:+.1f} %)", format_gib(before), format_gib(after),
                     100 * static_cast<double>(after - before) / static_cast<double>(before));
}

std::string knobs_of(const KnobStep& step) {
  std::string text;
  for (const KnobStep::Knob& knob : step.knobs)
    text += fmt::format("{}{} {} → {}", text.empty() ? "" : ", ", cell(knob.key), cell(knob.before), cell(knob.after));
  return text.empty() ? "the rest, which no key says" : text;
}

bool differs(const CheckedJob& job) { return job.difference && !job.difference->steps.empty(); }
bool is_worth_a_row(const CheckedJob& job) { return !job.complaints.empty() || differs(job); }

std::string row_of(const CheckedJob& job) {
  const char* mark = job.complaints.empty() ? "✓" : "✗";
  if (!job.fit) return fmt::format("| {} | | | | {} |\n", cell(job.name), mark);
  const memory::RankAnswer& worst = job.fit->memory.ranks[job.fit->memory.worst];
  std::string seconds = fmt::format("{:.3f}", job.fit->time.seconds);
  if (job.difference && job.difference->time_a.seconds != job.fit->time.seconds)
    seconds = fmt::format("{:.3f} → {:.3f} ({:+.1f} % per token)", job.difference->time_a.seconds,
                          job.fit->time.seconds, 100 * job.difference->slower());
  return fmt::format(
      "| {} | {} | {} | {} | {} |\n", cell(job.name),
      job.difference ? change(job.difference->a.device_used, worst.device_used) : format_gib(worst.device_used),
      seconds, format_gib(worst.headroom), mark);
}

// What does not hold, and what each key that differs does.
std::string details_of(const CheckedJob& job) {
  std::string text = fmt::format("\n**{}**\n", cell(job.name));
  for (const Complaint& complaint : job.complaints)
    text += fmt::format("- {}: {}\n", complaint.id, cell(complaint.text));
  if (!differs(job)) return text;
  for (const KnobStep& step : job.difference->steps)
    text += fmt::format("- {}: {}{} GiB, {:+.1f} % time\n", knobs_of(step), step.difference > 0 ? "+" : "",
                        format_gib(step.difference, 3), 100 * step.slower);
  return text;
}

// Adds `more` while there is room, and counts what found none.
void add(std::string& text, const std::string& more, std::size_t room, std::size_t& left_out) {
  if (left_out > 0 || text.size() + more.size() > room)
    ++left_out;
  else
    text += more;
}

}  // namespace

std::string to_markdown(const Check& check) {
  std::size_t failed = 0;
  for (const CheckedJob& job : check.jobs) failed += job.complaints.empty() ? 0 : 1;
  std::string text = failed == 0 ? fmt::format("**plimsoll**: all {} jobs hold", check.jobs.size())
                                 : fmt::format("**plimsoll**: {} of {} jobs do not hold", failed, check.jobs.size());
  text += check.base.empty() ? "\n\n" : fmt::format(" (against {})\n\n", cell(check.base));
  text += "| job | device GiB | step s | free GiB | |\n| --- | --- | --- | --- | --- |\n";
  std::size_t unchanged = 0;
  std::size_t rows_left_out = 0;
  for (const CheckedJob& job : check.jobs) {
    if (check.jobs.size() > kRowsOfAll && !is_worth_a_row(job))
      ++unchanged;
    else
      add(text, row_of(job), kCommentBytes / 2, rows_left_out);
  }
  if (unchanged > 0) text += fmt::format("\n{} further jobs hold and are not listed.\n", unchanged);
  if (rows_left_out > 0) text += fmt::format("\n{} rows found no room here.\n", rows_left_out);
  std::size_t details_left_out = 0;
  for (const CheckedJob& job : check.jobs)
    if (is_worth_a_row(job)) add(text, details_of(job), kCommentBytes, details_left_out);
  if (details_left_out > 0)
    text += fmt::format("\nWhat differs in {} further jobs found no room here: plimsoll check --json has it.\n",
                        details_left_out);
  return text;
}

}  // namespace plimsoll::answer

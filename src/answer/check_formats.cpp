// SPDX-License-Identifier: Apache-2.0
// A check as JSON, as SARIF for code scanning, as JUnit for test reports, as Markdown for a comment.
#include <fmt/format.h>

#include "answer/check.h"
#include "answer/json.h"
#include "base/bytes.h"

namespace plimsoll::answer {

namespace {

const memory::RankAnswer& worst_of(const Fit& fit) { return fit.memory.ranks[fit.memory.worst]; }

std::string xml(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (byte < 0x20 && c != '\n' && c != '\t')
      result += '?';  // XML has no way to say it
    else
      result += c;
  }
  return result;
}

// Names come from files: nothing in a cell may end it, or be markup.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|' || c == '`' || c == '*' || c == '_' || c == '[' || c == ']' || c == '<' || c == '\\') result += '\\';
    result += c == '\n' || c == '\r' ? ' ' : c;
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

}  // namespace

std::string to_json(const Check& check) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("list", check.list).member("passes", check.passes());
  if (!check.base.empty()) json.member("base", check.base);
  json.key("jobs").begin_array();
  for (const CheckedJob& job : check.jobs) {
    json.begin_object().member("name", job.name).member("passes", job.complaints.empty());
    write_texts(json, "files", job.files, Layout::kInline);
    if (job.fit) {
      const memory::RankAnswer& worst = worst_of(*job.fit);
      json.member("fits", job.fit->memory.fits)
          .member("device_used_bytes", worst.device_used)
          .member("headroom_bytes", worst.headroom)
          .member("high_bytes", worst.high)
          .member("step_seconds", job.fit->time.seconds);
    }
    if (job.difference)
      json.member("base_device_used_bytes", job.difference->a.device_used)
          .member("base_step_seconds", job.difference->time_a.seconds)
          .member("time_share", job.difference->slower());
    json.key("complaints").begin_array();
    for (const Complaint& complaint : job.complaints)
      json.begin_object(Layout::kInline)
          .member("id", complaint.id)
          .member("text", complaint.text)
          .member("file", complaint.file)
          .end_object();
    json.end_array().end_object();
  }
  return json.end_array().end_object().take();
}

std::string to_sarif(const Check& check, const std::string& version) {
  JsonWriter json;
  json.begin_object()
      .member("$schema", "https://json.schemastore.org/sarif-2.1.0.json")
      .member("version", "2.1.0")
      .key("runs")
      .begin_array()
      .begin_object();
  json.key("tool").begin_object().key("driver").begin_object().member("name", "plimsoll").member("version", version);
  json.key("rules").begin_array();
  for (const ComplaintKind& kind : complaint_kinds())
    json.begin_object()
        .member("id", kind.id)
        .key("shortDescription")
        .begin_object(Layout::kInline)
        .member("text", kind.means)
        .end_object()
        .end_object();
  json.end_array().end_object().end_object();
  json.key("results").begin_array();
  for (const CheckedJob& job : check.jobs)
    for (const Complaint& complaint : job.complaints) {
      json.begin_object().member("ruleId", complaint.id).member("level", "error");
      json.key("message")
          .begin_object(Layout::kInline)
          .member("text", fmt::format("{}: {}", job.name, complaint.text))
          .end_object();
      json.key("locations").begin_array().begin_object().key("physicalLocation").begin_object();
      json.key("artifactLocation")
          .begin_object(Layout::kInline)
          .member("uri", complaint.file.empty() ? check.list : complaint.file)
          .end_object();
      json.key("region").begin_object(Layout::kInline).member("startLine", 1).end_object();
      json.end_object().end_object().end_array().end_object();
    }
  return json.end_array().end_object().end_array().end_object().take();
}

std::string to_junit(const Check& check) {
  std::size_t failed = 0;
  for (const CheckedJob& job : check.jobs) failed += job.complaints.empty() ? 0 : 1;
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  text += fmt::format("<testsuite name=\"plimsoll check\" tests=\"{}\" failures=\"{}\">\n", check.jobs.size(), failed);
  for (const CheckedJob& job : check.jobs) {
    text += fmt::format("  <testcase classname=\"{}\" name=\"{}\"", xml(check.list), xml(job.name));
    if (job.complaints.empty()) {
      text += "/>\n";
      continue;
    }
    text += ">\n";
    for (const Complaint& complaint : job.complaints)
      text += fmt::format("    <failure type=\"{}\" message=\"{}\"/>\n", xml(complaint.id), xml(complaint.text));
    text += "  </testcase>\n";
  }
  return text + "</testsuite>\n";
}

std::string to_markdown(const Check& check) {
  std::size_t failed = 0;
  for (const CheckedJob& job : check.jobs) failed += job.complaints.empty() ? 0 : 1;
  std::string text = failed == 0 ? fmt::format("**plimsoll**: all {} jobs hold", check.jobs.size())
                                 : fmt::format("**plimsoll**: {} of {} jobs do not hold", failed, check.jobs.size());
  text += check.base.empty() ? "\n\n" : fmt::format(" (against {})\n\n", cell(check.base));
  text += "| job | device GiB | step s | free GiB | |\n| --- | --- | --- | --- | --- |\n";
  for (const CheckedJob& job : check.jobs) {
    const char* mark = job.complaints.empty() ? "✓" : "✗";
    if (!job.fit) {
      text += fmt::format("| {} | | | | {} |\n", cell(job.name), mark);
      continue;
    }
    const memory::RankAnswer& worst = worst_of(*job.fit);
    std::string seconds = fmt::format("{:.3f}", job.fit->time.seconds);
    if (job.difference && job.difference->time_a.seconds != job.fit->time.seconds)
      seconds = fmt::format("{:.3f} → {:.3f} ({:+.1f} % per token)", job.difference->time_a.seconds,
                            job.fit->time.seconds, 100 * job.difference->slower());
    text += fmt::format(
        "| {} | {} | {} | {} | {} |\n", cell(job.name),
        job.difference ? change(job.difference->a.device_used, worst.device_used) : format_gib(worst.device_used),
        seconds, format_gib(worst.headroom), mark);
  }
  for (const CheckedJob& job : check.jobs) {
    const bool differs = job.difference && !job.difference->steps.empty();
    if (job.complaints.empty() && !differs) continue;
    text += fmt::format("\n**{}**\n", cell(job.name));
    for (const Complaint& complaint : job.complaints)
      text += fmt::format("- {}: {}\n", complaint.id, cell(complaint.text));
    if (!differs) continue;
    for (const KnobStep& step : job.difference->steps)
      text += fmt::format("- {}: {}{} GiB, {:+.1f} % time\n", knobs_of(step), step.difference > 0 ? "+" : "",
                          format_gib(step.difference, 3), 100 * step.slower);
  }
  return text;
}

}  // namespace plimsoll::answer

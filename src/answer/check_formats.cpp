// SPDX-License-Identifier: Apache-2.0
// A check as JSON, as SARIF for code scanning, as JUnit for test reports.
#include <filesystem>

#include <fmt/format.h>

#include "answer/check.h"
#include "answer/json.h"

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

// Where a file is, seen from the folder in which the check runs, as the reference that SARIF wants: code scanning finds
// it below the root of the repository.
std::string uri_of(const Check& check, const std::string& file) {
  namespace fs = std::filesystem;
  const fs::path list(check.list);
  std::error_code failure;
  fs::path path = (file.empty() ? list : list.parent_path() / file).lexically_normal();
  if (path.is_absolute()) {
    const fs::path here = fs::current_path(failure);
    const fs::path below = failure ? fs::path{} : path.lexically_relative(here);
    if (!below.empty() && *below.begin() != "..") path = below;
  }
  std::string uri = path.is_absolute() ? "file://" : "";
  for (const char c : path.generic_string()) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
    if (plain || std::string_view("-._~/").find(c) != std::string_view::npos)
      uri += c;
    else
      uri += fmt::format("%{:02X}", byte);
  }
  return uri;
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
          .member("uri", uri_of(check, complaint.file))
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
    // One failure for each case: readers of this format take no more. All that does not hold is its text.
    const Complaint& first = job.complaints.front();
    text += fmt::format("    <failure type=\"{}\" message=\"{}\">", xml(first.id), xml(first.text));
    for (const Complaint& complaint : job.complaints)
      text += fmt::format("{}{}: {}", &complaint == &first ? "" : "\n", xml(complaint.id), xml(complaint.text));
    text += "</failure>\n  </testcase>\n";
  }
  return text + "</testsuite>\n";
}

}  // namespace plimsoll::answer

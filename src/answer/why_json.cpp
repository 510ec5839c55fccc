// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "answer/json.h"
#include "answer/why.h"
#include "why/next_evidence.h"

namespace plimsoll::answer {

namespace {

// Three digits are all that a weighing of evidence can bear.
double rounded(double probability) { return std::round(probability * 1000) / 1000; }

void write_message(const why::OomNumbers& oom, JsonWriter& json) {
  json.member_if("request", oom.request);
  json.member_if("gpu", oom.gpu);
  json.member_if("total", oom.total);
  json.member_if("free", oom.free);
  json.member_if("allowed", oom.allowed);
  json.member_if("this_process", oom.this_process);
  if (!oom.processes.empty()) {
    json.key("other_processes").begin_array(Layout::kInline);
    for (const why::ProcessUse& process : oom.processes)
      json.begin_object(Layout::kInline).member("pid", process.pid).member("used", process.bytes).end_object();
    json.end_array();
  }
  json.member_if("allocated", oom.allocated);
  json.member_if("private_pools", oom.private_pools);
  json.member_if("reserved_unallocated", oom.reserved_unallocated);
  json.member_if("reserved", oom.reserved);
  json.member_if("needed", oom.needed);
}

// Every allocator message of the logs, not only the one that decided.
void write_messages(const why::Findings& findings, JsonWriter& json) {
  constexpr int kMost = 256;
  int left = kMost;
  json.key("messages").begin_array();
  for (const why::Event& event : findings.events) {
    const bool message = event.signal.oom.request || event.signal.oom.needed || event.signal.oom.is_impossible;
    if (!message || left-- <= 0) continue;
    json.begin_object(Layout::kInline)
        .member("file", findings.files[event.place.file].name)
        .member("line", event.place.line)
        .member("rank", event.rank);
    write_message(event.signal.oom, json);
    json.end_object();
  }
  json.end_array();
}

void write_numbers(const why::Diagnosis& diagnosis, const why::Findings& findings, JsonWriter& json) {
  const why::OomNumbers& oom = diagnosis.numbers;
  json.key("numbers").begin_object();
  write_message(oom, json);
  if (diagnosis.sum.known) {
    json.member("outside_this_process", diagnosis.sum.own_outside);
    json.member("held_by_others", diagnosis.sum.others);
    json.member("shortfall", diagnosis.sum.shortfall);
    json.member("defragmenting_could_serve", diagnosis.sum.defragmenting_could_serve);
  }
  if (diagnosis.host_bytes > 0) json.member("host", diagnosis.host_bytes);
  if (diagnosis.growth.rising) json.member("growth_per_step", diagnosis.growth.per_step);
  for (const auto& [name, value] : findings.figures)
    if (!oom.total || name != "total") json.member(name, value);
  for (const auto& [name, value] : findings.ratios) json.member(name, value);
  json.end_object();
}

void write_ranks(const why::RankStory& ranks, JsonWriter& json) {
  const auto list = [&](const char* name, const std::vector<int>& numbers) {
    json.key(name).begin_array(Layout::kInline);
    for (const int rank : numbers) json.value(rank);
    json.end_array();
  };
  json.key("ranks").begin_object();
  json.member("heard", ranks.heard);
  json.member("first", ranks.first);
  list("alike", ranks.alike);
  list("echoes", ranks.echoes);
  json.key("unlike").begin_array();
  for (const why::UnlikeRank& one : ranks.unlike)
    json.begin_object(Layout::kInline).member("rank", one.rank).member("says", one.says).end_object();
  json.end_array();
  json.end_object();
}

// The prediction of the job against what the log shows of each rank's tensors.
void write_figures(const std::vector<RankFigures>& figures, JsonWriter& json) {
  json.key("against_the_job").begin_array();
  for (const RankFigures& one : figures)
    json.begin_object(Layout::kInline)
        .member("rank", one.rank)
        .member("stage", one.stage)
        .member("predicted", one.predicted)
        .member("spread", one.spread)
        .member("measured", one.measured)
        .member("at_failure", one.at_failure)
        .member("says", one.says)
        .end_object();
  json.end_array();
}

}  // namespace

std::string to_json(const Why& answer) {
  const why::Diagnosis& diagnosis = answer.diagnosis;
  const why::Findings& findings = answer.findings;
  JsonWriter json;
  json.begin_object();
  json.member("schema", 2);
  json.member("class", why::cause_name(diagnosis.cause));
  json.member("confidence", rounded(diagnosis.confidence));
  json.member("resource", why::resource_name(diagnosis.resource));
  json.key("secondary").begin_array(Layout::kInline);
  for (std::size_t i = 1; i < diagnosis.candidates.size() && i < 4; ++i)
    json.value(why::cause_name(diagnosis.candidates[i].cause));
  json.end_array();
  json.member("failure", diagnosis.failure);
  json.member("incomplete", diagnosis.incomplete);
  json.member("rank", diagnosis.rank);
  json.member("phase", why::phase_name(diagnosis.phase));
  json.member("step", diagnosis.step);
  json.member("summary", diagnosis.what);
  json.member("framework", why::framework_name(diagnosis.framework));
  write_texts(json, "tags", diagnosis.tags, Layout::kInline);
  json.key("candidates").begin_array();
  for (const why::Candidate& candidate : diagnosis.candidates) {
    json.begin_object(Layout::kInline)
        .member("class", why::cause_name(candidate.cause))
        .member("probability", rounded(candidate.probability))
        .member("because", candidate.because);
    if (!candidate.against.empty()) json.member("why_not", candidate.against);
    json.end_object();
  }
  json.end_array();
  json.key("evidence").begin_array();
  for (const why::Evidence& evidence : diagnosis.evidence) {
    json.begin_object(Layout::kInline)
        .member("file", evidence.file)
        .member("line", evidence.line)
        .member("text", evidence.text);
    if (!evidence.says.empty()) json.member("says", evidence.says);
    json.end_object();
  }
  json.end_array();
  write_numbers(diagnosis, findings, json);
  write_messages(findings, json);
  if (answer.ranks.is_told()) write_ranks(answer.ranks, json);
  if (!answer.figures.empty()) write_figures(answer.figures, json);
  write_texts(json, "notes", diagnosis.notes);
  if (const auto next = why::next_evidence(diagnosis, answer.known.has_value()))
    json.key("next_evidence").begin_object().member("command", next->command).member("tells", next->tells).end_object();
  json.key("fixes").begin_array();
  for (const why::Fix& fix : answer.fixes) {
    json.begin_object();
    json.member("id", fix.id).member("title", fix.title).member("change", fix.change);
    json.key("saves_bytes");
    if (fix.saves)
      json.begin_array(Layout::kInline).value(fix.saves->low).value(fix.saves->high).end_array();
    else
      json.value(nullptr);
    json.key("slowdown_pct").begin_array(Layout::kInline).value(fix.slowdown.low).value(fix.slowdown.high).end_array();
    json.member("changes_science", fix.changes_science);
    json.member("sufficient", fix.sufficient);
    json.member("risk", fix.risk).member("source", fix.source).member("verify", fix.verify);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.take();
}

}  // namespace plimsoll::answer

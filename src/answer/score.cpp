// SPDX-License-Identifier: Apache-2.0
#include "answer/score.h"

#include <algorithm>

#include <fmt/format.h>

#include "answer/json.h"
#include "base/file.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/usage.h"

namespace plimsoll::answer {

namespace {

constexpr const char* kQuantities[] = {"peak_allocated", "peak_reserved", "step_seconds"};

void write_errors(JsonWriter& json, const truth::Statistics& errors) {
  json.begin_object(Layout::kInline)
      .member("count", errors.count)
      .member("median_pct", errors.median_pct)
      .member("p90_pct", errors.p90_pct)
      .member("max_pct", errors.max_pct)
      .member("signed_median_pct", errors.signed_median_pct)
      .member("inside_interval", errors.inside)
      .member("mean_half_width_pct", errors.half_width_pct)
      .end_object();
}

void write_file(JsonWriter& json, const ScoredFile& file, const std::string& by) {
  json.begin_object()
      .member("file", file.score.path)
      .member("records", file.score.records)
      .member("scored", file.score.scored);
  json.key("skipped").begin_array();
  for (const truth::Skipped& skipped : file.score.skipped)
    json.begin_object(Layout::kInline).member("id", skipped.id).member("reason", skipped.reason).end_object();
  json.end_array();
  for (const char* quantity : kQuantities) {
    const truth::Statistics errors = truth::statistics(file.score, file.records, quantity);
    if (errors.count > 0) write_errors(json.key(quantity), errors);
  }
  if (!by.empty()) {
    json.key("groups").begin_array();
    for (const std::string& value : group_values(file, by)) {
      json.begin_object().member(by, value);
      for (const char* quantity : kQuantities) {
        const truth::Statistics errors = truth::statistics(file.score, file.records, quantity, by, value);
        if (errors.count > 0) write_errors(json.key(quantity), errors);
      }
      json.end_object();
    }
    json.end_array();
  }
  json.end_object();
}

// Names of the groups that any record has.
std::vector<std::string> group_keys(const std::vector<ScoredFile>& files) {
  std::set<std::string> keys;
  for (const ScoredFile& file : files)
    for (const truth::Record& record : file.records.records)
      for (const auto& [key, value] : record.groups) keys.insert(key);
  return {keys.begin(), keys.end()};
}

Result<ScoredFile> score_file(const std::string& path, const truth::ScoreOptions& options, const Progress& progress,
                              std::optional<double> share) {
  PLIMSOLL_TRY(text, read_file(path));
  auto records = truth::read_records(path, text);
  if (!records) return tl::make_unexpected(std::move(records.error()).with_context(path));
  tell(progress, fmt::format("predicting {} records of {}", records->records.size(), path), share);
  ScoredFile file{*std::move(records), {}};
  file.score = truth::score(file.records, options);
  return file;
}

// Peaks are torch's own counters, which nothing beside PyTorch is in: seconds alone are corrected.
void apply_learned(const lever::Learned& learned, ScoredFile& file, std::vector<std::string>& said) {
  for (truth::ScoredRow& row : file.score.rows) {
    const job::Job& job = file.records.records[row.record].job;
    for (std::string& word : learned.words(job))
      if (std::find(said.begin(), said.end(), word) == said.end()) said.push_back(std::move(word));
    if (row.quantity != "step_seconds") continue;
    row.predicted *= learned.time_factor(job);
    row.error_pct = 100 * (row.predicted - row.measured) / row.measured;
  }
}

}  // namespace

std::vector<std::string> quantities() { return {std::begin(kQuantities), std::end(kQuantities)}; }

std::set<std::string> group_values(const ScoredFile& file, const std::string& key) {
  std::set<std::string> values;
  for (const truth::Record& record : file.records.records)
    if (const auto found = record.groups.find(key); found != record.groups.end())
      values.insert(found->second);
    else
      values.insert("none");
  return values;
}

std::size_t Score::records() const {
  std::size_t count = 0;
  for (const ScoredFile& file : files) count += file.score.records;
  return count;
}

std::size_t Score::scored() const {
  std::size_t count = 0;
  for (const ScoredFile& file : files) count += file.score.scored;
  return count;
}

Result<Score> score(const ScoreQuestion& question, const lever::World& world, const Progress& progress) {
  const std::vector<std::string>& wanted = question.quantities;
  const auto is_wanted = [&wanted](const std::string& quantity) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), quantity) != wanted.end();
  };
  const std::vector<std::string> known = quantities();
  for (const std::string& quantity : wanted)
    if (std::find(known.begin(), known.end(), quantity) == known.end())
      return usage_error(fmt::format("--quantity is '{}'; wanted one of {}", quantity, join(known, ", ")),
                         did_you_mean(quantity, known));
  truth::ScoreOptions options;
  options.calibration = &world.calibration;
  options.time = is_wanted("step_seconds");
  options.memory = wanted.empty() || wanted.size() > 1 || wanted.front() != "step_seconds";
  Score score{{}, question.by, {}};
  for (const std::string& path : question.paths) {
    std::optional<double> share;  // of one file nothing is known before its end
    if (question.paths.size() > 1) share = part_of(score.files.size(), question.paths.size());
    PLIMSOLL_TRY(file, score_file(path, options, progress, share));
    std::erase_if(file.score.rows, [&](const truth::ScoredRow& row) { return !is_wanted(row.quantity); });
    if (!world.learned.empty()) apply_learned(world.learned, file, score.learned);
    score.files.push_back(std::move(file));
  }
  const std::vector<std::string> keys = group_keys(score.files);
  if (!score.by.empty() && std::find(keys.begin(), keys.end(), score.by) == keys.end())
    return usage_error(fmt::format("--by is '{}'; these records have {}", score.by, join(keys, ", ")),
                       did_you_mean(score.by, keys));
  return score;
}

std::string to_json(const Score& score) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).key("files").begin_array();
  for (const ScoredFile& file : score.files) write_file(json, file, score.by);
  json.end_array().key("rows").begin_array();
  for (const ScoredFile& file : score.files)
    for (const truth::ScoredRow& row : file.score.rows)
      json.begin_object(Layout::kInline)
          .member("file", file.score.path)
          .member("id", row.id)
          .member("quantity", row.quantity)
          .member("measured", row.measured)
          .member("predicted", row.predicted)
          .member("error_pct", row.error_pct)
          .end_object();
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::answer

// SPDX-License-Identifier: Apache-2.0
#include "live/learn.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "base/file.h"
#include "emit/text.h"
#include "lever/learned.h"
#include "live/nodes.h"
#include "memory/answer.h"
#include "truth/record.h"
#include "truth/score.h"

namespace plimsoll::live {

namespace {

using document::Node;

constexpr std::size_t kFewestRuns = 3;
// A figure is taken where it brings runs that were left out this much nearer: by a tenth of the error, at least.
constexpr double kGain = 0.9;
constexpr double kOtherJobPct = 5;
// Tensors are predicted to a thousandth, what the allocator keeps beyond them far less surely.
constexpr double kTensorsNearEnough = 0.1;
constexpr double kCacheNearEnough = 10;

// One run's word on one quantity.
struct Word {
  double measured = 0;
  double predicted = 0;
  double fixed = 0;  // part of the prediction that the figure leaves alone
};

using Key = std::pair<std::string, std::string>;  // GPU, framework
struct Words {
  std::vector<Word> seconds;
  std::vector<Word> context;
  std::vector<Word> tensors;  // peak of what torch had allocated
  std::vector<Word> cached;   // what it had reserved beyond that
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The figure that the words give: a factor on what is predicted, or bytes instead of it.
double figure_of(const std::vector<Word>& words, bool is_factor) {
  std::vector<double> values;
  for (const Word& word : words)
    values.push_back(is_factor ? word.measured / word.predicted : word.measured - word.fixed);
  return median(std::move(values));
}

double error_with(const Word& word, double figure, bool is_factor) {
  const double predicted = is_factor ? word.predicted * figure : figure + word.fixed;
  return 100 * std::abs(predicted - word.measured) / word.measured;
}

// `enough`: an error in percent below which there is nothing to learn.
LearnedFigure judge(const char* name, const std::vector<Word>& words, bool is_factor, double enough = 0) {
  LearnedFigure figure;
  figure.name = name;
  figure.runs = static_cast<std::int64_t>(words.size());
  if (words.empty()) {
    figure.refused = "no run measured it";
    return figure;
  }
  std::vector<double> before;
  for (const Word& word : words) before.push_back(100 * std::abs(word.predicted - word.measured) / word.measured);
  figure.before = median(before);
  if (words.size() < kFewestRuns) {
    figure.refused = fmt::format("{} runs; wanted {}", words.size(), kFewestRuns);
    return figure;
  }
  if (figure.before < enough) {
    figure.refused = "the prediction is near enough";
    return figure;
  }
  std::vector<double> left_out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::vector<Word> others = words;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    left_out.push_back(error_with(words[i], figure_of(others, is_factor), is_factor));
  }
  figure.left_out = median(left_out);
  if (figure.left_out > kGain * figure.before)
    figure.refused = "runs that were left out would not have come out nearer";
  else
    figure.value = figure_of(words, is_factor);
  return figure;
}

// What stands beside PyTorch by the prediction, and of it what is not the context.
void take_context(const truth::Record& record, const Node& node, Words& words) {
  const Node* measured = node.find("measured");
  const auto outside = measured != nullptr ? integer_in(*measured, "outside") : std::nullopt;
  if (!outside || *outside <= 0) return;
  memory::AskedRanks asked;
  asked.pp = record.pp_rank;
  asked.alone = true;
  const auto answer = memory::answer(record.job, asked);
  if (!answer) return;
  const memory::RankAnswer& rank = answer->ranks.front();
  std::int64_t context = 0;
  for (const memory::Row& row : rank.table)
    if (row.name == "CUDA context") context = row.bytes;
  words.context.push_back(
      {static_cast<double>(*outside), static_cast<double>(rank.outside), static_cast<double>(rank.outside - context)});
}

// Both peaks of a record stand beside each other in the score.
void take_peaks(const truth::FileScore& score, const truth::RecordFile& file, std::map<Key, Words>& groups) {
  std::map<std::size_t, std::map<std::string, const truth::ScoredRow*>> by_record;
  for (const truth::ScoredRow& row : score.rows) by_record[row.record][row.quantity] = &row;
  for (const auto& [index, rows] : by_record) {
    const truth::Record& record = file.records[index];
    const auto allocated = rows.find("peak_allocated");
    const auto reserved = rows.find("peak_reserved");
    if (!record.skip.empty() || allocated == rows.end() || reserved == rows.end()) continue;
    Words& words = groups[{record.job.cluster.gpu.id, std::string(job::name_of(record.job.framework))}];
    const truth::ScoredRow& tensors = *allocated->second;
    words.tensors.push_back({tensors.measured, tensors.predicted, 0});
    const Word cached{reserved->second->measured - tensors.measured, reserved->second->predicted - tensors.predicted,
                      0};
    if (cached.measured > 0 && cached.predicted > 0) words.cached.push_back(cached);
  }
}

Status read_run(const std::string& path, std::map<Key, Words>& groups, std::vector<std::string>& skipped) {
  PLIMSOLL_TRY(text, read_file(path));
  auto root = document::parse_json(text);
  if (!root) return tl::make_unexpected(std::move(root.error()).with_context(path));
  if (text_in(*root, "kind") != "plimsoll-run")
    return bad_input(fmt::format("{} is not the record of a run", path), "plimsoll run makes a folder with run.json");
  if (integer_in(*root, "exit_code").value_or(0) != 0 || integer_in(*root, "signal").value_or(0) != 0) {
    skipped.push_back(fmt::format("{}: the run failed", path));
    return {};
  }
  PLIMSOLL_TRY(records, truth::read_records(path, text));
  const Node* nodes = root->find("records");
  const truth::FileScore score = truth::score(records, {});
  // A run that held something else than its job says is another job: what it took says nothing of this one.
  for (const truth::ScoredRow& row : score.rows)
    if (row.quantity == "peak_allocated" && std::abs(row.error_pct) > kOtherJobPct)
      records.records[row.record].skip =
          fmt::format("its peak is off by {:.0f} %: the run was not of the job that --job named", row.error_pct);
  if (records.records.empty()) skipped.push_back(fmt::format("{}: it was started without --job", path));
  for (std::size_t i = 0; i < records.records.size(); ++i) {
    const truth::Record& record = records.records[i];
    if (!record.skip.empty()) {
      skipped.push_back(fmt::format("{}: {}", path, record.skip));
      continue;
    }
    Words& words = groups[{record.job.cluster.gpu.id, std::string(job::name_of(record.job.framework))}];
    take_context(record, nodes->items[i], words);
  }
  take_peaks(score, records, groups);
  for (const truth::ScoredRow& row : score.rows) {
    if (!records.records[row.record].skip.empty()) continue;
    const job::Job& job = records.records[row.record].job;
    if (row.quantity != "step_seconds" || records.records[row.record].pp_rank != 0) continue;
    groups[{job.cluster.gpu.id, std::string(job::name_of(job.framework))}].seconds.push_back(
        {row.measured, row.predicted, 0});
  }
  return {};
}

}  // namespace

bool Lesson::any() const {
  for (const LearnedFrom& group : groups)
    for (const LearnedFigure& figure : group.figures)
      if (figure.value) return true;
  return false;
}

Result<Lesson> learn(const std::vector<std::string>& paths) {
  Lesson lesson;
  std::map<Key, Words> groups;
  for (const std::string& path : paths) PLIMSOLL_TRY_STATUS(read_run(path, groups, lesson.skipped));
  for (const auto& [key, words] : groups)
    lesson.groups.push_back({key.first,
                             key.second,
                             {judge("step time", words.seconds, true), judge("context", words.context, false),
                              judge("tensors", words.tensors, true, kTensorsNearEnough),
                              judge("cache", words.cached, true, kCacheNearEnough)}});
  return lesson;
}

std::string lesson_json(const Lesson& lesson) {
  Node groups;
  groups.kind = Node::Kind::kArray;
  for (const LearnedFrom& group : lesson.groups) {
    const LearnedFigure& time = group.figures[0];
    const LearnedFigure& context = group.figures[1];
    const LearnedFigure& tensors = group.figures[2];
    const LearnedFigure& cached = group.figures[3];
    if (!time.value && !context.value && !tensors.value && !cached.value) continue;
    Object one;
    one.set("gpu", group.gpu).set("framework", group.framework);
    one.set("runs", std::max({time.runs, context.runs, tensors.runs, cached.runs}));
    if (time.value)
      one.set("time_factor", *time.value)
          .set("time_error_before", time.before)
          .set("time_error_left_out", time.left_out);
    if (context.value) one.set("context", static_cast<std::int64_t>(*context.value));
    one.set_if("tensor_factor", tensors.value).set_if("cached_factor", cached.value);
    groups.items.push_back(one.take());
  }
  Object root;
  root.set("schema", 1).set("kind", lever::kLearnedKind).add("groups", std::move(groups));
  return emit::pretty_json(root.take()) + "\n";
}

}  // namespace plimsoll::live

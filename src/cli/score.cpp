// SPDX-License-Identifier: Apache-2.0
// plimsoll score: how good are the predictions, measured against recorded runs.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/fit_time.h"
#include "cli/score_report.h"
#include "cli/verb.h"

namespace plimsoll::cli {

namespace {

Result<std::size_t> worst_count(const Arguments& arguments) {
  const std::optional<std::string> text = arguments.value("worst");
  if (!text) return 0;
  std::size_t count = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), count);
  if (parsed.ec != std::errc{} || parsed.ptr != text->data() + text->size() || count == 0)
    return usage_error(fmt::format("--worst is '{}'; wanted a positive whole number", *text));
  return count;
}

Result<ScoredFile> score_file(const std::string& path, const truth::ScoreOptions& options, const Console& console) {
  PLIMSOLL_TRY(text, read_file(path));
  auto records = truth::read_records(path, text);
  if (!records) return tl::make_unexpected(std::move(records.error()).with_context(path));
  console.progress(fmt::format("predicting {} records of {}", records->records.size(), path));
  ScoredFile file{*std::move(records), {}};
  file.score = truth::score(file.records, options);
  return file;
}

Result<ExitCode> run(const Arguments& arguments, const Console& console) {
  if (arguments.operands.empty()) return usage_error("a file of records is missing", "plimsoll score TRUTH...");
  PLIMSOLL_TRY(worst, worst_count(arguments));
  const std::vector<std::string> wanted = arguments.values("quantity");
  const std::vector<std::string> known = quantities();
  for (const std::string& quantity : wanted)
    if (std::find(known.begin(), known.end(), quantity) == known.end())
      return usage_error(fmt::format("--quantity is '{}'; wanted one of {}", quantity, join(known, ", ")));
  PLIMSOLL_TRY(world, world_of(arguments));
  truth::ScoreOptions options;
  options.calibration = &world.calibration;
  options.time = wanted.empty() || std::find(wanted.begin(), wanted.end(), "step_seconds") != wanted.end();
  options.memory = wanted.empty() || wanted.size() > 1 || wanted.front() != "step_seconds";
  std::vector<ScoredFile> files;
  for (const std::string& path : arguments.operands) {
    PLIMSOLL_TRY(file, score_file(path, options, console));
    files.push_back(std::move(file));
  }
  const auto unwanted = [&](const truth::ScoredRow& row) {
    return !wanted.empty() && std::find(wanted.begin(), wanted.end(), row.quantity) == wanted.end();
  };
  for (ScoredFile& file : files) std::erase_if(file.score.rows, unwanted);
  const std::string by = arguments.value("by").value_or("");
  const std::vector<std::string> keys = group_keys(files);
  if (!by.empty() && std::find(keys.begin(), keys.end(), by) == keys.end())
    return usage_error(fmt::format("--by is '{}'; these records have {}", by, join(keys, ", ")));
  std::size_t records = 0;
  std::size_t scored = 0;
  for (const ScoredFile& file : files) {
    records += file.score.records;
    scored += file.score.scored;
  }
  const auto nothing =
      bad_input(fmt::format("none of the {} records could be scored", records), "the table says why each was skipped");
  if (arguments.has("json")) {
    console.print(score_json(files, by));
    if (scored == 0) return nothing;
    return ExitCode::kYes;
  }
  console.print(score_table(files, console));
  if (!by.empty()) console.print("\n" + group_table(files, by, console));
  if (worst > 0) console.print(worst_report(files, worst, console));
  if (scored == 0) return nothing;
  if (worst == 0) console.next(fmt::format("plimsoll score {} --worst 5", join(arguments.operands, " ")));
  return ExitCode::kYes;
}

}  // namespace

extern const Verb kScore;
const Verb kScore = {
    .name = "score",
    .summary = "how good are the predictions, measured against recorded runs",
    .operands = "TRUTH...",
    .most_operands = -1,
    .details =
        "Predicts every record of the files and prints the error per file and quantity: the median, the 90th "
        "percentile and the worst of its absolute value, and the signed median, which shows a bias; then the share of "
        "measured values inside "
        "their 90 % interval, and the mean half-width of those intervals. A record that cannot be predicted is skipped "
        "with its reason.",
    .flags = {{.name = "by", .argument = "KEY", .help = "the errors of every group, such as gpu or recompute"},
              {.name = "quantity",
               .argument = "NAME",
               .help = "only peak_allocated, peak_reserved or step_seconds",
               .repeats = true},
              {.name = "calibration",
               .argument = "FILE",
               .help = "efficiencies measured on your cluster instead of the built-in ones"},
              {.name = "worst", .argument = "N", .help = "the N largest misses, each with its predicted table"}},
    .takes_keys = false,
    .examples = {{"plimsoll score tests/data/truth/*.json", "the error table"},
                 {"plimsoll score runs.json --by recompute --worst 3", "where the errors come from"}},
    .run = run,
};

}  // namespace plimsoll::cli

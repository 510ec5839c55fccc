// SPDX-License-Identifier: Apache-2.0
// plimsoll score: how good are the predictions, measured against recorded runs.
#include <charconv>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/job_input.h"
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

Result<ExitCode> run_score(const Arguments& arguments, const Console& console) {
  if (arguments.operands.empty()) return usage_error("a file of records is missing", "plimsoll score TRUTH...");
  PLIMSOLL_TRY(worst, worst_count(arguments));
  PLIMSOLL_TRY(world, world_of(arguments));
  PLIMSOLL_TRY(score,
               answer::score({arguments.operands, arguments.values("quantity"), arguments.value("by").value_or("")},
                             world, to_person(console)));
  for (const std::string& word : score.learned) console.warn(word);
  if (arguments.has("json")) {
    console.print(answer::to_json(score));
  } else {
    console.print(score_table(score.files, console));
    if (!score.by.empty()) console.print("\n" + group_table(score.files, score.by, console));
    if (worst > 0) console.print(worst_report(score.files, worst, console));
  }
  if (score.scored() == 0)
    return bad_input(fmt::format("none of the {} records could be scored", score.records()),
                     "the table says why each was skipped");
  if (worst == 0 && !arguments.has("json"))
    console.next(fmt::format("plimsoll score {} --worst 5", join(arguments.operands, " ")));
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
        "with its reason. A folder of plimsoll run, or one that holds many, stands for their records.",
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
    .run = run_score,
};

}  // namespace plimsoll::cli

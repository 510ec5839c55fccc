// SPDX-License-Identifier: Apache-2.0
// plimsoll learn: what kept runs say of the predictions, as a file that --calibration takes.
#include <filesystem>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/usage.h"
#include "base/write.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "live/folder.h"
#include "live/learn.h"

namespace plimsoll::cli {

namespace {

namespace fs = std::filesystem;

// A folder of runs stands for all of them, in the order of their names.
Result<std::vector<std::string>> run_files(const std::vector<std::string>& operands) {
  std::vector<std::string> paths;
  for (const std::string& operand : operands) {
    std::error_code error;
    if (!fs::is_directory(operand, error)) {
      paths.push_back(operand);
      continue;
    }
    PLIMSOLL_TRY(found, live::records_in(operand));
    paths.insert(paths.end(), found.begin(), found.end());
  }
  return paths;
}

std::string report(const live::Lesson& lesson, const Console& console) {
  Table table({{"GPU", Align::kLeft},
               {"framework", Align::kLeft},
               {"what", Align::kLeft},
               {"runs", Align::kRight},
               {"off", Align::kRight},
               {"left out", Align::kRight},
               {"learned", Align::kLeft, true}});
  for (const live::LearnedFrom& group : lesson.groups)
    for (const live::LearnedFigure& figure : group.figures)
      table.add_row({group.gpu, group.framework, figure.name, std::to_string(figure.runs),
                     figure.runs > 0 ? fmt::format("{:.1f}%", figure.before) : "-",
                     figure.left_out > 0 ? fmt::format("{:.1f}%", figure.left_out) : "-",
                     !figure.value              ? "no: " + figure.refused
                     : figure.name != "context" ? fmt::format("times {:.4f}", *figure.value)
                                                : format_bytes(static_cast<std::int64_t>(*figure.value))});
  return table.to_text(console.width, console.colour_out) +
         "off: median error of the built-in prediction; left out: of each run by what the others say\n";
}

Result<ExitCode> run_learn(const Arguments& arguments, const Console& console) {
  if (arguments.operands.empty()) return usage_error("runs are missing", "plimsoll learn runs/ --out learned.json");
  PLIMSOLL_TRY(paths, run_files(arguments.operands));
  PLIMSOLL_TRY(lesson, live::learn(paths));
  for (const std::string& skipped : lesson.skipped) console.warn(skipped);
  if (lesson.groups.empty())
    return bad_input(fmt::format("none of the {} runs says anything of a prediction", paths.size()),
                     "start them with plimsoll run --job FILE");
  const std::string json = live::lesson_json(lesson);
  console.print(arguments.has("json") ? json : fold_prose(report(lesson, console), console.prose_width));
  if (const auto out = arguments.value("out"); out && lesson.any())
    PLIMSOLL_TRY_STATUS(write_whole(*out, json, existing_files(arguments)));
  if (lesson.any() && !arguments.has("out")) console.next("the same with --out learned.json, then fit --calibration");
  return lesson.any() ? ExitCode::kYes : ExitCode::kNo;
}

}  // namespace

extern const Verb kLearn;
const Verb kLearn = {
    .name = "learn",
    .summary = "what your own runs say of the predictions, for --calibration",
    .operands = "RUN...",
    .most_operands = -1,
    .details =
        "Takes folders of plimsoll run, or a folder that holds many. For each GPU and framework it looks how long "
        "steps took against the prediction, how much of a device stood beside PyTorch, what tensors took at their "
        "peak and what the allocator kept beyond them. A figure is learned only from three runs or more, and only "
        "where runs that were left out would have come out nearer with it; else the table says why not.\n"
        "\n"
        "The file (--out) goes to --calibration of every verb that predicts. It acts on jobs of the same GPU and "
        "framework, says by how much, and leaves other jobs alone.\n"
        "\n"
        "Exit code 0 when something was learned, 1 when not.",
    .flags = {{.name = "out", .argument = "FILE", .help = "write what was learned"},
              {.name = "force", .argument = "", .help = kForceHelp}},
    .examples = {{"plimsoll learn runs/ --out learned.json", "from all runs in a folder"},
                 {"plimsoll fit job.toml --calibration learned.json", "and use it"}},
    .run = run_learn,
};

}  // namespace plimsoll::cli

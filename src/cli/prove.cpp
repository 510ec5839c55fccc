// SPDX-License-Identifier: Apache-2.0
// plimsoll prove: one real rank of a job on one real GPU, measured against the prediction to the byte.
#include <stdlib.h>

#include <charconv>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/usage.h"
#include "base/write.h"
#include "cli/fit_time.h"
#include "cli/job_input.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "live/command.h"
#include "live/proof.h"

namespace plimsoll::cli {

namespace {

namespace fs = std::filesystem;

// Of the program (python/plimsoll_prove.py).
constexpr int kMissingThere = 4;
constexpr int kRanOut = 5;

// A folder that goes away with this.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "plimsoll-prove-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Scratch() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void add_row(Table& table, const char* name, const live::Quantity& quantity, bool seconds) {
  const auto text = [seconds](const std::optional<double>& value) {
    if (!value) return std::string("-");
    return seconds ? format_seconds(*value) : with_commas(static_cast<std::int64_t>(*value));
  };
  const auto off = quantity.difference();
  table.add_row({name, text(quantity.measured), text(quantity.predicted),
                 off && !seconds ? fmt::format("{:+}", static_cast<std::int64_t>(*off)) : "",
                 off && *quantity.predicted > 0 ? fmt::format("{:+.3f}%", 100 * *off / *quantity.predicted) : ""});
}

std::string report(const live::Proof& proof, const live::Prediction& prediction, const Console& console) {
  Table table({{"", Align::kLeft},
               {"measured", Align::kRight},
               {"predicted", Align::kRight},
               {"bytes", Align::kRight},
               {"off", Align::kRight}});
  add_row(table, "peak allocated", proof.allocated, false);
  add_row(table, "peak reserved", proof.reserved, false);
  add_row(table, "outside PyTorch", proof.outside, false);
  add_row(table, "a step", proof.seconds, true);
  std::string text = proof.out_of_memory.empty()
                         ? fmt::format("{}: {} steps on {}\n\n", proof.holds() ? "proven" : "not as predicted",
                                       proof.steps, proof.device)
                         : fmt::format("ran out of memory after {} steps on {}\n{}\n\n", proof.steps, proof.device,
                                       proof.out_of_memory);
  text += table.to_text(console.width, console.colour_out);
  if (prediction.job.cluster.gpus > 1)
    text += fmt::format("one rank of {}; messages returned at once, and are not in the step\n",
                        prediction.job.cluster.gpus);
  return text;
}

Result<std::int64_t> steps_of(const Arguments& arguments) {
  const std::string text = arguments.value("steps").value_or("5");
  std::int64_t steps = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || steps < 2 || steps > 1000)
    return usage_error(fmt::format("--steps is '{}'; wanted 2 to 1000", text));
  return steps;
}

// --rank pp=N: which pipeline rank trains.
Result<std::int64_t> rank_of(const Arguments& arguments) {
  const auto text = arguments.value("rank");
  if (!text) return 0;
  const std::string_view number = text->starts_with("pp=") ? std::string_view{*text}.substr(3) : std::string_view{};
  std::int64_t rank = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), rank);
  if (number.empty() || parsed.ec != std::errc{} || parsed.ptr != number.data() + number.size() || rank < 0)
    return usage_error(fmt::format("--rank is '{}'; wanted pp=N, such as pp=2", *text));
  return rank;
}

Result<ExitCode> run_prove(const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY(steps, steps_of(arguments));
  PLIMSOLL_TRY(pp_rank, rank_of(arguments));
  PLIMSOLL_TRY(input, input_of(arguments));
  PLIMSOLL_TRY(world, world_of(arguments));
  PLIMSOLL_TRY(prediction, live::predict(std::move(input), world));
  say_learned(world, prediction.job, console);
  const Scratch scratch;
  if (scratch.path().empty())
    return tl::make_unexpected(Error{Code::kMissing, "no temporary folder can be made", {}, "TMPDIR names another"});
  PLIMSOLL_TRY(spec, live::proof_spec(prediction, pp_rank, steps, scratch.path() + "/out"));
  const std::string spec_path = scratch.path() + "/spec.json";
  const std::string result_path = scratch.path() + "/result.json";
  PLIMSOLL_TRY_STATUS(write_whole(spec_path, spec, Existing::kReplace));
  live::Launch launch;
  launch.words = {arguments.value("python").value_or("python3"), "-c", std::string(live::proof_program()), spec_path,
                  result_path};
  for (const auto& [name, value] : prediction.job.environment) launch.environment.emplace_back(name, value);
  console.told(fmt::format("training {} steps of one rank", steps));
  const live::Ending ending = live::run_command(launch);
  if (!ending.started)
    return tl::make_unexpected(
        Error{Code::kMissing,
              fmt::format("{} cannot be started: {}", launch.words[0], std::strerror(ending.error)),
              {},
              "--python names the Python that has your PyTorch"});
  if (ending.code() == kMissingThere)
    return tl::make_unexpected(Error{Code::kMissing, "nothing was proven: something is missing here", {}, {}});
  if (ending.code() != 0 && ending.code() != kRanOut)
    return bad_input(fmt::format("the training ended with {}: nothing was proven", ending.code()),
                     "its error stands above");
  PLIMSOLL_TRY(text, read_file(result_path));
  PLIMSOLL_TRY(proof, live::read_proof_result(text, prediction, pp_rank));
  const std::string json = live::proof_json(proof, prediction);
  if (const auto out = arguments.value("out")) PLIMSOLL_TRY_STATUS(write_whole(*out, json, existing_files(arguments)));
  console.print(arguments.has("json") ? json : report(proof, prediction, console));
  if (proof.holds() && !arguments.has("out")) console.next("the same with --out proof.json, then plimsoll fit --proof");
  return proof.holds() ? ExitCode::kYes : ExitCode::kNo;
}

std::vector<Flag> flags_of_prove() {
  std::vector<Flag> all = job_flags();
  const std::vector<Flag> own = {
      {.name = "rank", .argument = "pp=N", .help = "the pipeline rank that trains; the first"},
      {.name = "steps", .argument = "N", .help = "optimizer steps; 5"},
      {.name = "out", .argument = "FILE", .help = "write the proof, for plimsoll fit --proof"},
      {.name = "force", .argument = "", .help = kForceHelp},
      {.name = "python", .argument = "PATH", .help = "the Python that has your PyTorch; python3"},
      {.name = "calibration", .argument = "FILE", .help = "of the predicted time"},
  };
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

}  // namespace

extern const Verb kProve;
const Verb kProve = {
    .name = "prove",
    .summary = "train one real rank of a job on one real GPU, and compare to the byte",
    .operands = "[FILE...]",
    .most_operands = -1,
    .details =
        "Takes a job as plimsoll fit does, and trains a few steps of it with your own PyTorch and Transformers on one "
        "GPU of this machine, with random weights and tokens: a job of one GPU under Transformers' Trainer, one rank "
        "of any number under FSDP2 or under torchtitan's own trainer (0.2, which TOML configures), or one rank of "
        "Megatron's local layers at any TP, PP and VPP (Megatron core from PYTHONPATH, or from the folder that "
        "MEGATRON_LM names), over PyTorch's fake process group. What torch counted stands beside what was predicted. A "
        "knob that the job gets wrong shows as bytes that are off.\n"
        "\n"
        "The proof (--out) narrows the interval of plimsoll fit --proof for that very job; for another job it is "
        "refused. A job that cannot be run so is refused with the reason; nothing is left out silently.\n"
        "\n"
        "Exit code 0 when both peaks are within 0.1 % of the prediction, 1 when not, 4 when PyTorch, the framework or "
        "a GPU is missing or the job is of another kind.",
    .flags = flags_of_prove(),
    .takes_keys = true,
    .streams = true,
    .examples = {{"plimsoll prove config.json training_args.json --gpu h100 --gpus 1 --seq-length 4096",
                  "a Trainer job"},
                 {"plimsoll prove job.toml --out proof.json", "and keep it"},
                 {"plimsoll fit job.toml --proof proof.json", "the interval that is left"}},
    .run = run_prove,
};

}  // namespace plimsoll::cli

// SPDX-License-Identifier: Apache-2.0
// plimsoll capture: run one training step of the user's own code on fake tensors and write down what it does to memory.
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "answer/captured.h"
#include "cli/verb.h"

extern char** environ;

namespace plimsoll::catalog {
extern const std::string_view kCapturePy;
}

namespace plimsoll::cli {

namespace {

// Flags that the program in Python takes under the same name.
constexpr std::string_view kPassed[] = {"config",
                                        "script",
                                        "out",
                                        "batch",
                                        "seq",
                                        "weights",
                                        "autocast",
                                        "attn",
                                        "optim",
                                        "task",
                                        "label-smoothing",
                                        "gradient-accumulation"};

Result<int> run_python(const std::string& python, const std::vector<std::string>& words) {
  std::vector<std::string> all = {python, "-c", std::string(catalog::kCapturePy)};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  if (const int error = posix_spawnp(&child, python.c_str(), nullptr, nullptr, argv.data(), environ); error != 0)
    return tl::make_unexpected(Error{Code::kMissing,
                                     fmt::format("{} cannot be started: {}", python, std::strerror(error)),
                                     {},
                                     "--python names the Python that has your PyTorch"});
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return bad_input(fmt::format("waiting for {}: {}", python, std::strerror(errno)));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result<ExitCode> run_capture(const Arguments& arguments, const Console&) {
  if (arguments.has("config") == arguments.has("script"))
    return usage_error("wanted --config or --script, one of them",
                       "plimsoll capture --config config.json, or --script train.py:build");
  std::vector<std::string> words;
  for (const std::string_view flag : kPassed) {
    if (const auto value = arguments.value(flag)) {
      words.push_back(fmt::format("--{}", flag));
      words.push_back(*value);
    }
  }
  if (arguments.has("checkpointing")) words.emplace_back("--checkpointing");
  if (const auto name = arguments.value("gpu")) {
    PLIMSOLL_TRY(capability, answer::capability_of(*name));
    words.emplace_back("--capability");
    words.push_back(std::to_string(capability));
  }
  PLIMSOLL_TRY(code, run_python(arguments.value("python").value_or("python3"), words));
  if (code == 0) return ExitCode::kYes;
  // Python has said why.
  const Code kind = code == 2 ? Code::kUsage : code == 4 ? Code::kMissing : Code::kBadInput;
  return tl::make_unexpected(Error{kind, "nothing was captured", {}, {}});
}

}  // namespace

extern const Verb kCapture;
const Verb kCapture = {
    .name = "capture",
    .summary = "record a step of your own model without a GPU, for fit",
    .operands = "",
    .most_operands = 0,
    .details =
        "Runs two training steps of your own code with your own PyTorch on fake tensors: shapes, types and lifetimes "
        "are real, the data is not there, so that it takes seconds, no GPU and hardly any memory. Every operation is "
        "written down with the storages that it makes and drops; plimsoll fit walks the file through PyTorch's "
        "allocator and adds what kernels and libraries take for themselves, for any GPU.\n"
        "\n"
        "--config trains a model of Transformers as its Trainer does. --script FILE.py:FUNCTION calls your function "
        "with batch and seq; it returns the model, its inputs as a dictionary, the optimizer, and, where the loss is "
        "not model(**inputs).loss, a function of model and inputs that returns it.\n"
        "\n"
        "Three captures that differ in --batch and in --seq answer for every size: plimsoll fit a b c "
        "--micro-batch-size 8 --seq-length 8192.",
    .flags = {{.name = "config", .argument = "FILE", .help = "config.json of a Transformers model"},
              {.name = "script", .argument = "FILE.py:FUNCTION", .help = "your own model, inputs and optimizer"},
              {.name = "out", .argument = "FILE", .help = "where to write; step.capture"},
              {.name = "batch", .argument = "N", .help = "sequences of a micro-batch; 1"},
              {.name = "seq", .argument = "N", .help = "tokens of a sequence; 2048"},
              {.name = "weights", .argument = "TYPE", .help = "bfloat16, float16 or float32"},
              {.name = "autocast", .argument = "TYPE", .help = "none, bf16 or fp16"},
              {.name = "attn", .argument = "NAME", .help = "attn_implementation of Transformers"},
              {.name = "optim", .argument = "NAME", .help = "adamw_torch_fused, adamw_torch or sgd"},
              {.name = "task", .argument = "NAME", .help = "causal, mlm, seq2seq, image or speech"},
              {.name = "label-smoothing", .argument = "X", .help = "label_smoothing_factor of the Trainer"},
              {.name = "gradient-accumulation",
               .argument = "N",
               .help = "micro-batches of a step; 1, and fit --gradient-accumulation-steps adds more"},
              {.name = "checkpointing", .argument = "", .help = "gradient checkpointing of every layer"},
              {.name = "gpu", .argument = "NAME", .help = "whose kernels are chosen; Hopper's"},
              {.name = "python", .argument = "PATH", .help = "the Python that has your PyTorch; python3"}},
    .takes_keys = false,
    .streams = true,
    .examples = {{"plimsoll capture --config config.json --batch 2 --seq 4096 --autocast bf16 --weights float32",
                  "a model of Transformers"},
                 {"plimsoll capture --script train.py:build --out step.capture", "any model"},
                 {"plimsoll fit step.capture --gpu h100", "does it fit"}},
    .run = run_capture,
};

}  // namespace plimsoll::cli

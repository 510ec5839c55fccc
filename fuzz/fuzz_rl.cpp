// SPDX-License-Identifier: Apache-2.0
// Any bytes as the file of a post-training run, and as a histogram of lengths: an error with a message, or a completed
// run whose pools hold together.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "rl/lengths.h"
#include "rl/read.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto counts = rl::parse_histogram(text); counts && counts->empty()) std::abort();
  rl::Settings flags;
  if (size % 2 == 1)
    flags = {{"model", "qwen2.5-7b"},   {"gpu", "h100"},        {"gpus", "16"},
             {"group_size", "8"},       {"prompt_mean", "300"}, {"prompts_per_step", "8"},
             {"completion_mean", "900"}};
  const Result<rl::Run> run = rl::read_run(job::InputFile{"no-such-folder/run.toml", text}, flags);
  if (!run) {
    if (run.error().message.empty()) std::abort();
    return 0;
  }
  if (run->trainer_gpus < 1 || run->servers() < 1 || run->samples_per_step() < 1 || run->packing.seq_len < 1)
    std::abort();
  if (!run->is_colocated() && run->trainer_gpus + run->inference_gpus > run->cluster.gpus) std::abort();
  const rl::Distribution lengths(run->completion);
  if (!(lengths.mean() >= 1) || !(lengths.mean_square() >= 0)) std::abort();
  return 0;
}

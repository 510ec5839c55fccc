// SPDX-License-Identifier: Apache-2.0
// The seconds of one training step of a job: what the slowest pipeline rank computes, what of its messages is not
// hidden, what it waits for, and what the host adds. Invariant: the parts sum to the step.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "job/job.h"
#include "job/pipeline_layout.h"
#include "timing/machine.h"
#include "timing/pipeline.h"

namespace plimsoll::timing {

class PriceStore;

struct Breakdown {
  double gemm = 0;
  double attention = 0;
  double memory = 0;  // memory-bound: norms, activations, casts, permutation, loss
  double recompute = 0;
  double optimizer = 0;
  double tensor = 0;  // exposed messages of TP and SP
  double context = 0;
  double expert = 0;
  double data = 0;      // DP, FSDP and ZeRO
  double pipeline = 0;  // sends and receives between stages
  double offload = 0;   // what the host link does not hide
  double bubble = 0;
  double host = 0;  // launches that the GPU waits for, and what happens once per step

  [[nodiscard]] double sum() const;
};

// Name and field of every part, in the order of a report.
struct NamedPart {
  std::string_view key;   // "gemm"
  std::string_view text;  // "matrix products"
  double Breakdown::* field;
};
[[nodiscard]] const std::array<NamedPart, 13>& named_parts();

struct StepTime {
  double seconds = 0;
  double low = 0;  // interval
  double high = 0;
  double tokens_per_second_per_gpu = 0;
  double tflops_per_gpu = 0;  // by the model-FLOPs convention
  double mfu = 0;             // against the dense peak of the job's matrix products
  double flops_per_token = 0;
  Breakdown parts;
  std::vector<double> rank_seconds;  // what each pipeline rank computes
};

enum class Detail : std::uint8_t {
  kFull,  // the pipeline is simulated
  kFast,  // its closed form, and no rates or interval: for searches
};

struct Options {
  Detail detail = Detail::kFull;
  // One rank whose peers answer at once: no messages, no waiting. Recorded ranks are measured so.
  bool alone = false;
  std::int64_t rank = 0;                     // alone: which
  const Calibration* calibration = nullptr;  // where no machine is given; null: the built-in one
  PriceStore* known = nullptr;               // what a search on this machine has priced before
};

// The job must be complete and the layout its own.
[[nodiscard]] StepTime predict(const job::Job& job, const job::PipelineLayout& layout, const Machine& machine,
                               const Options& options = {});

// What the passes of a job's pipeline take, and its messages.
[[nodiscard]] PipelineTimes pipeline_times(const job::Job& job, const job::PipelineLayout& layout,
                                           const Machine& machine);

// With the job's own cluster and layout.
[[nodiscard]] Result<StepTime> predict(const job::Job& job, const Options& options = {});

}  // namespace plimsoll::timing

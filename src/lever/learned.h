// SPDX-License-Identifier: Apache-2.0
// What a user's own runs have shown of the predictions (plimsoll learn): how much longer a step takes, how much of a
// device stands beside PyTorch, what tensors and the allocator's cache take more or less, by GPU and framework. It acts
// on jobs of that GPU and framework only, and says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "job/job.h"
#include "memory/answer.h"
#include "timing/step_time.h"

namespace plimsoll::lever {

struct LearnedGroup {
  std::string gpu;        // id of the catalogue
  std::string framework;  // "transformers"
  std::int64_t runs = 0;
  std::optional<double> time_factor;    // measured seconds of a step over predicted ones
  std::optional<std::int64_t> context;  // bytes of the CUDA context and of libraries on one device
  std::optional<double> tensors;        // measured peak of tensors over the predicted one
  std::optional<double> cached;         // bytes reserved beyond them, measured over predicted
};

struct Learned {
  std::string path;  // of its file; "" where nothing was learned
  std::vector<LearnedGroup> groups;

  [[nodiscard]] bool empty() const { return groups.empty(); }
  // Those of the job's GPU and framework; nullptr where none are.
  [[nodiscard]] const LearnedGroup* find(const job::Job& job) const;
  // What it does to answers for the job, in words; a job that nothing was learned of is told so.
  [[nodiscard]] std::vector<std::string> words(const job::Job& job) const;
  // Bytes of a device that stand beside PyTorch on top of the rule of thumb; 0 where nothing acts.
  [[nodiscard]] std::int64_t more_outside(const job::Job& job) const;
  // On the seconds of a step, and on the bytes of its tensors; 1 where nothing acts.
  [[nodiscard]] double time_factor(const job::Job& job) const;
  [[nodiscard]] double tensor_factor(const job::Job& job) const;
  // The seconds, times the factor.
  void apply(const job::Job& job, timing::StepTime& time) const;
  // The bytes; words() says so to whoever reads them.
  void apply(const job::Job& job, memory::Answer& memory) const;
};

inline constexpr const char* kLearnedKind = "plimsoll-learned";

[[nodiscard]] bool is_learned(std::string_view text);
[[nodiscard]] Result<Learned> read_learned(const std::string& path, std::string_view text);

}  // namespace plimsoll::lever

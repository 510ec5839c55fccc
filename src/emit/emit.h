// SPDX-License-Identifier: Apache-2.0
// A job as the files that launch it in a framework: its configuration, a torchrun script, a Slurm script.
// Invariant: emit() reads back what it wrote; files that do not give the same job are an error that names
// the key, never files that leave something out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "job/job.h"

namespace plimsoll::emit {

enum class Target : std::uint8_t {
  kJob,
#define PLIMSOLL_ROW(id, name) id,
  PLIMSOLL_FRAMEWORKS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
};

// The files of a framework.
[[nodiscard]] constexpr Target target_of(job::Framework framework) {
  return static_cast<Target>(static_cast<int>(framework) + 1);
}

[[nodiscard]] std::optional<Target> target_from(std::string_view name);
[[nodiscard]] std::vector<std::string> target_names();

struct File {
  std::string name;
  std::string text;
  bool executable = false;
  bool is_command = false;  // a script whose flags say what the job is
};

// Why a key has its value; stands as the comment of the line that sets it. Keys that have no reason are
// commented with what they mean.
struct Reason {
  std::string key;
  std::string text;
};

// The files that launch this completed job. A target that cannot express it is an error that names the key.
[[nodiscard]] Result<std::vector<File>> emit(const job::Job& job, Target target, const std::vector<Reason>& reasons);

// The keys that would come back with another value; none also where nothing can be written.
[[nodiscard]] std::vector<std::string> lost_keys(const job::Job& job, Target target);

// The files of a target that describe the job, in the order in which `plimsoll fit` may be given them; the
// others (launchers) are made of these.
[[nodiscard]] std::vector<std::string> readable_files(const std::vector<File>& files);

}  // namespace plimsoll::emit

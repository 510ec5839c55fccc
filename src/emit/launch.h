// SPDX-License-Identifier: Apache-2.0
// What the launchers of all targets share: the environment that the job needs, the processes per node, the
// torchrun line, the Slurm script, and plimsoll.toml, which holds what no framework's file does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "emit/emit.h"
#include "emit/settings.h"

namespace plimsoll::emit {

struct Variable {
  std::string name;
  std::string value;
  std::string why;
};

// The job's own variables, those without which the framework would refuse to start (rules.md R020, R032, R128,
// R138, R236) and those that it warns about (R156). None but the job's own changes a byte of the prediction.
[[nodiscard]] Result<std::vector<Variable>> environment_of(const job::Job& job, const std::vector<Reason>& reasons);

struct Nodes {
  std::int64_t nodes = 1;
  std::int64_t per_node = 1;  // processes, one for each GPU
};
[[nodiscard]] Result<Nodes> nodes_of(const job::Job& job);

// Facts about the machines and the data that plimsoll needs and frameworks have no keys for.
[[nodiscard]] bool is_fact(std::string_view key);

[[nodiscard]] std::vector<Setting> facts_among(const std::vector<Setting>& settings);

// plimsoll.toml: facts, and the environment where no other file can hold it.
[[nodiscard]] File facts_file(const std::vector<Setting>& facts, const std::vector<Variable>& environment,
                              const std::vector<Reason>& reasons, std::string_view how_to_read);

// Sections of canonical keys in TOML, each line with its reason; model keys are left to the caller.
[[nodiscard]] std::string toml_sections(const std::vector<Setting>& settings, const std::vector<Reason>& reasons);

// launch.sh up to the command: shebang, title, exports.
[[nodiscard]] std::string script_head(const job::Job& job, std::string_view title,
                                      const std::vector<Variable>& environment);

// "torchrun --nproc_per_node 8 ... \" without the program; what is beside it is in host.h.
[[nodiscard]] std::string torchrun(const Nodes& nodes);

[[nodiscard]] File slurm_script(const job::Job& job, const Nodes& nodes);

}  // namespace plimsoll::emit

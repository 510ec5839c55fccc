// SPDX-License-Identifier: Apache-2.0
#include "job/readers/shell_batch.h"

#include <algorithm>

#include "base/text.h"

namespace plimsoll::job {

std::vector<std::string> batch_options_of(std::string_view text) {
  std::vector<std::string> batch_options;
  std::size_t at = 0;
  while (at < text.size() && batch_options.size() < 1000) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    constexpr std::string_view kBatch = "#SBATCH";
    if (line.substr(0, kBatch.size()) != kBatch) continue;
    std::string_view rest = line.substr(kBatch.size());
    rest = trim(rest.substr(0, rest.find('#')));
    for (const std::string_view option : split(rest, ' '))
      if (!option.empty()) batch_options.emplace_back(option);
  }
  // "--nodes 4" as "--nodes=4".
  for (std::size_t i = 0; i + 1 < batch_options.size(); ++i)
    if (batch_options[i].substr(0, 1) == "-" && batch_options[i].find('=') == std::string::npos &&
        batch_options[i + 1].substr(0, 1) != "-") {
      batch_options[i] += '=' + batch_options[i + 1];
      batch_options.erase(batch_options.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  return batch_options;
}

std::vector<std::pair<std::string, std::string>> variables_of_batch(const std::vector<std::string>& options) {
  std::vector<std::pair<std::string, std::string>> variables;
  const auto give = [&variables](const char* name, std::string_view value) {
    if (!value.empty() && value.find_first_not_of("0123456789") == std::string_view::npos)
      variables.emplace_back(name, value);
  };
  for (const std::string& option : options) {
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos) continue;
    const std::string_view key = std::string_view(option).substr(0, equals);
    const std::string_view value = std::string_view(option).substr(equals + 1);
    const std::string_view count = value.substr(value.rfind(':') + 1);
    if (key == "--nodes" || key == "-N")
      for (const char* name : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}) give(name, value);
    // The first task of an array, "0-11%4" or "3,5".
    if (key == "--array" || key == "-a") give("SLURM_ARRAY_TASK_ID", value.substr(0, value.find_first_of(",-:%")));
    if (key == "--ntasks-per-node") give("SLURM_NTASKS_PER_NODE", value);
    if (key == "--gpus-per-node")
      for (const char* name : {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}) give(name, count);
    if (key == "--gres" && value.substr(0, 3) == "gpu") give("SLURM_GPUS_ON_NODE", count);
  }
  return variables;
}

std::vector<std::string> split_fields(std::string_view text, std::string_view separators, std::size_t most) {
  std::vector<std::string> fields;
  while (!text.empty() && fields.size() < most) {
    const std::size_t end = fields.size() + 1 == most ? std::string_view::npos : text.find_first_of(separators);
    fields.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return fields;
}

}  // namespace plimsoll::job

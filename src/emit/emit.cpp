// SPDX-License-Identifier: Apache-2.0
#include "emit/emit.h"

#include <algorithm>

#include <fmt/format.h>

#include "emit/targets.h"
#include "job/read.h"

namespace plimsoll::emit {

namespace {

struct Row {
  Target target;
  std::string_view name;
};
constexpr Row kTargets[] = {
    {Target::kMegatronBridge, "megatron-bridge"},
    {Target::kMegatronLm, "megatron-lm"},
    {Target::kTransformers, "transformers"},
    {Target::kDeepSpeed, "deepspeed"},
    {Target::kFsdp2, "fsdp2"},
    {Target::kTorchtitan, "torchtitan"},
    {Target::kJob, "job"},
};

std::string_view name_of(Target target) {
  for (const Row& row : kTargets)
    if (row.target == target) return row.name;
  return "unknown";
}

Result<std::vector<File>> write(const Order& order, Target target) {
  switch (target) {
    case Target::kJob:
      return write_job_file(order);
    case Target::kMegatronLm:
      return write_megatron_lm(order);
    case Target::kMegatronBridge:
      return write_megatron_bridge(order);
    case Target::kTransformers:
      return write_transformers(order);
    case Target::kDeepSpeed:
      return write_deepspeed(order);
    case Target::kFsdp2:
      return write_fsdp2(order);
    case Target::kTorchtitan:
      return write_torchtitan(order);
  }
  return bad_input(fmt::format("{}: no writer", name_of(target)));
}

std::string shown(const job::Job& job, const std::string& key) {
  const auto value = meant_value(job, key);
  if (!value) return {};
  std::string text = value->is_null() ? "none" : document::to_text(*value);
  constexpr std::size_t kLongest = 60;
  return text.size() > kLongest ? text.substr(0, kLongest - 3) + "..." : text;
}

Result<job::Job> read_again(const std::vector<File>& files) {
  std::vector<job::InputFile> inputs;
  for (const std::string& name : readable_files(files))
    for (const File& file : files)
      if (file.name == name) inputs.push_back({file.name, file.text});
  return job::read_job(inputs, {});
}

// What the files give must be the job; the environment may hold more, where the framework demands it.
Status check(const job::Job& job, Target target, const std::vector<File>& files,
             const std::vector<Variable>& environment) {
  const auto read = read_again(files);
  if (!read)
    return bad_input(fmt::format("{} cannot express this job: {}", name_of(target), to_string(read.error())),
                     read.error().hint);
  const std::vector<std::string> keys = differing_keys(job, *read);
  if (!keys.empty()) {
    const std::string wanted = shown(job, keys.front());
    return bad_input(
        fmt::format("{} cannot express {}{}", name_of(target), keys.front(),
                    wanted.empty() ? "" : fmt::format(" = {}; it would be {}", wanted, shown(*read, keys.front()))),
        target == Target::kJob ? "" : "emit a job file instead, or change that key");
  }
  std::map<std::string, std::string> wanted;
  for (const Variable& variable : environment) wanted[variable.name] = variable.value;
  if (read->environment == wanted) return {};
  for (const auto& [name, value] : wanted) {
    const auto found = read->environment.find(name);
    if (found == read->environment.end() || found->second != value)
      return bad_input(fmt::format("{} cannot express environment.{}", name_of(target), name));
  }
  for (const auto& [name, value] : read->environment)
    if (!wanted.contains(name))
      return bad_input(fmt::format("{} sets environment.{} = {}, which the job does not", name_of(target), name, value),
                       fmt::format("set environment.{} in the job", name));
  return {};
}

}  // namespace

std::optional<Target> target_from(std::string_view name) {
  for (const Row& row : kTargets)
    if (row.name == name) return row.target;
  return std::nullopt;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Row& row : kTargets) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> readable_files(const std::vector<File>& files) {
  const bool has_facts =
      std::any_of(files.begin(), files.end(), [](const File& file) { return file.name == "plimsoll.toml"; });
  std::vector<std::string> names;
  for (const File& file : files) {
    const bool is_document =
        file.name.ends_with(".toml") || file.name.ends_with(".yaml") || file.name.ends_with(".json");
    const bool is_script = file.name == "launch.sh" && file.text.find("pretrain_gpt.py") != std::string::npos;
    if (is_document || (is_script && has_facts)) names.push_back(file.name);
  }
  return names;
}

std::vector<std::string> lost_keys(const job::Job& job, Target target) {
  const auto environment = environment_of(job, {});
  const auto nodes = nodes_of(job);
  if (job.model.layers.empty() || !environment || !nodes) return {};
  const std::vector<Reason> no_reasons;
  const auto files = write({job, no_reasons, *environment, *nodes}, target);
  if (!files) return {};
  const auto read = read_again(*files);
  return read ? differing_keys(job, *read) : std::vector<std::string>{};
}

Result<std::vector<File>> emit(const job::Job& job, Target target, const std::vector<Reason>& reasons) {
  if (job.model.layers.empty()) return bad_input("the job has no model", "complete it first");
  PLIMSOLL_TRY(environment, environment_of(job, reasons));
  PLIMSOLL_TRY(nodes, nodes_of(job));
  const Order order{job, reasons, environment, nodes};
  PLIMSOLL_TRY(files, write(order, target));
  PLIMSOLL_TRY_STATUS(check(job, target, files, environment));
  return files;
}

}  // namespace plimsoll::emit

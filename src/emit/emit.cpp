// SPDX-License-Identifier: Apache-2.0
#include "emit/emit.h"

#include <algorithm>

#include <fmt/format.h>

#include "emit/targets.h"
#include "job/read.h"

namespace plimsoll::emit {

namespace {

using Write = Result<std::vector<File>> (*)(const Order& order);
constexpr Write kWriters[] = {  // by target
    write_job_file,
#define PLIMSOLL_ROW(id, name) write_##name,
    PLIMSOLL_FRAMEWORKS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
};

std::string_view name_of(Target target) {
  for (const job::Framework framework : job::all_frameworks())
    if (target_of(framework) == target) return job::name_of(framework);
  return "job";
}

Result<std::vector<File>> write(const Order& order, Target target) {
  return kWriters[static_cast<std::size_t>(target)](order);
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
  for (const job::Framework framework : job::all_frameworks())
    if (job::name_of(framework) == name) return target_of(framework);
  return name == "job" ? std::optional(Target::kJob) : std::nullopt;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const job::Framework framework : job::all_frameworks()) names.emplace_back(job::name_of(framework));
  names.emplace_back("job");
  return names;
}

std::vector<std::string> readable_files(const std::vector<File>& files) {
  const bool has_facts =
      std::any_of(files.begin(), files.end(), [](const File& file) { return file.name == "plimsoll.toml"; });
  std::vector<std::string> names;
  for (const File& file : files) {
    const bool is_document =
        file.name.ends_with(".toml") || file.name.ends_with(".yaml") || file.name.ends_with(".json");
    if (is_document || (file.is_command && has_facts)) names.push_back(file.name);
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

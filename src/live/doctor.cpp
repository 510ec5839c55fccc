// SPDX-License-Identifier: Apache-2.0
#include "live/doctor.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "answer/json.h"
#include "base/ask.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/text.h"
#include "cluster/device_name.h"
#include "live/cgroup.h"
#include "live/host.h"
#include "live/nvml.h"

namespace plimsoll::live {

namespace {

constexpr std::chrono::milliseconds kPatience{20'000};  // importing PyTorch from a network disk takes long

std::string_view name_of(Health health) {
  switch (health) {
    case Health::kGood:
      return "good";
    case Health::kLimited:
      return "limited";
    case Health::kMissing:
      return "missing";
  }
  return {};
}

Finding machine(const std::string& root) {
  utsname name{};
  uname(&name);
  const MachineUse use = read_machine(root);
  Finding finding{"machine",
                  fmt::format("{} {}, {} cores, {} of memory", name.sysname, name.machine,
                              std::thread::hardware_concurrency(), format_bytes(use.total)),
                  Health::kGood,
                  {}};
  constexpr std::int64_t kLittle = std::int64_t{1} << 30;
  if (use.total > 0 && use.available < kLittle) {
    finding.health = Health::kLimited;
    finding.means =
        fmt::format("only {} are free: large snapshots and searches may not fit", format_bytes(use.available));
  }
  return finding;
}

Finding shared_memory(const std::string& root) {
  const MachineUse use = read_machine(root);
  Finding finding{"/dev/shm", use.shm_total > 0 ? format_bytes(use.shm_total) : "not there", Health::kGood, {}};
  constexpr std::int64_t kDockerDefault = 64 << 20;
  if (use.shm_total <= kDockerDefault) {
    finding.health = Health::kLimited;
    finding.means = "data loaders with workers and NCCL run out of it: docker run --shm-size=16g, or --ipc=host";
  }
  return finding;
}

Finding memory_limit(const std::string& root) {
  const CgroupUse use = read_cgroup(getpid(), root);
  if (use.limit <= 0) return {"memory limit", "none for this process", Health::kGood, {}};
  Finding finding{
      "memory limit",
      fmt::format("{} for this process and its siblings, {} used", format_bytes(use.limit), format_bytes(use.current)),
      Health::kGood,
      {}};
  if (use.current > use.limit - use.limit / 10) {
    finding.health = Health::kLimited;
    finding.means = "nearly all of it is used: the kernel ends whoever asks for more";
  }
  return finding;
}

std::vector<Finding> devices() {
  const auto nvml = Nvml::load();
  if (!nvml)
    return {{"NVIDIA driver", nvml.error().message, Health::kLimited,
             "predictions need no GPU; run and watch show host memory only, prove does not work here"}};
  std::map<std::string, std::vector<DeviceUse>> kinds;
  for (DeviceUse& device : (*nvml)->read()) kinds[device.name].push_back(std::move(device));
  if (kinds.empty()) {
    const std::string& problem = (*nvml)->problem();
    return {{"NVIDIA driver", problem.empty() ? "there, but no device answers" : problem, Health::kLimited,
             "nvidia-smi says why; prove does not work here"}};
  }
  std::vector<Finding> findings;
  for (const auto& [name, all] : kinds) {
    const auto known = cluster::gpu_of_device(all.front().name, all.front().total);
    const std::string id = known ? known->id : "";
    Finding finding{"GPU",
                    fmt::format("{} x {}, {} each{}", all.size(), name, format_bytes(all.front().total),
                                id.empty() ? "" : fmt::format(" (--gpu {})", id)),
                    Health::kGood,
                    {}};
    const auto busy = std::count_if(all.begin(), all.end(), [](const DeviceUse& one) {
      constexpr std::int64_t kIdle = std::int64_t{1} << 30;
      return one.used > kIdle;
    });
    if (id.empty())
      finding.means = fmt::format("not in the catalogue: give --gpu-memory {}", format_bytes(all.front().total));
    else if (busy > 0)
      finding.means = fmt::format("{} in use already: plimsoll watch --all says by whom", busy);
    if (!finding.means.empty()) finding.health = Health::kLimited;
    findings.push_back(std::move(finding));
  }
  return findings;
}

Finding pytorch(const std::string& python) {
  const auto version = ask({python, "-c", "import sys; print('.'.join(map(str, sys.version_info[:3])))"}, kPatience);
  if (!version)
    return {"Python", fmt::format("{} cannot be run", python), Health::kLimited,
            "capture, prove and the hook of run need the Python of your training: --python names it"};
  const auto torch =
      ask({python, "-c", "import torch; print(torch.__version__, torch.cuda.is_available())"}, kPatience);
  const std::string shown{trim(*version)};
  if (!torch)
    return {"Python", fmt::format("{} {} without PyTorch", python, shown), Health::kLimited,
            "capture and prove need the Python of your training: --python names it"};
  const std::vector<std::string_view> words = split(trim(*torch), ' ');
  Finding finding{"Python", fmt::format("{} {} with PyTorch {}", python, shown, words[0]), Health::kGood, {}};
  int major = 0;
  int minor = 0;
  if (std::sscanf(std::string(words[0]).c_str(), "%d.%d", &major, &minor) == 2 &&
      (major < 2 || (major == 2 && minor < 5))) {
    finding.health = Health::kLimited;
    finding.means = "capture needs PyTorch 2.5 or newer";
  } else if (words.size() > 1 && words[1] != "True") {
    finding.means = "it sees no GPU: capture works, prove does not";
  }
  return finding;
}

Finding temporary_folder() {
  std::error_code failure;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(failure);
  if (failure || access(folder.c_str(), W_OK) != 0)
    return {"temporary folder", failure ? "not there" : folder.string(), Health::kLimited,
            "check --against and prove write there: TMPDIR names another one"};
  return {"temporary folder", folder.string(), Health::kGood, {}};
}

}  // namespace

bool Checkup::sound() const {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.health == Health::kMissing; });
}

Checkup examine(const CheckupOptions& options) {
  Checkup checkup;
  checkup.findings = {machine(options.root), memory_limit(options.root), shared_memory(options.root)};
  for (Finding& finding : devices()) checkup.findings.push_back(std::move(finding));
  checkup.findings.push_back(pytorch(options.python));
  checkup.findings.push_back(temporary_folder());
  return checkup;
}

std::string to_json(const Checkup& checkup) {
  answer::JsonWriter json;
  json.begin_object().member("schema", answer::kSchema).member("sound", checkup.sound());
  json.key("findings").begin_array();
  for (const Finding& finding : checkup.findings)
    json.begin_object(answer::Layout::kInline)
        .member("what", finding.what)
        .member("found", finding.found)
        .member("health", name_of(finding.health))
        .member("means", finding.means)
        .end_object();
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::live

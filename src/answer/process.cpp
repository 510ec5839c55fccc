// SPDX-License-Identifier: Apache-2.0
#include "answer/process.h"

#include <cstdint>
#include <map>

#include <fmt/format.h>

#include "allocator/settings.h"
#include "answer/json.h"
#include "base/file.h"
#include "base/lines.h"
#include "base/text.h"
#include "job/readers/slurm.h"
#include "why/words.h"

namespace plimsoll::answer {

namespace {

using Environment = std::map<std::string, std::string, std::less<>>;

std::string value_in(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string{} : found->second;
}

// A setting is checked against every release: the one that will run is not known here.
constexpr allocator::Version kAnyVersion{1000, 0};

std::string refusal(const Error& error) {
  return fmt::format("PyTorch refuses it: {}{}{}", error.message, error.hint.empty() ? "" : "; ", error.hint);
}

// Rules about settings that PyTorch, NCCL and Megatron read (facts rules.md G, pytorch-allocator.md).
std::vector<CheckedSetting> check(const Environment& environment) {
  std::vector<CheckedSetting> checked;
  const std::string older = value_in(environment, "PYTORCH_CUDA_ALLOC_CONF");
  const std::string newer = value_in(environment, "PYTORCH_ALLOC_CONF");
  const std::string& acting = newer.empty() ? older : newer;
  const auto parsed = allocator::parse_settings(acting, kAnyVersion);
  const bool made_by_the_shell = acting.find_first_of("$`") != std::string::npos;
  const allocator::Settings settings = parsed ? *parsed : allocator::Settings{};
  const bool expandable = settings.expandable_segments;
  if (!older.empty() && !newer.empty() && older != newer)
    checked.push_back({"PYTORCH_ALLOC_CONF", newer,
                       "set beside PYTORCH_CUDA_ALLOC_CONF with another value; PyTorch 2.9 and later read this one",
                       true});
  checked.push_back({newer.empty() ? "PYTORCH_CUDA_ALLOC_CONF" : "PYTORCH_ALLOC_CONF", acting,
                     acting.empty()                 ? "not set: the allocator splits and keeps fixed segments"
                     : !parsed && made_by_the_shell ? "the shell makes the value; it was not followed"
                     : !parsed                      ? refusal(parsed.error())
                     : expandable ? "expandable segments are on: fragmentation of fixed segments is ruled out"
                                  : "expandable segments are off",
                     !parsed && !made_by_the_shell});
  if (settings.max_split_size != allocator::kUnlimited && expandable)
    checked.push_back(
        {"max_split_size_mb", acting,
         "keeps free blocks above it from smaller requests, in expandable segments too: reserved memory grows; "
         "use one of the two",
         true});
  if (!settings.native && expandable)
    checked.push_back({"backend", acting, "expandable segments belong to the native backend and are ignored", true});
  if (expandable) {
    const std::string graph_register = value_in(environment, "NCCL_GRAPH_REGISTER");
    if (graph_register != "0")
      checked.push_back({"NCCL_GRAPH_REGISTER", graph_register,
                         "must be 0 with CUDA graphs and expandable segments (Megatron refuses or crashes)", false});
  }
  const std::string connections = value_in(environment, "CUDA_DEVICE_MAX_CONNECTIONS");
  if (!connections.empty() && connections != "1")
    checked.push_back({"CUDA_DEVICE_MAX_CONNECTIONS", connections,
                       "Megatron with TP or CP on Hopper and older wants 1; FSDP wants more", false});
  if (const std::string blocking = value_in(environment, "CUDA_LAUNCH_BLOCKING"); blocking == "1")
    checked.push_back({"CUDA_LAUNCH_BLOCKING", blocking, "slows every kernel; for debugging only", true});
  if (const std::string caching = value_in(environment, "PYTORCH_NO_CUDA_MEMORY_CACHING"); !caching.empty())
    checked.push_back(
        {"PYTORCH_NO_CUDA_MEMORY_CACHING", caching, "switches the caching allocator off: no setting of it acts", true});
  if (const std::string devices = value_in(environment, "CUDA_VISIBLE_DEVICES"); !devices.empty())
    checked.push_back({"CUDA_VISIBLE_DEVICES", devices, "the devices that the process may use", false});
  return checked;
}

std::int64_t status_bytes(std::string_view status, std::string_view name) {
  return why::size_after(status, name).value_or(0);
}

std::int64_t cgroup_limit(std::int64_t pid) {
  const auto groups = read_file(fmt::format("/proc/{}/cgroup", pid), 1 << 20);
  if (!groups) return 0;
  for (const std::string_view line : lines(*groups)) {
    if (!line.starts_with("0::")) continue;
    const auto most = read_file(fmt::format("/sys/fs/cgroup{}/memory.max", line.substr(3)), 1 << 12);
    if (most) return why::leading_integer(*most).value_or(0);
  }
  return 0;
}

}  // namespace

Result<LiveProcess> read_process(std::int64_t pid) {
  LiveProcess process;
  process.pid = pid;
  const auto status = read_file(fmt::format("/proc/{}/status", pid), 1 << 20);
  if (!status)
    return bad_input(fmt::format("there is no process {}", pid),
                     "give the number of the training process on this machine");
  process.resident = status_bytes(*status, "vmrss:");
  process.peak = status_bytes(*status, "vmhwm:");
  process.shared = status_bytes(*status, "rssshmem:");
  if (const auto command = read_file(fmt::format("/proc/{}/cmdline", pid), 1 << 20))
    process.command = std::string{why::cut_text(trim(replace(*command, '\0', ' ')), 200)};
  process.limit = cgroup_limit(pid);
  PLIMSOLL_TRY(block, read_file(fmt::format("/proc/{}/environ", pid), 1 << 22));
  Environment environment;
  for (const std::string_view entry : split(block, '\0')) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos)
      environment[std::string{entry.substr(0, equals)}] = std::string{entry.substr(equals + 1)};
  }
  process.settings = check(environment);
  return process;
}

std::vector<CheckedSetting> check_script(std::string_view text) {
  Environment exported;
  Environment assigned;
  bool starts = false;
  std::vector<CheckedSetting> late;
  for (std::string_view line : lines(text)) {
    line = trim(line);
    if (line.empty() || line.starts_with('#')) continue;
    const bool exports = line.starts_with("export ");
    std::string_view rest = exports ? trim(line.substr(7)) : line;
    const bool launches =
        why::has_any(line, {"torchrun", "srun ", "python ", "deepspeed ", "accelerate launch", "mpirun"}) && !exports;
    // NAME=value words at the beginning of a line: exported, assigned, or given to the command after them.
    while (!rest.empty()) {
      std::size_t end = 0;
      while (end < rest.size() && why::is_word(rest[end])) ++end;
      if (end == 0 || end >= rest.size() || rest[end] != '=') break;
      const std::string name{rest.substr(0, end)};
      rest.remove_prefix(end + 1);
      std::string value;
      if (!rest.empty() && (rest.front() == '"' || rest.front() == '\'')) {
        const std::size_t close = rest.find(rest.front(), 1);
        value = std::string{rest.substr(1, close == std::string_view::npos ? close : close - 1)};
        rest.remove_prefix(close == std::string_view::npos ? rest.size() : close + 1);
      } else {
        std::size_t stop = 0;
        while (stop < rest.size() && !why::is_blank(rest[stop]) && rest[stop] != ';') ++stop;
        value = std::string{rest.substr(0, stop)};
        rest.remove_prefix(stop);
      }
      rest = trim(rest);
      if (starts && why::has_text(name, "alloc_conf"))
        late.push_back({name, value, "is set after the program was started: it does not act", true});
      else if (exports || launches)
        exported[name] = value;
      else
        assigned[name] = value;
    }
    if (exports)
      for (const std::string_view word : split(rest.empty() ? line.substr(7) : rest, ' '))
        if (const auto known = assigned.find(std::string{trim(word)}); known != assigned.end())
          exported[known->first] = known->second;
    starts = starts || launches;
  }
  for (const auto& [name, value] : assigned)
    if (!exported.contains(name) && why::has_any(name, {"alloc_conf", "nccl_", "cuda_"}))
      late.push_back({name, value, "is assigned but not exported: the program does not see it", true});
  const job::PassedOn passed = job::pass_on(text);
  for (const std::string& name : passed.lost) {
    const auto found = exported.find(name);
    if (found == exported.end()) continue;
    if (why::has_any(name, {"alloc_conf", "nccl_", "cuda_", "nvte_"}))
      late.push_back({name, found->second, fmt::format("{}: it does not reach the program", passed.by), true});
    exported.erase(found);
  }
  std::vector<CheckedSetting> all = check(exported);
  all.insert(all.begin(), late.begin(), late.end());
  return all;
}

namespace {

void write_checked(const std::vector<CheckedSetting>& settings, JsonWriter& json) {
  json.key("settings").begin_array();
  for (const CheckedSetting& setting : settings)
    json.begin_object(Layout::kInline)
        .member("name", setting.name)
        .member("value", setting.value)
        .member("verdict", setting.verdict)
        .member("problem", setting.is_problem)
        .end_object();
  json.end_array();
}

}  // namespace

std::string to_json(const LiveProcess& process) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("pid", process.pid).member("command", process.command);
  json.member("resident_bytes", process.resident)
      .member("peak_bytes", process.peak)
      .member("shared_bytes", process.shared);
  if (process.limit > 0) json.member("limit_bytes", process.limit);
  write_checked(process.settings, json);
  json.end_object();
  return json.take();
}

std::string to_json(const CheckedScript& script) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("script", script.path);
  write_checked(script.settings, json);
  return json.end_object().take();
}

}  // namespace plimsoll::answer

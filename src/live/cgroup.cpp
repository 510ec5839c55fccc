// SPDX-License-Identifier: Apache-2.0
#include "live/cgroup.h"

#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/file.h"
#include "base/lines.h"
#include "base/text.h"

namespace plimsoll::live {

namespace {

constexpr std::int64_t kMostText = 1 << 20;
// Version 1 writes "no limit" as the largest multiple of a page: beyond any machine.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

// "max", a missing file and what is no number are nothing.
std::optional<std::int64_t> number_in(const std::string& path) {
  const auto text = read_file(path, kMostText);
  if (!text) return std::nullopt;
  const std::string_view trimmed = trim(*text);
  std::int64_t number = 0;
  const auto parsed = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  if (parsed.ec != std::errc{} || number < 0) return std::nullopt;
  return number;
}

// The number behind a word at the beginning of a line: "oom_kill 3".
std::int64_t keyed(const std::string& path, std::string_view key) {
  const auto text = read_file(path, kMostText);
  if (!text) return 0;
  for (const std::string_view line : lines(*text)) {
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') continue;
    std::int64_t number = 0;
    std::from_chars(line.data() + key.size() + 1, line.data() + line.size(), number);
    return number;
  }
  return 0;
}

struct Membership {
  int version = 0;
  std::string path;  // "/slurm/job_1"
};

// Lines are "4:memory:/path" (version 1) and "0::/path" (version 2); a hybrid machine has both, and the memory
// controller is where it is named.
Membership membership_of(std::int64_t pid, const std::string& root) {
  const auto text = read_file(fmt::format("{}/proc/{}/cgroup", root, pid), kMostText);
  Membership found;
  if (!text) return found;
  for (const std::string_view line : lines(*text)) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty()) {
      if (found.version == 0) found = {2, std::string(line.substr(second + 1))};
      continue;
    }
    for (const std::string_view controller : split(controllers, ','))
      if (controller == "memory") return {1, std::string(line.substr(second + 1))};
  }
  return found;
}

// The tightest limit from the group up to the mount.
std::int64_t tightest(const std::string& mount, std::string path, const char* file) {
  std::int64_t limit = 0;
  while (true) {
    const auto here = number_in(mount + path + "/" + file);
    if (here && *here < kNoLimit && (limit == 0 || *here < limit)) limit = *here;
    if (path.empty()) return limit;
    path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

CgroupUse read_cgroup(std::int64_t pid, const std::string& root) {
  const Membership member = membership_of(pid, root);
  CgroupUse use;
  if (member.version == 0) return use;
  const bool v2 = member.version == 2;
  const std::string mount = root + (v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
  const char* current = v2 ? "memory.current" : "memory.usage_in_bytes";
  // A container often sees its own group as the mount itself, under a path that is the host's.
  std::string path = member.path == "/" ? "" : member.path;
  if (!file_exists(mount + path + "/" + current)) path.clear();
  const std::string group = mount + path;
  if (!file_exists(group + "/" + current) && !file_exists(group + "/memory.max") && !v2) return use;
  use.version = member.version;
  use.path = path.empty() ? "/" : path;
  use.limit = tightest(mount, path, v2 ? "memory.max" : "memory.limit_in_bytes");
  use.current = number_in(group + "/" + current).value_or(0);
  use.peak = number_in(group + (v2 ? "/memory.peak" : "/memory.max_usage_in_bytes")).value_or(0);
  use.files = keyed(group + "/memory.stat", v2 ? "file" : "total_cache");
  use.failures = v2 ? keyed(group + "/memory.events", "max") : number_in(group + "/memory.failcnt").value_or(0);
  use.oom_kills = keyed(group + (v2 ? "/memory.events" : "/memory.oom_control"), "oom_kill");
  return use;
}

}  // namespace plimsoll::live

// SPDX-License-Identifier: Apache-2.0
#include "live/host.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/lines.h"
#include "base/text.h"

namespace plimsoll::live {

namespace {

// More processes than any node has ranks, workers and helpers; a loop in a made-up /proc ends here.
constexpr std::size_t kMostProcesses = 4096;
constexpr std::int64_t kMostStatus = 1 << 20;

std::int64_t integer_of(std::string_view text) {
  text = trim(text);
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// "VmRSS:     123 kB" -> bytes; 0 where the line is missing.
std::int64_t kilobytes(std::string_view text, std::string_view name) {
  for (const std::string_view line : lines(text))
    if (line.starts_with(name)) return std::max<std::int64_t>(0, integer_of(line.substr(name.size()))) * kKiB;
  return 0;
}

std::string proc(const std::string& root, std::int64_t pid, std::string_view file) {
  return fmt::format("{}/proc/{}/{}", root, pid, file);
}

// From the kernel's own list, which not every kernel is built with.
bool listed_children(const std::string& root, std::int64_t pid, std::vector<std::int64_t>& children) {
  bool listed = false;
  const std::string tasks = proc(root, pid, "task");
  for (const std::string& task : names_in(tasks)) {
    const auto text = read_file(fmt::format("{}/{}/children", tasks, task), kMostStatus);
    if (!text) continue;
    listed = true;
    for (const std::string_view word : split(*text, ' '))
      if (const std::int64_t child = integer_of(word); child > 0) children.push_back(child);
  }
  return listed;
}

std::multimap<std::int64_t, std::int64_t> children_by_parent(const std::string& root) {
  std::multimap<std::int64_t, std::int64_t> found;
  for (const std::string& name : names_in(root + "/proc")) {
    const std::int64_t pid = integer_of(name);
    if (pid <= 0) continue;
    const auto text = read_file(proc(root, pid, "stat"), kMostStatus);
    // The name stands in brackets and may hold any character: "12 (a) b) S 1 ...".
    const std::size_t close = text ? text->rfind(')') : std::string::npos;
    if (close == std::string::npos || close + 4 > text->size()) continue;
    found.emplace(integer_of(std::string_view(*text).substr(close + 4)), pid);
  }
  return found;
}

}  // namespace

std::int64_t TreeUse::bytes() const {
  std::int64_t sum = 0;
  std::int64_t shared = 0;
  for (const ProcessUse& process : processes) {
    sum += process.anonymous;
    shared = std::max(shared, process.shared);
  }
  return sum + shared;
}

TreeUse read_tree(std::int64_t pid, const std::string& root) {
  TreeUse tree;
  std::vector<std::int64_t> waiting = {pid};
  std::multimap<std::int64_t, std::int64_t> scanned;
  bool has_scanned = false;
  while (!waiting.empty() && tree.processes.size() < kMostProcesses) {
    const std::int64_t next = waiting.back();
    waiting.pop_back();
    const auto status = read_file(proc(root, next, "status"), kMostStatus);
    if (!status) continue;
    ProcessUse use;
    use.pid = next;
    use.resident = kilobytes(*status, "VmRSS:");
    use.anonymous = kilobytes(*status, "RssAnon:");
    use.shared = kilobytes(*status, "RssShmem:");
    if (status->starts_with("Name:"))
      use.name = printable(trim(std::string_view(*status).substr(5, status->find('\n') - 5)), 64);
    tree.processes.push_back(std::move(use));
    if (listed_children(root, next, waiting)) continue;
    if (!has_scanned) scanned = children_by_parent(root);
    has_scanned = true;
    const auto [first, last] = scanned.equal_range(next);
    for (auto child = first; child != last; ++child) waiting.push_back(child->second);
  }
  return tree;
}

MachineUse read_machine(const std::string& root) {
  MachineUse machine;
  if (const auto info = read_file(root + "/proc/meminfo", kMostStatus)) {
    machine.total = kilobytes(*info, "MemTotal:");
    machine.available = kilobytes(*info, "MemAvailable:");
    machine.page_cache = kilobytes(*info, "Cached:");
  }
  // Where it is no file system in memory (a bare container), its figures are those of a disk.
  struct statfs shm{};
  if (statfs((root + "/dev/shm").c_str(), &shm) == 0 && shm.f_type == TMPFS_MAGIC) {
    const auto block = static_cast<std::int64_t>(shm.f_bsize);
    machine.shm_total = static_cast<std::int64_t>(shm.f_blocks) * block;
    machine.shm_used = machine.shm_total - static_cast<std::int64_t>(shm.f_bfree) * block;
  }
  return machine;
}

}  // namespace plimsoll::live

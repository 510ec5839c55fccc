// SPDX-License-Identifier: Apache-2.0
#include "live/evidence.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"

namespace plimsoll::live {

namespace {

constexpr std::size_t kMostMessages = 200;
constexpr std::size_t kRecordBytes = 8192;

bool is_about_memory(std::string_view message) {
  for (const std::string_view word : {"oom-kill", "Out of memory", "Killed process", "oom_reaper", "NVRM: Xid"})
    if (message.find(word) != std::string_view::npos) return true;
  return false;
}

}  // namespace

std::vector<std::string> kernel_messages(double begun, const std::string& device) {
  std::vector<std::string> found;
  const int log = open(device.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (log < 0) return found;
  // One record per read: "priority,number,microseconds,flags;message\n continuation".
  std::array<char, kRecordBytes> bytes{};
  while (found.size() < kMostMessages) {
    const ssize_t got = read(log, bytes.data(), bytes.size());
    if (got < 0 && errno == EPIPE) continue;  // the oldest were overwritten while we read
    if (got <= 0) break;
    const std::string_view record(bytes.data(), static_cast<std::size_t>(got));
    const std::size_t semicolon = record.find(';');
    if (semicolon == std::string_view::npos) continue;
    const std::vector<std::string_view> head = split(record.substr(0, semicolon), ',');
    std::int64_t microseconds = 0;
    if (head.size() > 2) std::from_chars(head[2].data(), head[2].data() + head[2].size(), microseconds);
    if (static_cast<double>(microseconds) * 1e-6 < begun) continue;
    const std::string_view message = record.substr(semicolon + 1, record.find('\n', semicolon) - semicolon - 1);
    if (is_about_memory(message)) found.push_back("kernel: " + printable(message, 600));
  }
  close(log);
  return found;
}

std::string word_on_kill(const Ending& ending, const Most& most, const std::vector<std::string>& kernel) {
  if (ending.code() != 128 + SIGKILL || most.cgroup_last.version == 0 || most.oom_kills() > 0 || !kernel.empty())
    return {};
  return "the kernel ended no process of this memory group for memory: somebody else sent the signal, or it was on "
         "another machine";
}

std::string steps_text(const std::vector<RankRun>& ranks) {
  constexpr std::size_t kMostRanks = 4;
  constexpr std::size_t kMostLines = 200;
  std::vector<const RankRun*> chosen;
  for (const RankRun& rank : ranks)
    if (rank.oom && !rank.steps.empty() && chosen.size() < kMostRanks) chosen.push_back(&rank);
  if (chosen.empty() && !ranks.empty())
    chosen.push_back(&*std::max_element(ranks.begin(), ranks.end(), [](const RankRun& a, const RankRun& b) {
      return a.peak_reserved < b.peak_reserved;
    }));
  std::string text;
  for (const RankRun* rank : chosen) {
    const std::size_t stride = rank->steps.size() / kMostLines + 1;
    for (std::size_t i = 0; i < rank->steps.size(); i += stride)
      if (const StepReading& step = rank->steps[i]; step.allocated > 0)
        text +=
            fmt::format("[rank{}]: step {}: memory allocated {:.2f} GiB, reserved {:.2f} GiB\n", rank->rank, step.step,
                        static_cast<double>(step.allocated) / kGiB, static_cast<double>(step.reserved) / kGiB);
  }
  return text;
}

std::string evidence_text(const Circumstances& circumstances) {
  std::string text;
  for (const std::string& line : circumstances.kernel) text += line + "\n";
  const Most& most = circumstances.most;
  if (most.oom_kills() > 0)
    text += fmt::format("cgroup {} memory.events: oom_kill {} (limit {} bytes, most charged {} bytes)\n",
                        most.cgroup_last.path, most.oom_kills(), most.cgroup_last.limit, most.cgroup_most);
  if (!circumstances.has_log)
    for (const RankRun& rank : circumstances.ranks)
      if (!rank.error.empty()) text += fmt::format("[rank{}]: {}: {}\n", rank.rank, rank.error_type, rank.error);
  // In the words of a container's record, which plimsoll why knows. Only of the command's own end: a rank that it
  // waited for may have been on another machine.
  if (circumstances.ending.signal == SIGKILL && !word_on_kill(circumstances.ending, most, circumstances.kernel).empty())
    text += fmt::format("OOMKilled: false (cgroup {}: the kernel ended no process of it for memory)\n",
                        most.cgroup_last.path);
  if (circumstances.ending.signal > 0)
    text += fmt::format("the command was ended by signal {} ({})\n", circumstances.ending.signal,
                        strsignal(circumstances.ending.signal));
  else if (circumstances.ending.exit_code != 0 && !text.empty())
    text += fmt::format("the command ended with exit code {}\n", circumstances.ending.exit_code);
  return text;
}

}  // namespace plimsoll::live

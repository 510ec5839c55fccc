// SPDX-License-Identifier: Apache-2.0
#include "live/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <tuple>

#include <fmt/format.h>

#include "base/file.h"
#include "base/folder.h"
#include "base/write.h"

namespace plimsoll::catalog {
extern const std::string_view kHookPy;
}

namespace plimsoll::live {

namespace {

namespace fs = std::filesystem;

struct RemovedAtEnd {
  const std::string& path;
  ~RemovedAtEnd() { unlink(path.c_str()); }
};

std::string default_name() {
  const std::time_t now = std::time(nullptr);
  std::tm broken{};
  localtime_r(&now, &broken);
  return fmt::format("plimsoll-run-{:04}{:02}{:02}-{:02}{:02}{:02}", broken.tm_year + 1900, broken.tm_mon + 1,
                     broken.tm_mday, broken.tm_hour, broken.tm_min, broken.tm_sec);
}

tl::unexpected<Error> cannot(const std::string& path, const std::string& why) {
  return tl::make_unexpected(Error{Code::kMissing, fmt::format("{}: {}", path, why), {}, "--out names another folder"});
}

bool has_rank_file(const std::string& folder) {
  const std::vector<std::string> names = names_in(folder);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.starts_with("rank-") && name.ends_with(".jsonl"); });
}

// "rank-12.oom.pickle" -> 12, so that names sort as numbers do.
std::int64_t rank_in(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  std::int64_t rank = 0;
  std::from_chars(name.data() + 5, name.data() + name.size(), rank);
  return rank;
}

// "rank-12-restart-2.oom.pickle" -> 2: of the last start of the ranks come first.
std::int64_t restart_in(const std::string& path) {
  constexpr std::string_view kMark = "-restart-";
  const std::string name = fs::path(path).filename().string();
  const std::size_t at = name.find(kMark);
  std::int64_t restart = 0;
  if (at != std::string::npos) std::from_chars(name.data() + at + kMark.size(), name.data() + name.size(), restart);
  return restart;
}

// A snapshot of a rank that did not run out itself, while another one did.
bool is_of_peer(const std::string& path) { return path.find(".peer.pickle") != std::string::npos; }

// As it was written, or compressed since.
bool is_snapshot(const std::string& name) {
  return name.ends_with(".pickle") || name.ends_with(".pickle.gz") || name.ends_with(".pickle.zst");
}

// Two runs that begin at once, one of each node perhaps, must not share a folder: the file of samples is made by one of
// them. What keeps it from being made at all shows where the folder is written to.
bool claim(const std::string& folder) {
  const int file = open((fs::path(folder) / kSamplesFile).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return errno != EEXIST;
  close(file);
  return true;
}

}  // namespace

Result<RunFolder> make_run_folder(const std::string& asked) {
  constexpr int kMostRuns = 1000;  // of one name
  std::error_code error;
  fs::path first = fs::absolute(asked.empty() ? default_name() : asked, error).lexically_normal();
  if (error) return cannot(asked, error.message());
  if (first.filename().empty()) first = first.parent_path();
  std::string folder = first.string();
  for (int number = 2;; ++number) {
    // A name that the user gave may be that of an empty folder; ours is new.
    const bool is_free = asked.empty() ? !fs::exists(folder, error) : !is_run_folder(folder);
    if (is_free) {
      fs::create_directories(folder, error);
      if (error) return cannot(folder, error.message());
      if (claim(folder)) break;
    }
    if (number > kMostRuns) return cannot(first.string(), "a run is in it already");
    folder = fmt::format("{}-{}", first.string(), number);
  }
  // A folder of others, or of a disk that is full or read-only, shows now.
  const std::string probe = folder + "/.probe";
  const RemovedAtEnd removed{probe};
  if (const Status written = write_whole(probe, "plimsoll\n", Existing::kReplace); !written)
    return tl::make_unexpected(written.error());
  return RunFolder{folder, !asked.empty() && folder != first.string()};
}

bool is_run_folder(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  return fs::is_regular_file(fs::path(path) / kRunFile, error) || has_rank_file(path);
}

Result<std::vector<std::pair<std::string, std::string>>> install_hook(const std::string& folder,
                                                                      const HookOptions& options) {
  const std::string place = folder + "/" + kHookFolder;
  PLIMSOLL_TRY_STATUS(write_folder(place, {{"sitecustomize.py", std::string(catalog::kHookPy)}}, Existing::kReplace));
  const char* path = std::getenv("PYTHONPATH");
  const char* history = options.history == History::kOff      ? "off"
                        : options.history == History::kStacks ? "stacks"
                        : options.history == History::kEvents ? "events"
                                                              : "auto";
  return std::vector<std::pair<std::string, std::string>>{
      {"PYTHONPATH", path != nullptr && *path != '\0' ? place + ":" + path : place},
      {"PLIMSOLL_RUN_FOLDER", folder},
      {"PLIMSOLL_RUN_HISTORY", history},
      {"PLIMSOLL_RUN_ENTRIES", std::to_string(options.entries)}};
}

RunFiles files_of(const std::string& folder) {
  const auto existing = [&folder](const char* name) {
    const std::string path = (fs::path(folder) / name).string();
    return file_exists(path) ? path : std::string{};
  };
  RunFiles files;
  files.record = existing(kRunFile);
  for (const char* name : {kStepsFile, kLogFile, kEvidenceFile})
    if (std::string path = existing(name); !path.empty()) files.logs.push_back(std::move(path));
  files.job = existing(kJobFile);
  for (const std::string& name : names_in(folder))
    if (name.starts_with("rank-") && is_snapshot(name)) files.snapshots.push_back(folder + "/" + name);
  std::sort(files.snapshots.begin(), files.snapshots.end(), [](const std::string& a, const std::string& b) {
    const auto key = [](const std::string& path) {
      return std::tuple(is_of_peer(path), -restart_in(path), rank_in(path), path);
    };
    return key(a) < key(b);
  });
  return files;
}

Result<std::vector<std::string>> records_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error))
    if (it->path().filename() == kRunFile) found.push_back(it->path().string());
  if (error) return bad_input(fmt::format("cannot read {}: {}", folder, error.message()));
  if (found.empty()) return bad_input(fmt::format("{}: no run.json in it", folder), "plimsoll run makes one");
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace plimsoll::live

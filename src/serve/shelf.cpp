// SPDX-License-Identifier: Apache-2.0
#include "serve/shelf.h"

#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "answer/captured.h"
#include "base/file.h"
#include "job/read.h"
#include "rl/frameworks/config.h"
#include "rl/frameworks/tools.h"
#include "rl/observe/observe.h"
#include "rl/read.h"
#include "snapshot/memory_stats.h"
#include "snapshot/memory_summary.h"
#include "snapshot/source.h"

namespace plimsoll::serve {

namespace {

constexpr std::size_t kMostFiles = 1000;
constexpr std::int64_t kLargestConfiguration = std::int64_t{16} << 20;

bool is_run(const std::string& path, const std::string& text) {
  if (rl::recognise_config(text, path) || rl::recognise_tool(text)) return true;
  return rl::read_draft(job::InputFile{path, text}, {}).has_value();
}

// A log may print everything that a configuration holds; only files that are one count.
bool is_job(const std::string& path, const std::string& text) {
  const auto kind = job::recognise({path, text});
  return kind && !job::is_log(*kind);
}

// What a post-training run measured, as JSON lines or Prometheus text; a log may print such lines among others.
bool is_metrics(const std::string& path, std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (text[first] != '{' && text[first] != '#')) return false;
  const auto observed = rl::observe_files({path});
  return observed && observed->understood > 0;
}

// The last part of a path, with what a terminal or a file system would stumble over taken out.
std::string plain_name(std::string_view name) {
  const std::size_t slash = name.find_last_of("/\\");
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  constexpr std::size_t kLongest = 120;
  std::string plain;
  for (const char c : name.substr(0, kLongest)) {
    const bool is_kept =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
    plain += is_kept ? c : '_';
  }
  return plain.find_first_not_of('.') == std::string::npos ? "file" : plain;
}

}  // namespace

std::string_view text_of(Kind kind) {
  switch (kind) {
    case Kind::kJob:
      return "job";
    case Kind::kRecording:
      return "recording";
    case Kind::kRun:
      return "rl";
    case Kind::kMetrics:
      return "metrics";
    case Kind::kLog:
      return "log";
  }
  return {};
}

Result<Kind> kind_of(const std::string& path) {
  PLIMSOLL_TRY_STATUS(check_regular_file(path));
  if (answer::is_captured(path)) return Kind::kRecording;
  PLIMSOLL_TRY(packed, snapshot::file_source(path));
  PLIMSOLL_TRY(source, snapshot::unpacked_source(std::move(packed), snapshot::InflateLimits{}));
  std::string head(1 << 16, '\0');
  auto got = source->read(head.data(), head.size());
  if (!got) return tl::make_unexpected(std::move(got.error()).with_context(path));
  head.resize(*got);
  constexpr char kPickle = '\x80';
  if (!head.empty() && (head.front() == kPickle || head.find('\0') != std::string::npos)) return Kind::kRecording;
  std::error_code ignored;
  if (const auto bytes = std::filesystem::file_size(path, ignored);
      !ignored && std::cmp_greater(bytes, kLargestConfiguration))
    return Kind::kLog;
  PLIMSOLL_TRY(text, read_file(path, kLargestConfiguration));
  if (snapshot::looks_like_memory_stats(text) || snapshot::looks_like_memory_summary(text)) return Kind::kRecording;
  if (is_run(path, text)) return Kind::kRun;
  if (is_job(path, text)) return Kind::kJob;
  return is_metrics(path, text) ? Kind::kMetrics : Kind::kLog;
}

Shelf::~Shelf() {
  std::error_code ignored;
  for (const std::string& path : dropped_) {
    std::filesystem::remove(path, ignored);
    std::filesystem::remove(parent_folder(path), ignored);
  }
  if (!folder_.empty()) std::filesystem::remove(folder_, ignored);
}

Item Shelf::put(Item item) {
  const std::lock_guard lock(mutex_);
  item.id = fmt::format("f{}", items_.size() + 1);
  items_.push_back(item);
  return item;
}

Result<Item> Shelf::add(const std::string& path) {
  PLIMSOLL_TRY(kind, kind_of(path));
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(path, failed);
  return put({{}, path, path, kind, failed ? 0 : static_cast<std::int64_t>(bytes)});
}

std::vector<Item> Shelf::items() const {
  const std::lock_guard lock(mutex_);
  return items_;
}

Result<Item> Shelf::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(items_.begin(), items_.end(), [&id](const Item& item) { return item.id == id; });
  if (found == items_.end()) return bad_input("there is no such file; it was dropped onto another run of the page");
  return *found;
}

Result<std::string> Shelf::folder() {
  const std::lock_guard lock(mutex_);
  if (!folder_.empty()) return folder_;
  std::error_code failed;
  std::string name = (std::filesystem::temp_directory_path(failed) / "plimsoll-view-XXXXXX").string();
  if (failed || mkdtemp(name.data()) == nullptr)
    return tl::make_unexpected(
        Error{Code::kMissing, fmt::format("no folder for dropped files: {}", std::strerror(errno)), {}, {}});
  folder_ = name;
  return folder_;
}

Shelf::Drop::Drop(Drop&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)), path_(std::move(other.path_)), name_(std::move(other.name_)) {}

Shelf::Drop::~Drop() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
  std::filesystem::remove(parent_folder(path_), ignored);
}

bool Shelf::Drop::write(const char* data, std::size_t bytes) { return std::fwrite(data, 1, bytes, file_) == bytes; }

Result<Shelf::Drop> Shelf::begin_drop(std::string_view name) {
  PLIMSOLL_TRY(where, folder());
  std::string own = where + "/XXXXXX";  // files of one name, each in a folder of its own
  {
    const std::lock_guard lock(mutex_);
    if (dropped_.size() >= kMostFiles) return bad_input("too many files were dropped; start plimsoll view again");
    if (mkdtemp(own.data()) == nullptr) return bad_input("no room for the dropped file");
  }
  std::string path = own + '/' + plain_name(name);
  std::FILE* file = std::fopen(path.c_str(), "wbx");
  if (file == nullptr) return bad_input(fmt::format("the dropped file cannot be kept: {}", std::strerror(errno)));
  return Drop(file, std::move(path), plain_name(name));
}

Result<Item> Shelf::finish(Drop drop) {
  const long bytes = std::ftell(drop.file_);
  const bool closed = std::fclose(std::exchange(drop.file_, nullptr)) == 0;
  {
    const std::lock_guard lock(mutex_);
    dropped_.push_back(drop.path_);
  }
  if (!closed) return bad_input("the dropped file could not be kept: the disk is full");
  PLIMSOLL_TRY(kind, kind_of(drop.path_));
  return put({{}, drop.name_, drop.path_, kind, bytes});
}

}  // namespace plimsoll::serve

// SPDX-License-Identifier: Apache-2.0
#include "rl/observe/observer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "base/file_hint.h"
#include "base/text.h"

namespace plimsoll::rl {

namespace {

// Longer lines are no metrics; what is beyond is dropped and counted.
constexpr std::size_t kLongestLine = 1U << 20;

}  // namespace

void Observer::begin_file(std::string name) {
  measures_.files.push_back(std::move(name));
  line_ = 0;
  partial_.clear();
  is_skipping_ = false;
}

void Observer::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (!is_skipping_ && partial_.size() + part.size() > kLongestLine) {
      is_skipping_ = true;
      ++measures_.long_lines;
      partial_.clear();
    }
    if (end == std::string_view::npos) {
      if (!is_skipping_) partial_.append(part);
      return;
    }
    bytes.remove_prefix(end + 1);
    ++line_;
    if (is_skipping_) {
      is_skipping_ = false;
    } else if (partial_.empty()) {
      read_line(part);
    } else {
      partial_.append(part);
      read_line(partial_);
      partial_.clear();
    }
  }
}

void Observer::end_file() {
  if (!partial_.empty()) {
    ++line_;
    read_line(partial_);
    partial_.clear();
  }
  timeline_.finish(measures_);
  servers_.finish(measures_);
}

void Observer::read_line(std::string_view raw) {
  ++measures_.lines;
  const std::string_view line = trim(raw);
  if (line.empty()) return;
  const auto file = static_cast<std::uint32_t>(measures_.files.size() - 1);
  const Place place{file, line_};
  const std::string& name = measures_.files.back();
  bool understood = false;
  if (line.front() == '{') {
    const JsonLine kind = read_json_line(line, place, name, timeline_, servers_, measures_);
    understood = kind == JsonLine::kUnderstood;
    if (kind == JsonLine::kBroken && ++measures_.broken_lines == 1) measures_.first_broken = place;
  } else {
    understood = read_prometheus_line(line, place, name, servers_, measures_) ||
                 read_server_line(line, place, name, measures_) || read_console_line(line, place, name, measures_);
  }
  if (understood) ++measures_.understood;
}

Observation observe(const std::vector<InputText>& files, const ObserveOptions& options) {
  Observer observer;
  for (const InputText& file : files) {
    observer.begin_file(file.name);
    observer.feed(file.text);
    observer.end_file();
  }
  return judge(observer.take(), options);
}

Result<Observation> observe_files(const std::vector<std::string>& paths, const ObserveOptions& options) {
  const auto close = [](std::FILE* file) {
    if (file != stdin) std::fclose(file);
  };
  Observer observer;
  std::string buffer(1U << 20, '\0');
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (path != "-" && std::filesystem::is_directory(path, ignored))
      return bad_input(fmt::format("{} is a folder; wanted a file of metrics or a log", path));
    if (path != "-" && std::filesystem::is_block_file(path, ignored))
      return bad_input(fmt::format("{} is a device; wanted a file of metrics or a log", path));
    std::unique_ptr<std::FILE, decltype(close)> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"), close);
    if (!file) return cannot_open(path, errno);
    observer.begin_file(path);
    bool is_first = true;
    while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
      const std::string_view bytes{buffer.data(), got};
      if (is_first && bytes.starts_with("\x1f\x8b"))
        return bad_input(fmt::format("{} is compressed; wanted text", path), "unpack it with gunzip first");
      if (is_first && bytes.find('\0') != std::string_view::npos)
        return bad_input(fmt::format("{} is binary; wanted metrics as JSON lines, a log or Prometheus text", path));
      is_first = false;
      observer.feed(bytes);
    }
    if (std::ferror(file.get()) != 0) return bad_input(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    if (is_first) return bad_input(fmt::format("{} is empty", path), "standard error often goes to another file");
    observer.end_file();
  }
  return judge(observer.take(), options);
}

}  // namespace plimsoll::rl

// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/file_hint.h"

namespace plimsoll {

bool is_endless(int descriptor) {
  struct stat about = {};
  if (fstat(descriptor, &about) != 0) return false;
  if (S_ISBLK(about.st_mode)) return true;
  return S_ISCHR(about.st_mode) && isatty(descriptor) == 0 && about.st_rdev != makedev(1, 3);
}

Result<std::string> read_file(const std::string& path, std::int64_t limit) {
  const auto close = [](std::FILE* f) {
    if (f != stdin) std::fclose(f);
  };
  std::error_code ignored;
  if (path != "-" && std::filesystem::is_directory(path, ignored))
    return bad_input(fmt::format("{} is a folder; wanted a file", path));
  std::unique_ptr<std::FILE, decltype(close)> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"), close);
  if (!file) return cannot_open(path, errno);
  if (is_endless(fileno(file.get()))) return bad_input(fmt::format("{} is a device; wanted a file", path));
  struct stat about = {};
  std::string text;
  // One piece: a string that grows holds its old and its new place at once.
  if (fstat(fileno(file.get()), &about) == 0 && S_ISREG(about.st_mode) && about.st_size <= limit)
    text.reserve(static_cast<std::size_t>(about.st_size) + 1);
  char buffer[65536];
  while (true) {
    const std::size_t got = std::fread(buffer, 1, sizeof buffer, file.get());
    text.append(buffer, got);
    if (static_cast<std::int64_t>(text.size()) > limit)
      return bad_input(fmt::format("{} is larger than {} MiB; this is not a configuration file", path, limit >> 20));
    if (got < sizeof buffer) break;
  }
  if (std::ferror(file.get()) != 0) return bad_input(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  return text;
}

bool file_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

Status check_regular_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code problem;
  const fs::file_status about = fs::status(path, problem);
  if (fs::is_regular_file(about)) return {};
  if (about.type() == fs::file_type::not_found)
    return bad_input(fmt::format("cannot open {}: no such file", path), file_meant_by(path));
  if (problem) return bad_input(fmt::format("cannot open {}: {}", path, problem.message()));
  const char* const what = fs::is_directory(about)                                    ? "a folder"
                           : fs::is_fifo(about)                                       ? "a pipe"
                           : fs::is_socket(about)                                     ? "a socket"
                           : fs::is_character_file(about) || fs::is_block_file(about) ? "a device"
                                                                                      : "no regular file";
  return bad_input(fmt::format("{} is {}; wanted a file", path, what));
}

std::string parent_folder(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace plimsoll

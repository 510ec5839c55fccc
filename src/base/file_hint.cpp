// SPDX-License-Identifier: Apache-2.0
#include "base/file_hint.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.h"
#include "base/folder.h"
#include "base/text.h"

namespace plimsoll {

std::string file_meant_by(const std::string& path) {
  constexpr std::size_t kMost = 10'000;  // a guess is not worth the time that more names would take
  constexpr int kDeepest = 64;
  namespace fs = std::filesystem;
  // Folder by folder: each part that is there stays, the others become the nearest name that is.
  fs::path meant;
  int depth = 0;
  for (const fs::path& part : fs::path(path)) {
    if (++depth > kDeepest) return {};
    std::error_code ignored;
    if (fs::exists(meant / part, ignored)) {
      meant /= part;
      continue;
    }
    const std::vector<std::string> names = names_in(meant.empty() ? "." : meant.string());
    const std::string near = names.size() > kMost ? std::string{} : nearest(part.string(), names);
    if (near.empty()) return {};
    meant /= near;
  }
  return meant == fs::path(path) ? std::string{} : fmt::format("did you mean {}?", meant.string());
}

tl::unexpected<Error> cannot_open(const std::string& path, int reason) {
  return bad_input(fmt::format("cannot open {}: {}", path, std::strerror(reason)),
                   reason == ENOENT ? file_meant_by(path) : std::string{});
}

}  // namespace plimsoll

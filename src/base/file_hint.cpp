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
  const std::filesystem::path wanted(path);
  const std::vector<std::string> names = names_in(parent_folder(path));
  const std::string meant = names.size() > kMost ? std::string{} : nearest(wanted.filename().string(), names);
  if (meant.empty()) return {};
  return fmt::format("did you mean {}?", (wanted.parent_path() / meant).string());
}

tl::unexpected<Error> cannot_open(const std::string& path, int reason) {
  return bad_input(fmt::format("cannot open {}: {}", path, std::strerror(reason)),
                   reason == ENOENT ? file_meant_by(path) : std::string{});
}

}  // namespace plimsoll

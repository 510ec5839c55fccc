// SPDX-License-Identifier: Apache-2.0
#include "base/folder.h"

#include <dirent.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace plimsoll {

namespace {

struct Close {
  void operator()(DIR* folder) const { closedir(folder); }
};

}  // namespace

std::vector<std::string> names_in(const std::string& folder) {
  const std::unique_ptr<DIR, Close> open(opendir(folder.c_str()));
  std::vector<std::string> names;
  if (open == nullptr) return names;
  while (const dirent* entry = readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace plimsoll

// SPDX-License-Identifier: Apache-2.0
#include "answer/check_base.h"

#include <algorithm>
#include <filesystem>

namespace plimsoll::answer {

namespace {

namespace fs = std::filesystem;

// Without a name at its end that is empty or ".", which lexically_relative() would count.
fs::path whole(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

fs::path folder_of(const CheckList& list) { return whole(list.folder.empty() ? "." : list.folder); }

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

bool is_root_of_repository(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / ".git", ignored) || folder == folder.parent_path();
}

}  // namespace

std::string reach_of(const CheckList& list) {
  const fs::path here = folder_of(list);
  fs::path reach = here;
  for (const CheckedEntry& entry : list.entries)
    for (const std::string& operand : entry.input.operands) {
      if (fs::path(operand).is_absolute()) continue;  // the same file in every state
      while (!is_below(whole(here / operand), reach) && !is_root_of_repository(reach)) reach = reach.parent_path();
    }
  return reach.string();
}

std::string folder_in(const std::string& state, const std::string& reach, const CheckList& list) {
  return (fs::path(state) / folder_of(list).lexically_relative(reach)).lexically_normal().string();
}

std::string folder_in_checkout(const std::string& checkout, const CheckList& list) {
  std::error_code ignored;
  const fs::path below = fs::path(checkout) / list.folder;
  if (fs::path(list.folder).is_relative() && fs::is_directory(below, ignored)) return below.string();
  return checkout;
}

BaseList::BaseList(const std::string& base, const CheckList& list) {
  if (base.empty()) return;
  if (auto read = read_check_list((fs::path(base) / fs::path(list.path).filename()).string())) list_ = *std::move(read);
}

const CheckedEntry* BaseList::find(const CheckedEntry& entry) const {
  if (!list_) return &entry;
  const auto same = std::find_if(list_->entries.begin(), list_->entries.end(),
                                 [&entry](const CheckedEntry& other) { return other.name == entry.name; });
  return same == list_->entries.end() ? nullptr : &*same;
}

}  // namespace plimsoll::answer

// SPDX-License-Identifier: Apache-2.0
#include "serve/words.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "job/keys.h"
#include "job/read.h"
#include "rl/keys.h"

namespace plimsoll::serve {

namespace {

// Flags that say what a job is, beside its keys.
constexpr std::array<std::string_view, 8> kFlags = {"framework", "model",  "gpu",      "gpus",
                                                    "command",   "config", "capacity", "device"};

bool is_key(const std::string& name) {
  if (std::find(kFlags.begin(), kFlags.end(), name) != kFlags.end()) return true;
  if (rl::find_key(name) != nullptr) return true;
  const std::vector<std::string>& names = job::key_names();
  return std::find(names.begin(), names.end(), job::canonical_name(name)) != names.end();
}

// Where a name of the catalogue is wanted, a path would be read.
bool may_be_path(const std::string& value) { return value.find('/') != std::string::npos || file_exists(value); }

}  // namespace

Result<std::vector<std::string>> words_of(const Query& query, const Shelf& shelf) {
  std::vector<std::string> words;
  for (const std::string& id : query.files) {
    PLIMSOLL_TRY(item, shelf.find(id));
    words.push_back(item.path);
  }
  for (const auto& [key, value] : query.keys) {
    if (!is_key(key)) return bad_input(fmt::format("{} is not a key of a job or a run", key));
    if (may_be_path(value)) return bad_input(fmt::format("{} names a file; drop the file onto the page instead", key));
    words.push_back("--" + replace(key, '_', '-'));
    words.push_back(value);
  }
  return words;
}

}  // namespace plimsoll::serve

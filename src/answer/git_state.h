// SPDX-License-Identifier: Apache-2.0
// Another state of a repository, unpacked beside it for as long as it is compared with.
#pragma once

#include <string>

#include "base/result.h"

namespace plimsoll::answer {

class GitState {
 public:
  // `revision` of the repository that `folder` lies in: what git archive gives of it. Exit 4 where git fails.
  [[nodiscard]] static Result<GitState> unpack(const std::string& folder, const std::string& revision);

  GitState(GitState&& other) noexcept;
  GitState& operator=(GitState&& other) noexcept;
  GitState(const GitState&) = delete;
  GitState& operator=(const GitState&) = delete;
  ~GitState();

  // The same folder in that state.
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  GitState(std::string root, std::string folder) : root_(std::move(root)), folder_(std::move(folder)) {}

  std::string root_;  // ours, removed at the end; "" when moved from
  std::string folder_;
};

}  // namespace plimsoll::answer

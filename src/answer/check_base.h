// SPDX-License-Identifier: Apache-2.0
// The other state of a repository that a check compares with: which part of the repository it takes, and where the list
// lies in it.
#pragma once

#include <string>

#include "answer/check.h"

namespace plimsoll::answer {

// The folder that holds the list and every file that its jobs name, as far up as the repository goes.
[[nodiscard]] std::string reach_of(const CheckList& list);

// Where the folder of the list is in another state of `reach`.
[[nodiscard]] std::string folder_in(const std::string& state, const std::string& reach, const CheckList& list);

// Where the folder of the list is in another checkout: below it where the list lies below this one, else the checkout
// itself.
[[nodiscard]] std::string folder_in_checkout(const std::string& checkout, const CheckList& list);

// The job as the list of the base has it, so that a change of the list itself is seen, too. The entry as it is now
// where the base has no list that can be read; nothing where its list has no such job.
class BaseList {
 public:
  BaseList(const std::string& base, const CheckList& list);
  [[nodiscard]] const CheckedEntry* find(const CheckedEntry& entry) const;

 private:
  std::optional<CheckList> list_;
};

}  // namespace plimsoll::answer

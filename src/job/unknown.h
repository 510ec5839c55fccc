// SPDX-License-Identifier: Apache-2.0
// Names in a file that no table explains. Real configurations are full of names that cannot change a byte
// (chat templates, comments, loggers): those are one note per file. A name that is nearly a known one, or
// that speaks of something that decides memory, is an error, because a silent answer would be a wrong one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "document/node.h"
#include "job/draft.h"

namespace plimsoll::job {

// What a name speaks of, in words for messages ("parallelism"); empty where nothing says that it has an effect.
[[nodiscard]] std::string_view subject_of(std::string_view key);

class UnknownKeys {
 public:
  void add(const Draft& draft, const Assignment& given);

  // The error of all names that cannot be passed over, or else one note per file. With `strict` every unknown
  // name is an error.
  [[nodiscard]] Status finish(bool strict, std::vector<std::string>& notes) const;

 private:
  struct Name {
    std::string key;
    std::string path;
    std::string where;
    std::string near;          // a known name that it may be meant for
    std::string_view subject;  // why it matters; empty for a near miss
    bool matters = false;
  };
  std::vector<Name> names_;
};

}  // namespace plimsoll::job

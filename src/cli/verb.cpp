// SPDX-License-Identifier: Apache-2.0
#include "cli/verb.h"

namespace plimsoll::cli {

const std::vector<Flag>& common_flags() {
  static const std::vector<Flag> kFlags = {
      {.name = "json", .argument = "", .help = "the answer as JSON"},
      {.name = "color",
       .argument = "WHEN",
       .help = "auto, always or never; auto is colour on a terminal",
       .choices = "auto, always, never"},
      {.name = "quiet", .argument = "", .help = "no warnings and no next step on stderr", .letter = 'q'},
      {.name = "help", .argument = "", .help = "this text; -h is the short one", .letter = 'h'},
  };
  return kFlags;
}

std::vector<Flag> all_flags(const Verb& verb) {
  std::vector<Flag> flags = verb.flags;
  flags.insert(flags.end(), common_flags().begin(), common_flags().end());
  return flags;
}

}  // namespace plimsoll::cli

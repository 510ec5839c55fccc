// SPDX-License-Identifier: Apache-2.0
#include "cluster/architecture.h"

namespace plimsoll::cluster {

std::string_view name_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::kVolta:
      return "volta";
    case Architecture::kTuring:
      return "turing";
    case Architecture::kAmpere:
      return "ampere";
    case Architecture::kAda:
      return "ada";
    case Architecture::kHopper:
      return "hopper";
    case Architecture::kBlackwell:
      return "blackwell";
    case Architecture::kAmd:
      return "amd";
    case Architecture::kOther:
      return "other";
  }
  return "";
}

bool is_architecture(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Architecture::kOther); ++i)
    if (name_of(static_cast<Architecture>(i)) == name) return true;
  return false;
}

std::optional<int> compute_capability(Architecture architecture) {
  switch (architecture) {
    case Architecture::kVolta:
      return 70;
    case Architecture::kTuring:
      return 75;
    case Architecture::kAmpere:
      return 80;
    case Architecture::kAda:
      return 89;
    case Architecture::kHopper:
      return 90;
    case Architecture::kBlackwell:
      return 100;
    case Architecture::kAmd:
    case Architecture::kOther:
      break;
  }
  return std::nullopt;
}

}  // namespace plimsoll::cluster

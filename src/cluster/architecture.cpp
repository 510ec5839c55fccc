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

}  // namespace plimsoll::cluster

// SPDX-License-Identifier: Apache-2.0
#include "why/speaker.h"

#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr const Speaker* kSpeakers[] = {
#define PLIMSOLL_ROW(id, name) &name##_speaker,
    PLIMSOLL_SPEAKERS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
};

constexpr Framework kFrameworks[] = {
#define PLIMSOLL_ROW(id, name) Framework::id,
    PLIMSOLL_SPEAKERS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
};

}  // namespace

std::span<const Framework> all_speakers() { return kFrameworks; }

const Speaker* speaker_of(Framework framework) {
  if (framework == Framework::kUnknown || framework == Framework::kPyTorch) return nullptr;
  return kSpeakers[static_cast<std::size_t>(framework) - 1];
}

Framework framework_marked_in(std::string_view text) {
  for (const Framework framework : kFrameworks)
    for (const std::string_view mark : speaker_of(framework)->marks)
      if (has_text(text, mark)) return framework;
  return Framework::kUnknown;
}

std::string_view framework_name(Framework framework) {
  if (const Speaker* speaker = speaker_of(framework); speaker != nullptr) return speaker->name;
  return framework == Framework::kPyTorch ? "PyTorch" : "unknown";
}

}  // namespace plimsoll::why

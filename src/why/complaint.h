// SPDX-License-Identifier: Apache-2.0
// A sentence that says a resource ran out, in anybody's words: "cannot", "failed to", "refused", "exhausted", "no
// space", "not enough" beside the name of a resource, a size, an error number. Known messages have readers of their
// own that see more; this one sees what nobody has written before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "why/classes.h"
#include "why/oom_message.h"

namespace plimsoll::why {

// An error number of the system with what it was about.
struct SystemError {
  int number = 0;
  std::string_view path;  // as printed, "" where none is
};
// "[Errno 28] No space left on device: '/dev/shm/x'", "os error 28", "code: 28", "ENOSPC", "(28)".
[[nodiscard]] std::optional<SystemError> parse_system_error(std::string_view text);

// Which resource such an error speaks of; kUnknown: none of ours.
[[nodiscard]] Resource resource_of(const SystemError& error, std::string_view text);

struct Complaint {
  Resource resource = Resource::kUnknown;
  bool owner_is_guessed = false;  // "memory" without a word about whose
  OomNumbers figures;
};

// nullopt where the sentence says nothing of the kind, or says it as advice.
[[nodiscard]] std::optional<Complaint> parse_complaint(std::string_view text);

// Figures by the words around them: "wanted 12 GiB, 3 GiB left". Fills only what is empty.
void read_figures(std::string_view text, OomNumbers& figures);

}  // namespace plimsoll::why

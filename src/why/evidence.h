// SPDX-License-Identifier: Apache-2.0
// The lines that are shown beside a cause, and what is noted about them.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "why/diagnosis.h"
#include "why/situation.h"

namespace plimsoll::why {

class EvidenceWriter {
 public:
  EvidenceWriter(const Findings& findings, Diagnosis& diagnosis) : findings_(findings), diagnosis_(diagnosis) {}

  // At most a dozen, each line once.
  void show(const Place& place, std::string_view text, std::string says);
  void note(std::string text) { diagnosis_.notes.push_back(std::move(text)); }

 private:
  const Findings& findings_;
  Diagnosis& diagnosis_;
};

void show_evidence(const Situation& at, Diagnosis& diagnosis);

// Ranks of one job usually peak alike; one that alone runs out has other layers, other data or bad luck with pieces.
void compare_ranks(const Situation& at, Diagnosis& diagnosis);

// Who held the host's memory when the kernel looked for one to kill.
void note_tasks(const Findings& findings, Diagnosis& diagnosis);

// What the settings that the log shows say about the cause.
void check_settings(const Situation& at, Diagnosis& diagnosis);

}  // namespace plimsoll::why

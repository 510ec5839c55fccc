// SPDX-License-Identifier: Apache-2.0
// From findings to a cause: every cause gets a weight from the evidence for it, weights become
// probabilities, and each runner-up carries the reason why it is not the first.
// Invariant: fragmentation has weight only where defragmenting could have served the request.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "why/arithmetic.h"
#include "why/classes.h"
#include "why/findings.h"

namespace plimsoll::why {

struct Evidence {
  std::string file;
  std::int64_t line = 0;
  std::string text;
  std::string says;  // what it shows; may be empty for the message itself
};

struct Candidate {
  Cause cause = Cause::kNotMemory;
  double weight = 0;
  double probability = 0;
  std::string because;  // the strongest reason for it
  std::string against;  // why it is not the first
};

// Rising use from step to step.
struct Growth {
  bool rising = false;
  bool flat = false;    // figures over many steps, and they do not move
  bool varies = false;  // steps need a quarter more than others, and neither do they rise
  bool is_host = false;
  bool is_noisy = false;  // rises on the whole, not from reading to reading
  std::int64_t per_step = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::string gauge;  // "allocated"
  Place first_place;
  Place last_place;
  std::string first_text;
  std::string last_text;
};

struct Diagnosis {
  bool failure = true;                     // false: the log shows no failure
  Resource resource = Resource::kUnknown;  // what ran out
  bool incomplete = false;                 // a log could not be read to its end
  Cause cause = Cause::kNotMemory;
  double confidence = 0;
  std::vector<Candidate> candidates;  // by probability, the cause first
  std::vector<std::string> tags;      // "shm", "upgrade-regression"
  std::optional<int> rank;            // first to fail
  std::vector<int> same;              // ranks that failed the same way
  std::int64_t followers = 0;         // lines of ranks that only followed
  Phase phase = Phase::kUnknown;
  std::optional<std::int64_t> step;  // last one that was done
  std::string what;                  // one sentence
  std::vector<Evidence> evidence;
  OomNumbers numbers;
  Arithmetic sum;
  std::int64_t host_bytes = 0;  // asked for or held on the host
  Growth growth;
  std::vector<std::string> notes;  // settings checked, myths, what to look at
  Framework framework = Framework::kUnknown;
  const Event* root = nullptr;  // into the findings
};

// `findings` must outlive the answer.
[[nodiscard]] Diagnosis diagnose(const Findings& findings);

[[nodiscard]] Growth growth_of(const Findings& findings);

}  // namespace plimsoll::why

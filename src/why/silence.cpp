// SPDX-License-Identifier: Apache-2.0
#include "why/silence.h"

#include <utility>

#include <fmt/format.h>

#include "why/evidence.h"
#include "why/root_event.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

// Who asks has seen something go wrong. That no line says so is an answer where the run says that it ended well; a log
// that ends between two steps may be one of a process that was killed without a word, and of one that shows no step
// nothing is known. Of 23 public reports without a line that was recognised, 8 were failures in words not met before.
constexpr double kNothingSeen = 0.6;
double silence_is_worth(const Findings& findings) {
  constexpr double kEndedWell = 0.9;
  constexpr double kWasAtWork = 0.75;
  if (findings.finished) return kEndedWell;
  return findings.steps > 1 ? kWasAtWork : kNothingSeen;
}

}  // namespace

Diagnosis no_failure(const Findings& findings, Diagnosis diagnosis) {
  EvidenceWriter writer(findings, diagnosis);
  if (findings.alloc_retries > 0 && findings.graphs_place) {
    diagnosis.resource = Resource::kDevice;
    diagnosis.cause = Cause::kCudaGraphMemory;
    diagnosis.confidence = 0.6;
    diagnosis.candidates = {{Cause::kCudaGraphMemory, 3, 0.6, "the allocator had to retry with graphs on", {}},
                            {Cause::kFragmentation, 1, 0.2, "retries free cached memory",
                             "graphs hold private pools that nothing else may use"}};
    diagnosis.phase = Phase::kGraphCapture;
    writer.show(findings.retries_place, findings.retries_text, "the allocator had to free its cache and try again");
    writer.show(*findings.graphs_place, findings.graphs_text, "graphs are in use");
    diagnosis.what = "CUDA graphs hold private pools, and the allocator had to retry";
    return diagnosis;
  }
  const bool doubtful = findings.last_error && !findings.finished;
  const double sure = doubtful ? kNothingSeen : silence_is_worth(findings);
  diagnosis.failure = false;
  diagnosis.resource = Resource::kNone;
  diagnosis.cause = Cause::kNotMemory;
  diagnosis.confidence = sure;
  diagnosis.candidates = {{Cause::kNotMemory, 1, sure, "no line says that anything failed", {}}};
  diagnosis.what = "no failure found in what was given";
  if (!findings.finished && !doubtful)
    writer.note(
        "the log does not say that the run ended: if it did, its exit code and the kernel's log (dmesg) say how");
  if (doubtful)
    writer.note(fmt::format("line {} reports an error, and the log goes on: {}", findings.last_error->place.line,
                            cut_text(findings.last_error->text, 100)));
  if (findings.alloc_retries > 0)
    writer.note(
        fmt::format("the allocator retried {} times: the run works close to its limit", findings.alloc_retries));
  for (const Event& event : findings.events)
    if (went_on(findings, event)) {
      writer.note(fmt::format("line {}: {} (the run went on)", event.place.line, cut_text(event.text, 100)));
      break;
    }
  return diagnosis;
}

}  // namespace plimsoll::why

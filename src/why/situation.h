// SPDX-License-Identifier: Apache-2.0
// What is known about the event that started it all, as the rules of inference ask for it. A figure that the log does
// not print is absent, never zero; a rule that asks for an absent figure does not hold.
#pragma once

#include <optional>

#include "why/arithmetic.h"
#include "why/classes.h"
#include "why/diagnosis.h"
#include "why/findings.h"

namespace plimsoll::why {

struct Situation {
  const Findings& findings;
  const Event& root;
  Resource resource = Resource::kUnknown;
  Phase phase = Phase::kUnknown;
  OomNumbers figures;  // of the event, or of the line that says the same with figures
  Arithmetic sum;
  Growth growth;
  bool also_library = false;     // cuBLAS failed as well
  bool also_addressing = false;  // a device assert or the like is in the log too
  bool also_time_limit = false;  // the scheduler ended the job
  bool restarts_at_same_step = false;
  bool reserved_rises_alone = false;  // the cache grows while tensors do not

  [[nodiscard]] SignalKind kind() const { return root.signal.kind; }
  [[nodiscard]] const OomNumbers& oom() const { return figures; }
  [[nodiscard]] const FramesPhase& frames() const { return root.frames; }
  [[nodiscard]] bool is(SignalKind kind) const { return root.signal.kind == kind; }
  // The frames say so, not only a line before them.
  [[nodiscard]] bool frames_say(Phase wanted) const {
    return (root.has_frames && root.frames.phase == wanted) || root.node == wanted;
  }

  // Shares of the device (or of this process's limit); absent where a figure is missing.
  [[nodiscard]] std::optional<double> others_share() const;
  [[nodiscard]] std::optional<double> cached_share() const;  // of what is reserved
  [[nodiscard]] std::optional<double> live_share() const;    // tensors of this process
  [[nodiscard]] std::optional<double> request_share() const;

  [[nodiscard]] bool in_step() const;         // forward, backward or somewhere in the loop
  [[nodiscard]] bool several_steps() const;   // were done: as many lines, or the number in the last of two
  [[nodiscard]] bool trained() const;         // steps, or the frames of a trainer, came before
  [[nodiscard]] bool is_loading() const;      // an unfinished bar or frames that read a checkpoint
  [[nodiscard]] bool is_full_of_own() const;  // nearly all of it live tensors of this process, and a small request
  // Not even one figure, and the words of the runtime: no allocator was asked, which would have named a size.
  [[nodiscard]] bool is_below_allocator() const;
  [[nodiscard]] bool has_no_figures() const;  // of the message: neither a size nor a device's
  [[nodiscard]] bool is_crumbs() const;       // what is free and cached is hardly more than rounding
  [[nodiscard]] double steady_share() const;  // of the device, over the steps before; 0: not known
};

// What the run was doing at the event: its frames, and what the lines before it announced.
[[nodiscard]] Phase phase_of(const Event& event);

// The first question: what ran out. kUnknown where the event does not say.
[[nodiscard]] Resource resource_of(const Event& event);

[[nodiscard]] Situation situation_of(const Findings& findings, const Event& root, const Growth& growth);

}  // namespace plimsoll::why

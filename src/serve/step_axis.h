// SPDX-License-Identifier: Apache-2.0
// The memory of a rank on the axis of its step's time. The walk has no clock, but its passes are those of the schedule:
// every pass lies where the schedule runs it, its events evenly inside. A walk may hold fewer micro-batches than the
// step, because the middle ones repeat each other; those of the step that it lacks show the walked one they repeat.
#pragma once

#include <optional>
#include <vector>

#include "memory/course.h"
#include "timing/pipeline.h"

namespace plimsoll::serve {

// Events of the walk that happen between two instants, in seconds from the beginning of the step.
struct Piece {
  double from = 0;
  double to = 0;
  memory::EventRange events;
};

struct StepAxis {
  std::vector<Piece> pieces;  // in order, without gaps; empty where walk and schedule do not match
  double seconds = 0;

  // The columns between two instants.
  [[nodiscard]] std::vector<memory::Column> columns(const memory::Course& course, double from, double to,
                                                    std::size_t count) const;
  // When an event happens; nothing for those before the step.
  [[nodiscard]] std::optional<double> time_of(std::uint32_t event) const;
};

// `passes` are the rank's, `update_from` to `update_to` is when its optimizer runs, `seconds` the whole step.
[[nodiscard]] StepAxis make_axis(const memory::Course& course, const std::vector<timing::PassSpan>& passes,
                                 double update_from, double update_to, double seconds);

}  // namespace plimsoll::serve

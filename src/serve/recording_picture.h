// SPDX-License-Identifier: Apache-2.0
// A recording as the page draws it, at any zoom: columns of what is allocated and reserved, blocks by address, the
// segments and the calls behind an instant. All of it is had from one replay.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "answer/recording.h"
#include "base/result.h"
#include "replay/course.h"
#include "replay/space.h"
#include "serve/query.h"

namespace plimsoll::serve {

class RecordingPicture {
 public:
  [[nodiscard]] static Result<std::unique_ptr<RecordingPicture>> open(const std::string& path,
                                                                      const answer::RecordingConditions& conditions);

  // What there is to look at.
  [[nodiscard]] std::string overview() const;
  [[nodiscard]] Result<std::string> columns(const Query& query) const;
  [[nodiscard]] Result<std::string> blocks(const Query& query) const;
  [[nodiscard]] Result<std::string> segments(const Query& query) const;
  [[nodiscard]] Result<std::string> flame(const Query& query) const;
  [[nodiscard]] Result<std::string> object(const Query& query) const;
  // What would have been reserved under another setting, over the same events.
  [[nodiscard]] Result<std::string> under(const Query& query) const;

  [[nodiscard]] const answer::Recording& recording() const { return *recording_; }
  // Empty for a snapshot without a history, whose counters or segments are all there is.
  [[nodiscard]] const std::vector<snapshot::MemoryStats>& counters() const { return counters_; }

 private:
  // Events of a window of the query's axis, and the axis at an event.
  struct Axis {
    bool by_time = false;
    double end = 0;
    double from = 0;
    double to = 0;
  };
  [[nodiscard]] Axis axis_of(const Query& query) const;
  [[nodiscard]] std::uint32_t event_at(const Axis& axis, double at) const;
  [[nodiscard]] double place_of(const Axis& axis, std::uint32_t event) const;
  [[nodiscard]] std::vector<std::uint32_t> bounds_of(const Axis& axis, std::size_t count) const;
  [[nodiscard]] Status needs_history() const;
  [[nodiscard]] Result<std::uint32_t> asked_event(const Query& query) const;
  [[nodiscard]] const replay::Grouping& grouping(const std::string& by) const;

  std::unique_ptr<answer::Recording> recording_;
  std::vector<snapshot::MemoryStats> counters_;
  replay::Levels levels_;
  std::optional<replay::Attribution> attribution_;
  std::optional<replay::Course> course_;
  std::optional<replay::Space> space_;
  mutable std::mutex mutex_;
  mutable std::optional<replay::Grouping> by_category_;
  mutable std::optional<replay::Grouping> by_module_;
  mutable std::optional<replay::Grouping> by_stack_;
};

}  // namespace plimsoll::serve

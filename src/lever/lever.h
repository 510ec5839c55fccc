// SPDX-License-Identifier: Apache-2.0
// The levers: every change of a job that trades bytes, seconds, GPUs or numerics, in one table. A lever proposes the
// changes that make sense for a job, as settings of its request; what they cost and win is found out by pricing the
// changed request, and whether the framework allows them by resolving it. Adding a lever is a row of table.cpp and its
// proposer.
// Invariant: no lever changes the sequences of one optimizer step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "job/request.h"

namespace plimsoll::lever {

// How much of a launch a lever touches, cheapest first.
enum class Reach : std::uint8_t { kVariable = 1, kBatch, kSwitch, kHost, kSplit };

struct Change {
  std::string_view lever;  // id of its row
  std::string label;       // "recompute mlp", "tp 8"
  job::Settings settings;
};

class Proposals;

struct Lever {
  std::string_view id;     // "recompute-mlp"; a fix of `why` that pulls it has the same id
  std::string_view title;  // what it does, in words
  bool lossless = true;    // false: what is learned differs by more than the order of sums
  Reach reach = Reach::kSwitch;
  bool usual = false;       // what people try first: a row of `fit`
  std::string_view source;  // where its mechanism is described
  void (*propose)(const job::Job& job, Proposals& proposals) = nullptr;
};

// Collects what a lever proposes.
class Proposals {
 public:
  void of(const Lever& lever) { lever_ = &lever; }
  void add(std::string label, job::Settings settings) {
    changes_.push_back({lever_->id, std::move(label), std::move(settings)});
  }
  [[nodiscard]] std::vector<Change> take() { return std::move(changes_); }

 private:
  const Lever* lever_ = nullptr;
  std::vector<Change> changes_;
};

[[nodiscard]] std::span<const Lever> levers();
// nullptr where there is none.
[[nodiscard]] const Lever* find_lever(std::string_view id);
// The row behind a change.
[[nodiscard]] const Lever& lever_of(const Change& change);

// Which levers to ask.
struct Which {
  bool only_usual = false;
  bool lossless = true;  // those that leave what is learned alone
  bool science = false;  // and those that do not
};
[[nodiscard]] std::vector<Change> changes_of(const job::Job& job, const Which& which);

// As flags of the command line: --recompute-modules mlp.
[[nodiscard]] std::string as_flags(const job::Settings& settings);

}  // namespace plimsoll::lever

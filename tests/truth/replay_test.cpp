// SPDX-License-Identifier: Apache-2.0
// Recorded histories of a real device: reproduced event by event, also where the head of the recording is missing;
// and what other settings would have done, against runs that were made under them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/text.h"
#include "document/node.h"
#include "replay/exact.h"
#include "replay/limits.h"
#include "replay/recorded_settings.h"
#include "replay/whatif.h"

namespace plimsoll::replay {
namespace {

constexpr std::int64_t kTotal = 150'109'880'320;  // the recording device's
const std::string kData = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/";

std::vector<std::string> recordings() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kData + "snapshots"))
    if (const std::string name = entry.path().filename(); name.ends_with(".pickle.gz"))
      names.push_back(name.substr(0, name.size() - std::string_view(".pickle.gz").size()));
  std::sort(names.begin(), names.end());
  return names;
}

document::Node records() {
  return document::parse_json(read_file(kData + "truth/allocator-h200.json").value()).value();
}

// A fraction that was set through the API is in no snapshot; the records have it.
std::optional<double> fraction_of(const std::string& id) {
  const document::Node root = records();
  for (const document::Node& record : root.find("records")->items)
    if (record.find("id")->text == id)
      if (const document::Node* fraction = record.find("memory_fraction"); !fraction->is_null())
        return fraction->as_real();
  return std::nullopt;
}

struct Loaded {
  snapshot::Snapshot snapshot;
  allocator::Settings settings;
};

Loaded load(const std::string& name) {
  Loaded loaded;
  loaded.snapshot = snapshot::read_snapshot_file(kData + "snapshots/" + name + ".pickle.gz").value();
  loaded.settings = recorded_settings(loaded.snapshot, allocator::kDescribedVersion).settings;
  if (!loaded.settings.fraction) loaded.settings.fraction = fraction_of(name);
  return loaded;
}

ExactReplay replay(const Loaded& loaded) {
  const History history = read_history(loaded.snapshot, 0).value();
  KnownLimits known;
  known.total = kTotal;
  return replay_exactly(history, loaded.settings, recorded_limits(known, infer_limit(history, loaded.settings)));
}

std::string told(const ExactReplay& result) {
  if (result.exact()) return "exact";
  return result.first_difference->recorded + " / " + result.first_difference->simulated;
}

TEST(Recordings, every_event_of_every_recording_is_reproduced) {
  std::size_t events = 0;
  for (const std::string& name : recordings()) {
    const Loaded loaded = load(name);
    const ExactReplay result = replay(loaded);
    EXPECT_EQ(told(result), "exact") << name;
    EXPECT_EQ(result.reproduced, result.events) << name;
    if (loaded.snapshot.device_segments.count > 0) {
      EXPECT_EQ(result.final_blocks_equal, true) << name;
    }
    events += result.events;
  }
  EXPECT_GT(events, 700'000U);
}

// These carry no segments; the blocks at their end were written down beside them.
TEST(Recordings, random_allocation_at_a_limit_ends_with_the_recorded_blocks) {
  for (const char* name : {"churn-fraction", "churn-split64", "churn-capacity-expandable"}) {
    const Loaded loaded = load(name);
    const History history = read_history(loaded.snapshot, 0).value();
    KnownLimits known;
    known.total = kTotal;
    const auto segments =
        exact_state_after(history, loaded.settings, recorded_limits(known, infer_limit(history, loaded.settings)),
                          static_cast<std::uint32_t>(history.ops.size()));
    std::string blocks;
    for (const allocator::SegmentView& segment : segments)
      for (const allocator::BlockView& block : segment.blocks)
        blocks += std::to_string(block.address) + " " + std::to_string(block.size) + " " +
                  (block.state == allocator::BlockState::kFree ? "inactive" : "active_allocated") + "\n";
    EXPECT_EQ(blocks, read_file(kData + "snapshots/" + name + ".blocks.txt").value()) << name;
  }
}

snapshot::Snapshot without_head(const snapshot::Snapshot& whole, std::uint32_t cut) {
  snapshot::Snapshot s = whole;
  s.devices[0].events.first += cut;
  s.devices[0].events.count -= cut;
  return s;
}

TEST(Recordings, a_recording_whose_head_is_lost_is_reproduced_from_there) {
  for (const char* name : {"unit-default", "anatomy-rank-tp1", "anatomy-fsdp2-w8-ckpt", "evalmix--expandable"}) {
    const Loaded loaded = load(name);
    for (const std::uint32_t cut : {100U, 5000U}) {
      Loaded late{without_head(loaded.snapshot, cut), loaded.settings};
      const ExactReplay result = replay(late);
      EXPECT_EQ(told(result), "exact") << name << " without its first " << cut << " events";
    }
  }
}

TEST(WhatIfTruth, peak_reserved_under_other_settings_is_within_one_percent_and_ranked_right) {
  const document::Node root = records();
  std::map<std::string, std::vector<const document::Node*>> programs;
  for (const document::Node& record : root.find("records")->items)
    programs[record.find("program")->text].push_back(&record);
  std::size_t compared = 0;
  for (const auto& [program, runs] : programs) {
    for (const char* from : {"default", "expandable"}) {
      const std::string name = program + "--" + from;
      if (!file_exists(kData + "snapshots/" + name + ".pickle.gz") || runs.size() < 2) continue;
      const Loaded loaded = load(name);
      const History history = read_history(loaded.snapshot, 0).value();
      std::vector<std::pair<double, double>> measured_and_predicted;
      for (const document::Node* record : runs) {
        Surroundings surroundings;
        surroundings.total = surroundings.capacity = kTotal;
        if (const document::Node* fraction = record->find("memory_fraction"); !fraction->is_null())
          surroundings.fraction = fraction->as_real();
        const auto answer = replay_settings(history, {record->find("allocator")->text}, surroundings).value();
        const double measured = record->find("measured")->find("peak_reserved")->as_real();
        const auto predicted = static_cast<double>(answer[0].run.stats.peak_reserved);
        EXPECT_LE(std::abs(predicted / measured - 1), 0.01)
            << name << " under '" << record->find("allocator")->text << "'";
        measured_and_predicted.emplace_back(measured, predicted);
        ++compared;
      }
      for (const auto& [m1, p1] : measured_and_predicted)
        for (const auto& [m2, p2] : measured_and_predicted) EXPECT_EQ(m1 < m2, p1 < p2) << name;
    }
  }
  EXPECT_GE(compared, 28U);
}

}  // namespace
}  // namespace plimsoll::replay

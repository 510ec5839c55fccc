// SPDX-License-Identifier: Apache-2.0
// Captures against real steps on an H200 (tests/data/captures/h200.json says how both were made).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "base/file.h"
#include "capture/accumulate.h"
#include "capture/answer.h"
#include "document/node.h"

namespace plimsoll::capture {
namespace {

struct Errors {
  std::vector<double> allocated;  // percent, absolute, sorted
  std::vector<double> reserved;
  double inside = 0;  // share of measured reserved peaks that the interval holds
};

double at(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
}

std::map<std::string, Errors> score() {
  const std::string folder = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/captures/";
  const document::Node truth = *document::parse_json(*read_file(folder + "h200.json"));
  const cluster::Gpu gpu = *cluster::find_gpu("h200");
  std::map<std::string, Errors> sets;
  for (const document::Node& record : truth.find("records")->items) {
    const Result<Capture> capture = read_capture(folder + record.find("id")->text + ".capture");
    EXPECT_TRUE(capture) << to_string(capture.error());
    if (!capture) continue;
    const bool accumulates = record.find("training_args") != nullptr &&
                             record.find("training_args")->find("gradient_accumulation_steps") != nullptr;
    const Answer found = answer(accumulates ? with_accumulation(*capture) : *capture, gpu, {});
    EXPECT_EQ(found.rank.parameters, record.find("parameters")->integer) << record.find("id")->text;
    const auto percent = [&](const char* key, std::int64_t predicted) {
      const auto measured = static_cast<double>(record.find("measured")->find(key)->integer);
      return 100 * std::abs(static_cast<double>(predicted) - measured) / measured;
    };
    Errors& set = sets[record.find("set")->text];
    set.allocated.push_back(percent("peak_allocated", found.rank.peak_allocated));
    set.reserved.push_back(percent("peak_reserved", found.rank.peak_reserved));
    const std::int64_t off = record.find("measured")->find("peak_reserved")->integer - found.rank.peak_reserved;
    set.inside += std::abs(off) <= found.rank.spread.reserved ? 1 : 0;
  }
  for (auto& [name, set] : sets) {
    std::sort(set.allocated.begin(), set.allocated.end());
    std::sort(set.reserved.begin(), set.reserved.end());
    set.inside /= static_cast<double>(set.allocated.size());
    fmt::print(
        "{:<6} {:>3} steps: allocated median {:.4f} p90 {:.3f} worst {:.3f} %, reserved {:.3f} {:.2f} {:.2f} %, "
        "{:.0f} % inside\n",
        name, set.allocated.size(), at(set.allocated, 0.5), at(set.allocated, 0.9), set.allocated.back(),
        at(set.reserved, 0.5), at(set.reserved, 0.9), set.reserved.back(), 100 * set.inside);
  }
  return sets;
}

TEST(CaptureTruth, steps_that_were_not_seen_are_predicted_within_the_bars) {
  const std::map<std::string, Errors> sets = score();
  ASSERT_TRUE(sets.contains("real") && sets.contains("blind") && sets.contains("seen"));
  const Errors& real = sets.at("real");
  ASSERT_GE(real.allocated.size(), 19U);
  EXPECT_LE(at(real.allocated, 0.5), 0.05);
  EXPECT_LE(real.allocated.back(), 1.5);
  const Errors& blind = sets.at("blind");
  ASSERT_GE(blind.allocated.size(), 30U);
  EXPECT_LE(at(blind.allocated, 0.5), 0.05);
  EXPECT_LE(blind.allocated.back(), 1.5);
  EXPECT_LE(sets.at("seen").allocated.back(), 1.5);
  const Errors& sharded = sets.at("fsdp2");
  ASSERT_EQ(sharded.allocated.size(), 6U);
  EXPECT_LE(at(sharded.allocated, 0.5), 0.05);
  EXPECT_LE(sharded.allocated.back(), 1.5);
  const Errors& accumulated = sets.at("accumulated");
  ASSERT_EQ(accumulated.allocated.size(), 6U);
  EXPECT_LE(accumulated.allocated.back(), 1.5);
  for (const auto& [name, set] : sets) EXPECT_GE(set.inside, 0.85) << name;
}

}  // namespace
}  // namespace plimsoll::capture

// SPDX-License-Identifier: Apache-2.0
// What the graph of a Hugging Face model says it launches, against what PyTorch's profiler counted in real steps of the
// Trainer on an H200 (tests/data/truth/trainer-h200-host.json).
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "document/node.h"
#include "step/transformers/launches.h"
#include "truth/score.h"

namespace plimsoll::truth {
namespace {

using step::transformers::Launches;

double kernels(const Launches& launches) {
  double sum = static_cast<double>(launches.products.size() + launches.attention.size());
  for (const auto& stream : launches.streams) sum += stream.share;
  return sum;
}

struct Counted {
  double forward = 0;
  double backward = 0;
};

// Of all layers, micro-batches and replays of a step.
Counted predicted(const job::Job& job) {
  const auto step = step::transformers::launches_of(job);
  Counted sum{kernels(step.ends.forward), kernels(step.ends.backward)};
  const bool replays = job.recompute.granularity == job::RecomputeGranularity::kFull;
  for (const std::size_t kind : job.model.layers) {
    sum.forward += kernels(step.kinds[kind].forward);
    sum.backward += kernels(step.kinds[kind].backward) + (replays ? kernels(step.kinds[kind].forward) : 0);
  }
  const auto batches = static_cast<double>(job.micro_batches);
  return {sum.forward * batches, sum.backward * batches};
}

TEST(LaunchTruth, a_step_launches_what_the_profiler_counted) {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/truth/trainer-h200-host.json";
  const std::string text = read_file(path).value();
  const RecordFile file = read_records(path, text).value();
  const document::Node root = document::parse_json(text).value();
  const auto& records = root.find("records")->items;
  ASSERT_EQ(records.size(), file.records.size());
  std::vector<double> forward;
  std::vector<double> backward;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const document::Node& counted = *records[i].find("measured")->find("kernels");
    const Counted ours = predicted(file.records[i].job);
    forward.push_back(std::abs(ours.forward / counted.find("forward")->as_real() - 1));
    backward.push_back(std::abs(ours.backward / counted.find("backward")->as_real() - 1));
    EXPECT_LT(forward.back(), 0.13) << file.records[i].id;  // the worst is a small mixture: passes of a sort
    EXPECT_LT(backward.back(), 0.13) << file.records[i].id;
  }
  EXPECT_LT(quantile(forward, 0.5), 0.005);
  EXPECT_LT(quantile(backward, 0.5), 0.025);
}

}  // namespace
}  // namespace plimsoll::truth

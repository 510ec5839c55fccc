// SPDX-License-Identifier: Apache-2.0
#include "answer/captured_recording.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "answer/recording.h"
#include "capture/answer.h"
#include "cluster/cluster.h"
#include "replay/attribution.h"

namespace plimsoll::answer {
namespace {

std::vector<std::string> kept_captures() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(PLIMSOLL_SOURCE_DIR "/tests/data/captures"))
    if (entry.path().extension() == ".capture") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

Recording recording_of(const std::string& path) {
  auto file = read_recording_file(path);
  EXPECT_TRUE(file) << to_string(file.error());
  auto recording = load_recording(path, std::move(file->snapshot), {});
  EXPECT_TRUE(recording) << to_string(recording.error());
  return *std::move(recording);
}

TEST(CapturedRecording, is_a_history_that_replays_exactly_to_the_peaks_that_fit_gives) {
  const std::vector<std::string> paths = kept_captures();
  ASSERT_GT(paths.size(), 40U);
  for (std::size_t i = 0; i < paths.size(); i += 9) {
    const std::string& path = paths[i];
    const capture::Capture step = capture::read_capture(path).value();
    const Recording recording = recording_of(path);
    ASSERT_TRUE(recording.history) << path;
    EXPECT_TRUE(recording.exact.exact()) << path;
    const cluster::Gpu gpu = *cluster::find_gpu(step.capability >= 90 ? "h100-sxm-80gb" : "a100-sxm-80gb");
    const capture::Answer fits = capture::answer(step, gpu, {});
    EXPECT_EQ(recording.run.stats.peak_allocated, fits.rank.peak_allocated) << path;
    EXPECT_EQ(recording.run.stats.peak_reserved, fits.rank.peak_reserved) << path;
  }
}

TEST(CapturedRecording, says_what_its_tensors_are_for) {
  const Recording recording = recording_of(PLIMSOLL_SOURCE_DIR "/tests/data/captures/a100-apertus-b.capture");
  const replay::Attribution attribution(*recording.history);
  std::map<replay::Category, std::int64_t> bytes;
  for (const std::uint32_t object :
       replay::alive_after(*recording.history, static_cast<std::uint32_t>(recording.history->ops.size())))
    bytes[attribution.of(object)] += recording.history->bytes_of(object);
  const std::int64_t weights = 33'035'910 * 4;  // elements, fp32
  EXPECT_NEAR(static_cast<double>(bytes[replay::Category::kParameter]), weights, 0.001 * weights);
  EXPECT_NEAR(static_cast<double>(bytes[replay::Category::kOptimizerState]), 2 * weights, 0.002 * weights);
}

TEST(CapturedRecording, is_of_the_gpu_that_was_named) {
  const std::string path = PLIMSOLL_SOURCE_DIR "/tests/data/captures/a100-apertus-b.capture";
  const auto ampere = read_recording_file(path, "a100-sxm-80gb");
  const auto hopper = read_recording_file(path, "h100-sxm-80gb");
  ASSERT_TRUE(ampere && hopper);
  EXPECT_NE(ampere->snapshot->segments.size(), 0U);
  std::int64_t reserved[2] = {0, 0};
  for (const snapshot::Segment& segment : ampere->snapshot->segments) reserved[0] += segment.total_size;
  for (const snapshot::Segment& segment : hopper->snapshot->segments) reserved[1] += segment.total_size;
  EXPECT_LT(reserved[0], reserved[1]) << "Hopper's cuBLAS has larger workspaces";
  EXPECT_FALSE(read_recording_file(path, "no-such-gpu"));
}

}  // namespace
}  // namespace plimsoll::answer

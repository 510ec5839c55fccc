// SPDX-License-Identifier: Apache-2.0
// A mixer of Mamba-2 requests what its real code requests (Transformers 5.17, PyTorch 2.11): what the allocator
// reserves follows from the order, and is off by up to a seventh where a single release comes late.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/file.h"
#include "capture/answer.h"
#include "job/pipeline_layout.h"
#include "memory/tape_difference.h"
#include "step/program.h"
#include "truth/score.h"

namespace plimsoll::truth {
namespace {

TEST(MixerOrder, requests_of_a_step_are_those_of_the_real_code) {
  const std::string data = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/";
  const std::string path = data + "truth/trainer-families-h200.json";
  const RecordFile file = read_records(path, *read_file(path)).value();
  for (const Record& record : file.records) {
    if (record.id != "mamba2-w32") continue;
    step::Tape ours(true);
    ours.write_all();
    (void)step::run_rank(record.job, *job::pipeline_layout(record.job), 0, ours, false);
    const capture::Capture captured = capture::read_capture(data + "captures/mamba2-w32.capture").value();
    const capture::Recorded code = capture::record_on(captured, *cluster::find_gpu("h200"));

    const memory::TapeDifference found = memory::compare({ours, 0}, {code.tape, 0});
    EXPECT_GE(found.same_requests, 430U);
    // What the scan is made of: 8 MiB a tensor and more. Smaller ones differ in what fake tensors cannot show.
    constexpr std::int64_t kLarge = std::int64_t{8} << 20;
    for (const memory::TapeTensor& tensor : found.requested_by_a)
      EXPECT_TRUE(tensor.bytes < kLarge || tensor.made.operation != step::Operation::kCoreAttention) << tensor.id;
    // Three sums of gradients in each mixer, which autograd makes in place; fake tensors are summed into new ones.
    EXPECT_EQ(std::ranges::count_if(found.requested_by_b, [](const auto& tensor) { return tensor.bytes >= kLarge; }),
              3 * record.job.model.depth());
    return;
  }
  FAIL() << "the record is gone";
}

}  // namespace
}  // namespace plimsoll::truth

// SPDX-License-Identifier: Apache-2.0
// What a forward pass keeps for backward, held tensor by tensor to captures of the real code: the same sizes, as often.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "capture/answer.h"
#include "job/pipeline_layout.h"
#include "memory/tape_difference.h"
#include "step/program.h"
#include "truth/score.h"

namespace plimsoll::truth {
namespace {

// The last event of the second step's forward pass.
std::uint32_t end_of_forward(const step::Tape& tape) {
  bool has_begun = false;
  for (const step::Mark& mark : tape.marks()) {
    if (mark.moment.phase == step::Phase::kForward) has_begun = true;
    if (has_begun && mark.moment.phase == step::Phase::kBackward) return mark.event - 1;
  }
  return 0;
}

std::int64_t sum_of(const std::vector<memory::TapeTensor>& tensors) {
  std::int64_t sum = 0;
  for (const memory::TapeTensor& tensor : tensors) sum += tensor.bytes;
  return sum;
}

// Falcon-Mamba's capture is of Transformers 5.16, whose loss copies the logits of all tokens but the last; 5.17, which
// recorded the steps on an H200, hands them over whole.
bool is_of_another_loss(const Record& record, const memory::TapeTensor& tensor) {
  return record.job.model.model_type == "falcon_mamba" && tensor.made.operation == step::Operation::kLoss;
}

TEST(KeptTensors, forward_keeps_what_the_real_code_keeps) {
  // A thousandth of the peak: counts of experts, seeds, indices in 32 or 64 bits.
  constexpr std::int64_t kShare = 1000;
  const std::string folder = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/captures/";
  const std::string path = folder + "late-a100.json";
  const RecordFile file = read_records(path, *read_file(path)).value();
  for (const Record& record : file.records) {
    const capture::Capture captured = capture::read_capture(folder + record.id + ".capture").value();
    const capture::Recorded code = capture::record_on(captured, record.job.cluster.gpu);
    step::Tape ours(true);
    ours.write_all();
    (void)step::run_rank(record.job, *job::pipeline_layout(record.job), 0, ours, false);
    const std::pair ends = {end_of_forward(ours), end_of_forward(code.tape)};
    ASSERT_TRUE(ends.first > 0 && ends.second > 0) << record.id;

    const memory::TapeDifference found = memory::compare({ours, ends.first}, {code.tape, ends.second});
    std::string first;
    if (!found.only_b.empty()) {
      const capture::Origin origin = capture::origin_of(captured, code.makers, found.only_b.front().id);
      first = fmt::format("; the first that we lack: {} of {}", origin.operation, origin.place);
    }
    std::int64_t other_loss = 0;
    for (const memory::TapeTensor& tensor : found.only_a)
      if (is_of_another_loss(record, tensor)) other_loss += 2 * tensor.bytes;  // and the shorter copy in its place
    EXPECT_LE(sum_of(found.only_a) + sum_of(found.only_b) - other_loss, code.tape.peak() / kShare)
        << record.id << first;
  }
  EXPECT_GE(file.records.size(), 37U);
}

}  // namespace
}  // namespace plimsoll::truth

// SPDX-License-Identifier: Apache-2.0
// Weights are made in the order in which the real code registers its modules: where each lies, and in what order the
// optimizer takes memory for it, follows from that. Held to captures of the real code.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "capture/capture.h"
#include "step/transformers/model.h"
#include "truth/record.h"

namespace plimsoll::truth {
namespace {

std::vector<std::int64_t> of_the_code(const capture::Capture& captured) {
  std::map<std::uint32_t, std::int64_t> bytes;  // as they are made: a resize is another event
  for (const capture::Event& event : captured.events)
    if (event.kind == capture::Kind::kAllocate) bytes.try_emplace(event.storage, event.bytes);
  std::vector<std::int64_t> sizes;
  for (const std::uint32_t storage : captured.parameters) sizes.push_back(bytes[storage]);
  return sizes;
}

std::vector<std::int64_t> of_ours(const job::Job& job) {
  const auto model = step::transformers::make_model(job, step::transformers::whole_model(job));
  std::vector<std::int64_t> sizes;
  for (const auto& weight : model.weights) sizes.push_back(weight.elements * weight.width);
  return sizes;
}

// The first three register their head before their body, and positions behind the norm of the embeddings; Zamba 2 the
// adapters of all layers with the block that they share. Ours do not.
const std::set<std::string> kOtherwise = {"roberta", "xlm-roberta", "camembert", "zamba2"};

TEST(ModuleOrder, weights_are_made_in_the_order_of_the_real_code) {
  const std::string data = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/";
  int compared = 0;
  for (const char* records : {"truth/trainer-families-h200.json", "captures/late-a100.json"}) {
    const RecordFile file = read_records(data + records, *read_file(data + records)).value();
    for (const Record& record : file.records) {
      const std::string path = data + "captures/" + record.id + ".capture";
      if (!file_exists(path) || kOtherwise.contains(record.job.model.model_type)) continue;
      const auto captured = capture::read_capture(path);
      ASSERT_TRUE(captured) << record.id;
      EXPECT_EQ(of_ours(record.job), of_the_code(*captured)) << record.id;
      ++compared;
    }
  }
  EXPECT_GE(compared, 45);
}

}  // namespace
}  // namespace plimsoll::truth

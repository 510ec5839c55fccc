// SPDX-License-Identifier: Apache-2.0
// The line that why proposes and the line that --emit writes put a key in the same place.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <string>

#include "document/node.h"
#include "emit/emit.h"
#include "job/read.h"
#include "why/speaker.h"

namespace plimsoll {
namespace {

// "cfg.ddp.use_megatron_fsdp = ..." -> use_megatron_fsdp: ddp
void collect(const std::string& text, std::map<std::string, std::string>& sections) {
  static const std::regex kSetting(R"re(cfg\.(\w+)\.(\w+) = )re");
  for (std::sregex_iterator it(text.begin(), text.end(), kSetting), end; it != end; ++it) sections[(*it)[2]] = (*it)[1];
}

std::map<std::string, std::string> emitted_sections(const std::string& keys) {
  const auto job = job::read_job({{"job.toml",
                                   "framework='megatron-bridge'\nmodel='qwen3-30b-a3b'\ngpu='h100'\ngpus=32\n"
                                   "seq_length=4096\nmicro_batch_size=1\nglobal_batch_size=64\n" +
                                       keys}},
                                 {});
  EXPECT_TRUE(job.has_value()) << (job ? "" : to_string(job.error()));
  const auto files = emit::emit(*job, emit::Target::kMegatronBridge, {});
  EXPECT_TRUE(files.has_value()) << (files ? "" : to_string(files.error()));
  std::map<std::string, std::string> sections;
  for (const emit::File& file : *files) {
    if (!file.name.ends_with(".yaml")) continue;
    const auto root = document::parse_yaml(file.text);
    EXPECT_TRUE(root.has_value()) << file.name;
    for (const auto& [section, table] : root->members)
      for (const auto& member : table.members) sections[member.first] = section;
  }
  return sections;
}

TEST(Lines, bridge_is_told_a_key_where_its_launch_files_have_it) {
  std::map<std::string, std::string> emitted;
  for (const char* keys :
       {"pipeline_model_parallel_size=2\nrecompute_granularity='full'\nrecompute_method='uniform'\n"
        "recompute_num_layers=1\nattention_backend='flash'\ncross_entropy_loss_fusion=true\n",
        "use_megatron_fsdp=true\ndata_parallel_sharding_strategy='optim_grads_params'\n"
        "[environment]\nCUDA_DEVICE_MAX_CONNECTIONS='8'\n",
        "recompute_granularity='selective'\nrecompute_modules=['core_attn']\nuse_precision_aware_optimizer=true\n"
        "exp_avg_dtype='fp8'\noptimizer_cpu_offload=true\nuse_distributed_optimizer=true\n"})
    emitted.merge(emitted_sections(keys));

  std::size_t compared = 0;
  for (const why::RungLine& line : why::speaker_of(why::Framework::kMegatronBridge)->lines) {
    std::map<std::string, std::string> said;
    collect(std::string(line.line), said);
    for (const auto& [key, section] : said) {
      const auto found = emitted.find(key);
      if (found == emitted.end()) continue;
      ++compared;
      EXPECT_EQ(section, found->second) << line.rung << " sets " << key;
    }
  }

  EXPECT_GE(compared, 10U);
}

}  // namespace
}  // namespace plimsoll

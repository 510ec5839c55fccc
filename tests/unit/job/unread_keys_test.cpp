// SPDX-License-Identifier: Apache-2.0
// A key that speaks of parallelism, the batch, the sequence, precision, adapters, recomputation or offload is read or
// refused, whatever file it stands in: a job answered without it would be another job.
#include <gtest/gtest.h>

#include <functional>

#include <fmt/format.h>

#include "base/text.h"
#include "job/unknown.h"
#include "job/value.h"
#include "support.h"

namespace plimsoll::job {
namespace {

using document::Node;

// Names that no tool has, one for each subject.
constexpr const char* kStrange[] = {
    "odd_tensor_parallel_ways", "odd_batch_count",     "odd_seq_budget",     "odd_fp8_level",
    "odd_lora_width",           "odd_recompute_level", "odd_offload_target", "odd_freeze_first_ten"};

std::optional<ReadOptions> options_for(const InputFile& file) {
  std::vector<ReadOptions> tries(3);
  for (ReadOptions& options : tries) options.gpu = "h100";
  tries[1].gpus = tries[2].gpus = 8;
  tries[2].model = "llama3-8b";
  tries[2].overrides = {{"seq_length", "4096"}, {"micro_batch_size", "1"}};
  for (const ReadOptions& options : tries)
    if (read_job({file}, options)) return options;
  return std::nullopt;
}

// Every table of the file that holds settings, and the path to it.
void for_each_table(Node& table, const std::string& path, const std::function<void(Node&, const std::string&)>& visit) {
  visit(table, path);
  for (std::size_t i = 0; i < table.members.size(); ++i) {
    Node& value = table.members[i].second;
    const std::string& name = table.members[i].first;
    // What is about data, logs and files may say what it likes.
    const bool is_elsewhere = !value.is_object() || value.members.empty() ||
                              std::string(
                                  "dataset datasets data data_stages tokenizer logging logger checkpoints "
                                  "checkpoint general metrics generation job_config env environment "
                                  "scheduler lr_scheduler eval exp_manager wandb profiling rng dist")
                                      .find(name) != std::string::npos;
    const Node* enabled = value.find("enabled");
    const bool is_off_now = enabled != nullptr && is_off(*enabled);
    if (!is_elsewhere && !is_off_now) for_each_table(value, path.empty() ? name : path + "." + name, visit);
  }
}

// The table that holds settings, where the file has them in sections and reads nothing beside.
Node& settings_of(Node& root) {
  for (const std::vector<std::string>& path : {std::vector<std::string>{"modules", "pre_trainer", "overrides"},
                                               {"args"},
                                               {"MODEL_ARGS"},
                                               {"policy"},
                                               {"parallelism"},
                                               {"system"}}) {
    Node* table = &root;
    for (const std::string& name : path) {
      Node* next = nullptr;
      for (auto& [key, value] : table->members)
        if (key == name && value.is_object()) next = &value;
      table = next == nullptr ? table : next;
      if (next == nullptr) break;
    }
    if (table != &root) return *table;
  }
  // NeMo before 2.0: trainer and exp_manager stand beside the model that holds all.
  for (auto& [key, value] : root.members)
    if (key == "model" && value.is_object() && value.find("encoder_seq_length") != nullptr) return value;
  return root;
}

bool is_table_file(const std::string& name) {
  for (const char* ending : {".yaml", ".yml", ".json"})
    if (name.ends_with(ending)) return true;
  return false;
}

struct Count {
  int tried = 0;
  int refused = 0;
  std::vector<std::string> silent;
};

void expect_refused(const InputFile& file, const ReadOptions& options, const std::string& key, const std::string& what,
                    Count& count) {
  ++count.tried;
  const auto job = read_job({file}, options);
  if (!job) {
    ++count.refused;
    return;
  }
  count.silent.push_back(what + " " + key);
}

// Not records of what ran, models and DeepSpeed's own file, in which a program may keep what it likes.
bool holds_settings(const std::string& name, FileKind kind) {
  return is_table_file(name) && kind != FileKind::kHfConfig && kind != FileKind::kTrainerState &&
         kind != FileKind::kWandbConfig;
}

TEST(UnreadKeys, StrangeNamesThatSpeakOfMemoryAreRefusedInEveryTableFile) {
  Count count;
  int files = 0;
  for (const auto& [name, kind] : test::samples()) {
    if (!holds_settings(name, kind)) continue;
    const InputFile file = test::data_file(name);
    const auto options = options_for(file);
    auto root = name.ends_with(".json") ? document::parse_json(file.text) : document::parse_yaml(file.text);
    if (!options || !root || !root->is_object()) continue;
    ++files;
    for (const char* key : kStrange) {
      ASSERT_FALSE(subject_of(key).empty()) << key;
      Node changed = *root;
      settings_of(changed).members.emplace_back(key, integer_node(4));
      expect_refused({file.path, document::to_json(changed)}, *options, key, name, count);
    }
  }
  EXPECT_GT(files, 12);
  EXPECT_TRUE(count.silent.empty()) << count.silent.size() << " of " << count.tried << "\n" << join(count.silent, "\n");
}

TEST(UnreadKeys, SettingsUnderAnotherNameAreRefusedWhereverTheyStand) {
  Count count;
  for (const auto& [name, kind] : test::samples()) {
    if (!holds_settings(name, kind)) continue;
    const InputFile file = test::data_file(name);
    const auto options = options_for(file);
    auto root = name.ends_with(".json") ? document::parse_json(file.text) : document::parse_yaml(file.text);
    if (!options || !root || !root->is_object()) continue;
    std::vector<std::string> paths;
    for_each_table(*root, "", [&](Node& table, const std::string& path) {
      for (const auto& [key, value] : table.members) {
        const bool says = !value.is_object() && !value.is_null() && !is_off(value) && document::to_text(value) != "1";
        if (says && !subject_of("my_" + key).empty()) paths.push_back(path.empty() ? key : path + "." + key);
      }
    });
    for (const std::string& wanted : paths) {
      Node changed = *root;
      std::string key;
      for_each_table(changed, "", [&](Node& table, const std::string& path) {
        for (std::size_t i = 0; i < table.members.size(); ++i) {
          if ((path.empty() ? table.members[i].first : path + "." + table.members[i].first) != wanted) continue;
          key = "my_" + table.members[i].first;
          table.members.emplace_back(key, table.members[i].second);
          return;
        }
      });
      if (!key.empty()) expect_refused({file.path, document::to_json(changed)}, *options, key, name, count);
    }
  }
  EXPECT_GT(count.tried, 60);
  EXPECT_TRUE(count.silent.empty()) << count.silent.size() << " of " << count.tried << "\n" << join(count.silent, "\n");
}

TEST(UnreadKeys, StrangeFlagsThatSpeakOfMemoryAreRefusedInEveryScript) {
  Count count;
  for (const auto& [name, flag] :
       {std::pair{"launch.sh", "--micro-batch-size"}, std::pair{"trainer.sh", "--per_device_train_batch_size"}}) {
    const InputFile file = test::data_file(name);
    const auto options = options_for(file);
    ASSERT_TRUE(options) << name;
    const std::size_t at = file.text.find(flag);
    ASSERT_NE(at, std::string::npos) << name;
    for (const char* key : kStrange) {
      std::string text = file.text;
      text.insert(at, fmt::format("--{} 4 ", key));
      expect_refused({file.path, text}, *options, key, name, count);
    }
  }
  EXPECT_TRUE(count.silent.empty()) << count.silent.size() << " of " << count.tried << "\n" << join(count.silent, "\n");
}

}  // namespace
}  // namespace plimsoll::job

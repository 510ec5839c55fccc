// SPDX-License-Identifier: Apache-2.0
#include "framework/transformers/common_words.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/spelling.h"
#include "base/text.h"
#include "framework/tools/by_names.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

struct Word {
  std::string_view meaning;  // by_names.h
  std::string_view key;      // of the Trainer, TRL or the programs that trainer_script.cpp reads
};

constexpr Word kWords[] = {
    {"max_length", "max_length"},
    {"per_device_train_batch_size", "per_device_train_batch_size"},
    {"batch", "per_device_train_batch_size"},
    {"gradient_accumulation_steps", "gradient_accumulation_steps"},
    {"gradient_checkpointing", "gradient_checkpointing"},
    {"global_batch_size", "global_batch_size"},
    {"model", "model_name_or_path"},
    {"lora_r", "lora_rank"},
    {"lora_target_modules", "lora_target_modules"},
    {"quantize", "bits"},
    {"use_dora", "use_dora"},
    {"lora_dropout", "lora_dropout"},
    {"cp_size", "cp_size"},
    {"tp_size", "tp_size"},
    {"freeze_vision_tower", "freeze_vision_tower"},
    {"freeze_multi_modal_projector", "freeze_multi_modal_projector"},
    {"use_liger_kernel", "use_liger_kernel"},
    {"activation_offloading", "activation_offloading"},
};

// Keys of the Trainer that say the same.
bool says_already(const Node& root, std::string_view key) {
  const auto has_any_of = [&root](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(), [&root](std::string_view name) { return root.has(name); });
  };
  if (key == "max_length")
    return has_any_of({"max_length", "max_seq_length", "model_max_length", "max_seq_len", "max_source_length",
                       "context_length", "seq_length", "source_max_len", "passage_max_len"});
  if (key == "per_device_train_batch_size") return has_any_of({key, "micro_batch_size", "per_gpu_train_batch_size"});
  if (key == "global_batch_size") return has_any_of({key, "gradient_accumulation_steps"});
  if (key == "lora_rank") return has_any_of({"lora_r", "lora_rank", "lora_dim", "r"});
  if (key == "lora_target_modules") return has_any_of({key, "target_modules", "trainable", "lora_trainable"});
  if (key == "bits") return has_any_of({"bits", "load_in_4bit", "load_in_8bit", "quantization_config"});
  if (key == "model_name_or_path") return has_any_of({key, "model_name", "model_id", "model_path", "base_model"});
  return root.has(key);
}

// The Trainer's word for a key that it does not know; empty where there is none.
std::string_view word_for(const Node& root, const std::string& key, const Draft* draft) {
  if (is_key(key) || find_alias(Framework::kTransformers, key) != nullptr) return {};
  if (draft != nullptr && find_alias(draft->names, key) != nullptr) return {};
  const std::string_view meaning = meaning_of(key);
  constexpr std::size_t kMistake = 2;  // letters: a key of the Trainer that is spelled wrong, which is told
  for (const Word& word : kWords)
    if (word.meaning == meaning && edit_distance(key, word.key) > kMistake && !says_already(root, word.key))
      return word.key;
  return {};
}

bool is_encoder_decoder(const Node& root) {
  const Node* name = root.find("model_name_or_path");
  if (name == nullptr || !name->is_string()) return false;
  const std::string word = lower(name->text);
  for (const std::string_view family : {"t5", "bart", "ul2", "mt0", "pegasus", "marian"})
    if (word.find(family) != std::string::npos) return true;
  return false;
}

constexpr std::pair<std::string_view, std::string_view> kPairsOfLengths[] = {{"source_max_len", "target_max_len"},
                                                                             {"max_source_length", "max_target_length"},
                                                                             {"max_source_len", "max_target_len"},
                                                                             {"max_input_length", "max_output_length"},
                                                                             {"cutoff_len_prompt", "cutoff_len_answer"},
                                                                             {"max_prompt_len", "max_answer_len"},
                                                                             {"query_len", "response_len"}};

// A decoder reads question and answer as one sequence; programs that cut both say two lengths.
void join_lengths(Node& root, Draft& draft) {
  for (const auto& [first, second] : kPairsOfLengths) {
    const Node* prompt = root.find(first);
    const Node* answer = root.find(second);
    if (prompt == nullptr || answer == nullptr || is_encoder_decoder(root)) continue;
    const auto one = to_integer(*prompt, Range{1, 1 << 24});
    const auto other = to_integer(*answer, Range{1, 1 << 24});
    if (!one || !other) continue;
    std::erase_if(root.members, [a = first, b = second](const auto& member) {
      return member.first == a || member.first == b || member.first == "max_length";
    });
    root.members.emplace_back("max_length", integer_node(*one + *other));
    draft.written_names["max_length"] = std::string(first);
    draft.notes.push_back(
        fmt::format("{}: {} and {}: one sequence of {} tokens is counted", draft.path, first, second, *one + *other));
  }
}

}  // namespace

Node in_words_of_trainer(const Node& root, Draft& draft) {
  Node result = root;
  join_lengths(result, draft);
  for (auto& [key, value] : result.members) {
    const std::string_view word = word_for(result, key, &draft);
    if (word.empty() || value.is_object()) continue;
    if (meaning_of(key) == "batch")
      draft.notes.push_back(
          fmt::format("{}: {} is taken as the sequences of one GPU (--micro-batch-size)", draft.path, key));
    draft.written_names[std::string(word)] = key;
    key = std::string(word);
  }
  return result;
}

bool has_common_words(const Node& root) {
  for (const auto& [first, second] : kPairsOfLengths)
    if (root.has(first) && root.has(second)) return true;
  return std::any_of(root.members.begin(), root.members.end(),
                     [&root](const auto& member) { return !word_for(root, member.first, nullptr).empty(); });
}

}  // namespace plimsoll::job

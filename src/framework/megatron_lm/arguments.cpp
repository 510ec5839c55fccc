// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's arguments as data: {"args": {"--num-layers": 12, ...}} with the world size, environment
// and vocabulary that a recorded run carries beside them, or a YAML of arguments as its functional tests
// keep them (MODEL_ARGS, ENV_VARS), or plainly flag_name: value.
#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "framework/megatron_lm/flags.h"
#include "framework/megatron_lm/tokenizer.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/parse.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

// The program that a record or a test names: most train GPT, some what this tool does not describe.
Status read_program(const Node& root, Draft& draft) {
  for (const std::string_view key : {"training_script", "test_case", "TRAINING_SCRIPT_PATH"}) {
    const Node* script = root.find(key);
    if (script == nullptr || !script->is_string()) continue;
    if (const std::string_view reason = why_not_modelled(script->text); !reason.empty())
      return bad_input(fmt::format("{} '{}': {}", key, script->text, reason));
    take_model_class(script->text, draft);
  }
  return {};
}

// A record's own vocabulary: padding is computed again, so that another TP size pads for itself; a padded
// size that padding does not explain is kept.
void read_vocabulary(const Node& root, const Node& args, Draft& draft) {
  const Node* resolved = root.find("resolved_vocab_size");
  const Node* padded = root.find("padded_vocab_size");
  if (resolved != nullptr && resolved->is_integer()) {
    draft.assign("vocab_size", *resolved, "resolved_vocab_size");
    draft.assign("tokenizer_type", text_node("as resolved"), "resolved_vocab_size");
  }
  if (padded == nullptr || !padded->is_integer()) return;
  const auto number = [&args](std::string_view flag, std::int64_t otherwise) {
    const Node* value = args.find(flag);
    return value != nullptr && value->is_integer() ? value->integer : otherwise;
  };
  const std::int64_t multiple = number("--make-vocab-size-divisible-by", 128);
  const std::int64_t tensor = number("--tensor-model-parallel-size", 1);
  constexpr std::int64_t kSane = 1 << 28;
  const bool known = resolved != nullptr && resolved->is_integer() && resolved->integer > 0 &&
                     resolved->integer < kSane && multiple > 0 && multiple < kSane && tensor > 0 && tensor < kSane;
  if (!known || round_up(resolved->integer, multiple * tensor) != padded->integer)
    draft.assign("padded_vocab_size", *padded);
}

Status read_environment(const Node& table, Draft& draft) {
  if (!table.is_object()) return bad_input("the environment is not a table of names and values");
  for (const auto& [name, value] : table.members) {
    PLIMSOLL_TRY(text, to_word(value));
    draft.environment[name] = std::move(text);
  }
  return {};
}

// Whether a program's name has the word: examples/t5/pretrain_t5.py has t5.
bool names(std::string_view program, std::string_view word) {
  std::string name(program.substr(program.rfind('/') + 1));
  std::replace(name.begin(), name.end(), '.', '_');
  const auto parts = split(name, '_');
  return std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part == word; });
}

}  // namespace

std::string_view why_not_modelled(std::string_view program) {
  struct Row {
    std::string_view part;
    std::string_view reason;
  };
  constexpr std::string_view kRecurrent = "recurrent (RWKV) models are not modelled";
  constexpr std::string_view kOther = "this program trains more than a decoder; it is not modelled";
  constexpr Row kRows[] = {{"rl", kOther},  {"vlm", kOther},   {"vision", kOther},
                           {"ict", kOther}, {"retro", kOther}, {"rwkv", kRecurrent}};
  for (const Row& row : kRows)
    if (names(program, row.part)) return row.reason;
  return {};
}

void take_model_class(std::string_view program, Draft& draft) {
  for (const std::string_view kind : {"bert", "t5"}) {
    if (!names(program, kind)) continue;
    draft.assign("model_class", text_node(std::string(kind)), "the program");
    const bool has_tokenizer = std::any_of(draft.assignments.begin(), draft.assignments.end(),
                                           [](const Assignment& a) { return a.key == "tokenizer_type"; });
    if (!has_tokenizer)
      draft.assign("tokenizer_type", text_node("BertWordPieceLowerCase"), "the program's default", true);
    return;
  }
}

Status refuse_towers(const Draft& draft) {
  const Assignment* length = nullptr;
  for (const Assignment& given : draft.assignments) {
    if (given.key == "model_class") return {};  // T5 has two lengths, too
    const bool is_tower = given.key == "vision_model_type" ||
                          (given.key == "tokenizer_type" && given.value.text == "MultimodalTokenizer");
    const bool is_length = given.key == "encoder_seq_length" || given.key == "decoder_seq_length";
    if (is_tower || is_length) length = &given;
  }
  if (length == nullptr) return {};
  return bad_input(
      fmt::format("{}: a tower for images or sound beside the language model is not modelled from flags", length->key),
      "--model with its config.json answers for models of Transformers; --model-class t5 names T5");
}

void assign_flag(Draft& draft, std::string_view flag, Node value) {
  std::string_view bare = flag;
  while (bare.substr(0, 1) == "-") bare.remove_prefix(1);
  draft.assign(replace(bare, '-', '_'), std::move(value), flag);
}

void add_parser_defaults(Draft& draft) {
  const auto given = [&draft](std::string_view key) {
    return std::any_of(draft.assignments.begin(), draft.assignments.end(),
                       [key](const Assignment& assignment) { return assignment.key == key; });
  };
  if (!given("group_query_attention")) {
    if (given("num_query_groups"))
      draft.warnings.emplace_back("num_query_groups: has no effect without --group-query-attention");
    draft.assign("group_query_attention", bool_node(false), "the parser's default", true);
  } else if (!given("num_query_groups")) {
    draft.assign("num_query_groups", integer_node(1), "the parser's default", true);
  }
  // Without a rank the query is projected directly.
  if (given("multi_latent_attention") && !given("q_lora_rank"))
    draft.assign("q_lora_rank", Node{}, "the parser's default", true);
  // A number of layers switches CPU offloading on; there is no flag of its own.
  for (std::size_t i = 0; i < draft.assignments.size() && !given("cpu_offloading"); ++i) {
    if (draft.assignments[i].key != "cpu_offloading_num_layers" || !draft.assignments[i].problem.empty()) continue;
    const auto layers = to_integer(draft.assignments[i].value, Range{0, 1 << 24});
    if (layers && *layers > 0)
      draft.assign("cpu_offloading", bool_node(true), "the parser's rule for cpu_offloading_num_layers", true);
    break;
  }
  settle_megatron(draft);
}

Result<Draft> read_megatron_args(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kMegatronArgs;
  draft.vocabulary = Framework::kMegatronLm;
  draft.framework = Framework::kMegatronLm;
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  if (!root.is_object()) return bad_input("wanted a table of arguments");
  const Node* args = root.find("args");
  for (const std::string_view key : {"MODEL_ARGS", "model_args"})
    if (args == nullptr) args = root.find(key);
  const bool is_wrapped = args != nullptr && args->is_object();
  for (const auto& [flag, value] : (is_wrapped ? *args : root).members) {
    if (!is_wrapped && (flag == "ENV_VARS" || flag == "env")) continue;
    assign_flag(draft, flag, value);
  }
  PLIMSOLL_TRY_STATUS(read_program(root, draft));
  take_class_of_vocabulary({}, draft);
  PLIMSOLL_TRY_STATUS(refuse_towers(draft));
  for (const std::string_view key : {"--vocab-file", "--tokenizer-model"})
    if (const Node* name = (is_wrapped ? *args : root).find(key); name != nullptr && name->is_string())
      take_vocabulary_of_tokenizer(name->text, draft);
  add_parser_defaults(draft);
  if (is_wrapped) {
    if (const Node* world = root.find("world_size"); world != nullptr) draft.assign("gpus", *world, "world_size");
    if (const Node* gpu = root.find("gpu_type");
        gpu != nullptr && gpu->is_string() && !equals_ignoring_case(gpu->text, "unknown"))
      draft.assign("gpu", *gpu, "gpu_type");
    read_vocabulary(root, *args, draft);
  }
  take_vocabulary_of_tokenizer({}, draft);
  for (const std::string_view key : {"env", "ENV_VARS"})
    if (const Node* environment = root.find(key); environment != nullptr)
      PLIMSOLL_TRY_STATUS(read_environment(*environment, draft));
  return draft;
}

// A flag of Megatron-LM that is followed by a value as on a command line, not by ':' as in YAML.
bool has_megatron_flags(std::string_view text) {
  for (const std::string_view flag :
       {"--num-layers", "--hidden-size", "--tensor-model-parallel-size", "--micro-batch-size", "--seq-length",
        "--num-attention-heads", "--pipeline-model-parallel-size"}) {
    for (std::size_t at = text.find(flag); at != std::string_view::npos; at = text.find(flag, at + 1)) {
      const std::size_t end = at + flag.size();
      if (end < text.size() && std::string_view(" =\t\\\n").find(text[end]) != std::string_view::npos) return true;
    }
  }
  return false;
}

bool has_table_of_arguments(const Node& root) {
  return is_table(root.find("args")) || is_table(root.find("MODEL_ARGS"));
}

bool is_megatron_args(const Node& root) {
  if (has_table_of_arguments(root)) return true;
  for (const auto& member : root.members)
    if (member.first.substr(0, 2) == "--") return true;
  return has_any(root,
                 {"num_layers", "tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size"});
}

}  // namespace plimsoll::job

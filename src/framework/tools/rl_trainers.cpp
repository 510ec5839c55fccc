// SPDX-License-Identifier: Apache-2.0
// The supervised trainers of RL frameworks, both over PyTorch's FSDP2: prime-rl's TOML (packages/prime-rl-configs,
// configs/sft.py at 559b447) and verl's Hydra keys (trainer/config/sft_trainer.yaml at b178a3c).
#include <span>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/tools/rl_trainers.h"
#include "framework/transformers/include.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

const Node* at(const Node& root, std::string_view path) {
  const Node* node = &root;
  for (const std::string_view part : split(path, '.')) {
    node = node->is_object() ? node->find(part) : nullptr;
    if (node == nullptr) return nullptr;
  }
  return node->is_null() ? nullptr : node;
}

struct Row {
  std::string_view path;
  std::string_view key;
};

void take(const Node& root, std::span<const Row> rows, Draft& draft) {
  for (const Row& row : rows)
    if (const Node* value = at(root, row.path); value != nullptr && !value->is_object())
      draft.assign(std::string(row.key), *value, row.path);
}

void start(Draft& draft, std::string_view name, FileKind kind) {
  draft.kind = kind;
  draft.vocabulary = Framework::kFsdp2;
  draft.framework = Framework::kFsdp2;
  draft.read_as = name;
}

// What is known and read by nobody stays for the table of unknown names.
constexpr std::string_view kPassed[] = {
    "optim.",      "scheduler.", "ckpt",        "log",           "monitors",       "slurm",    "eval",
    "data.train_", "data.val_",  "data.prompt", "data.response", "data.multiturn", "trainer.", "checkpoint",
    "inference",   "renderer",   "val",         "weight_",       "wandb",          "bench"};

void leave_unknown(const Node& root, std::span<const Row> rows, std::initializer_list<std::string_view> read,
                   Draft& draft) {
  for_each_leaf(root, [&](const std::string& path, const Node& value) {
    for (const Row& row : rows)
      if (path == row.path) return;
    for (const std::string_view one : read)
      if (path.starts_with(one)) return;
    for (const std::string_view one : kPassed)
      if (path.starts_with(one)) return;
    if (!value.is_null()) draft.assign(path, value);
  });
}

void assign_lora(const Node* rank, const Node* targets, std::string_view where, Draft& draft) {
  draft.assign("peft", text_node("lora"), where);
  if (rank != nullptr) draft.assign("lora_rank", *rank, where);
  draft.assign("lora_target_modules", targets == nullptr ? text_node("all-linear") : *targets, where);
}

constexpr Row kPrimeRows[] = {{"data.seq_len", "seq_length"},
                              {"seq_len", "seq_length"},
                              {"data.batch_size", "global_batch_size"},
                              {"data.micro_batch_size", "micro_batch_size"},
                              {"model.cp", "context_parallel_size"},
                              {"model.tp", "tensor_model_parallel_size"},
                              {"model.ep", "expert_model_parallel_size"},
                              {"model.dp_replicate", "dp_replicate"},
                              {"model.fsdp_cpu_offload", "fsdp_cpu_offload"},
                              {"model.reshard_after_forward", "reshard_after_forward"},
                              {"deployment.num_train_gpus", "gpus"},
                              {"deployment.gpus_per_node", "gpus_per_node"}};

constexpr Row kVerlRows[] = {{"data.max_length", "seq_length"},
                             {"data.train_batch_size", "global_batch_size"},
                             {"data.micro_batch_size_per_gpu", "micro_batch_size"},
                             {"model.enable_gradient_checkpointing", "gradient_checkpointing"},
                             {"model.fsdp_config.cpu_offload", "fsdp_cpu_offload"},
                             {"model.fsdp_config.offload_params", "fsdp_cpu_offload"},
                             {"ulysses_sequence_parallel_size", "context_parallel_size"},
                             {"engine.ulysses_sequence_parallel_size", "context_parallel_size"},
                             {"use_remove_padding", "packed_sequences"}};

}  // namespace

bool is_prime_rl_sft(const Node& root) {
  const Node* data = root.find("data");
  const Node* model = root.find("model");
  const bool has_length = data != nullptr && data->is_object() && (data->has("seq_len") || data->has("batch_size"));
  return has_length && model != nullptr && model->is_object() && model->has("name") && !model->has("flavor") &&
         !root.has("training");
}

bool is_verl_sft(const Node& root) {
  const Node* model = root.find("model");
  if (model == nullptr || !model->is_object()) return false;
  const Node* data = root.find("data");
  const bool has_batch = data != nullptr && data->is_object() && data->has("micro_batch_size_per_gpu");
  return model->has("partial_pretrain") || (has_batch && model->has("path"));
}

Status read_prime_rl_tree(const Node& root, Draft& draft) {
  start(draft, "prime-rl", FileKind::kPrimeRl);
  const Node* name = at(root, "model.name");
  if (name != nullptr && name->is_string()) PLIMSOLL_TRY_STATUS(name_model(name->text, draft));
  draft.assign("micro_batch_size", integer_node(1), "prime-rl's default", true);
  draft.assign("global_batch_size", integer_node(128), "prime-rl's default", true);
  draft.assign("packed_sequences", bool_node(true), "prime-rl packs samples", true);
  take(root, kPrimeRows, draft);
  if (at(root, "model.ac") != nullptr) draft.assign("gradient_checkpointing", bool_node(true), "model.ac");
  if (at(root, "model.lora") != nullptr)
    assign_lora(at(root, "model.lora.rank"), at(root, "model.lora.target_modules"), "model.lora", draft);
  if (const Node* dtype = at(root, "model.optimization_dtype"); dtype != nullptr)
    draft.assign("stored_dtype", *dtype, "model.optimization_dtype");
  if (const Node* dtype = at(root, "model.reduce_dtype"); dtype != nullptr)
    draft.assign("reduce_dtype", *dtype, "model.reduce_dtype");
  if (at(root, "model.compile") != nullptr) draft.assign("torch_compile", bool_node(true), "model.compile");
  leave_unknown(root, kPrimeRows,
                {"model.name", "model.ac", "model.lora", "model.optimization_dtype", "model.reduce_dtype",
                 "model.compile", "model.impl", "model.attn", "model.vlm", "data.name", "data.type", "deployment.",
                 "model.fused_lm_head", "model.cp_style"},
                draft);
  return {};
}

Status read_verl_sft_tree(const Node& root, Draft& draft) {
  start(draft, "verl's SFT trainer", FileKind::kVerlSft);
  const Node* name = at(root, "model.partial_pretrain");
  if (name == nullptr) name = at(root, "model.path");
  if (name != nullptr && name->is_string()) PLIMSOLL_TRY_STATUS(name_model(name->text, draft));
  for (const auto& [key, value] :
       {std::pair{"micro_batch_size", 4}, std::pair{"global_batch_size", 256}, std::pair{"seq_length", 1024}})
    draft.assign(key, integer_node(value), "verl's default", true);
  draft.assign("gradient_checkpointing", bool_node(true), "verl's default", true);
  take(root, kVerlRows, draft);
  const Node* dtype = at(root, "model.fsdp_config.model_dtype");
  draft.assign("stored_dtype", dtype == nullptr ? text_node("fp32") : *dtype, "model.fsdp_config.model_dtype", true);
  const Node* rank = at(root, "model.lora_rank");
  if (rank != nullptr && !is_off(*rank)) assign_lora(rank, at(root, "model.target_modules"), "model.lora_rank", draft);
  const Node* liger = at(root, "model.use_liger");
  if (liger != nullptr && !is_off(*liger)) draft.assign("use_liger_kernel", *liger, "model.use_liger");
  if (at(root, "data.micro_batch_size") != nullptr && at(root, "data.micro_batch_size_per_gpu") == nullptr)
    draft.warnings.emplace_back(
        "data.micro_batch_size: not counted: first releases deal it out to all GPUs, later ones look at "
        "micro_batch_size_per_gpu alone; give --micro-batch-size");
  // A micro-batch as many sequences as hold so many tokens.
  const Node* dynamic = at(root, "data.use_dynamic_bsz");
  const Node* tokens = at(root, "data.max_token_len_per_gpu");
  if (dynamic != nullptr && !is_off(*dynamic) && tokens != nullptr) {
    draft.assign("seq_length", *tokens, "data.max_token_len_per_gpu");
    draft.assign("micro_batch_size", integer_node(1), "data.use_dynamic_bsz");
    draft.assign("packed_sequences", bool_node(true), "data.use_dynamic_bsz");
  }
  const Node* nodes = at(root, "trainer.nnodes");
  const Node* per_node = at(root, "trainer.n_gpus_per_node");
  if (nodes != nullptr && per_node != nullptr && nodes->is_integer() && per_node->is_integer() && nodes->integer > 0 &&
      nodes->integer < (1 << 16) && per_node->integer > 0 && per_node->integer < (1 << 8))
    draft.assign("gpus", integer_node(nodes->integer * per_node->integer), "trainer.n_gpus_per_node", true);
  leave_unknown(root, kVerlRows,
                {"model.partial_pretrain",
                 "model.path",
                 "model.lora_",
                 "model.target_modules",
                 "model.fsdp_config.wrap_policy",
                 "model.fsdp_config.model_dtype",
                 "model.use_",
                 "model.external_lib",
                 "model.strategy",
                 "model.trust_remote_code",
                 "model.tokenizer",
                 "data.use_dynamic_bsz",
                 "data.max_token_len_per_gpu",
                 "data.micro_batch_size",
                 "data.truncation",
                 "optim",
                 "engine.wrap",
                 "engine.model_dtype",
                 "engine.dtype",
                 "profiler"},
                draft);
  return {};
}

Result<Draft> read_prime_rl_config(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  PLIMSOLL_TRY(root, parse_document(file.text));
  PLIMSOLL_TRY_STATUS(read_prime_rl_tree(root, draft));
  return draft;
}

Result<Draft> read_verl_sft_config(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  PLIMSOLL_TRY(root, parse_omega(file.text, file.path));
  PLIMSOLL_TRY_STATUS(read_verl_sft_tree(root, draft));
  return draft;
}

}  // namespace plimsoll::job

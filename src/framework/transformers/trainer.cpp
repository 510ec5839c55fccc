// SPDX-License-Identifier: Apache-2.0
#include "framework/transformers/trainer.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/name_pattern.h"
#include "base/text.h"
#include "emit/host.h"
#include "emit/text.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::emit {

using document::Node;
using job::bool_node;
using job::DType;
using job::integer_node;
using job::Job;
using job::text_node;

namespace {

struct Optim {
  job::OptimizerKind kind;
  job::OptimizerImpl impl;
  bool paged;
  const char* name;
};
constexpr Optim kOptims[] = {
    {job::OptimizerKind::kAdam, job::OptimizerImpl::kFused, false, "adamw_torch_fused"},
    {job::OptimizerKind::kAdam, job::OptimizerImpl::kForeach, false, "adamw_torch"},
    {job::OptimizerKind::kAdam, job::OptimizerImpl::kFused, true, "paged_adamw_32bit"},
    {job::OptimizerKind::kAdafactor, job::OptimizerImpl::kLoop, false, "adafactor"},
    {job::OptimizerKind::kSgd, job::OptimizerImpl::kForeach, false, "sgd"},
    {job::OptimizerKind::kAdam8bit, job::OptimizerImpl::kFused, false, "adamw_bnb_8bit"},
    {job::OptimizerKind::kAdam8bit, job::OptimizerImpl::kFused, true, "paged_adamw_8bit"},
    {job::OptimizerKind::kLion, job::OptimizerImpl::kFused, false, "lion_32bit"},
    {job::OptimizerKind::kLion, job::OptimizerImpl::kFused, true, "paged_lion_32bit"},
};

bool carries_all(std::string_view) { return true; }

// What the training program does without a key of its own.
bool is_fact_of_trainer(std::string_view key) {
  constexpr std::string_view kProgram[] = {"prepare_model_for_kbit_training",
                                           "enable_input_require_grads",
                                           "adapter_dtype",
                                           "keeps_outputs",
                                           "own_loop",
                                           "resume_from_checkpoint",
                                           "loss_chunks",
                                           "sgd_momentum"};
  return (is_fact(key) && key != "packed_sequences" && key != "eval_micro_batch_size") ||
         std::find(std::begin(kProgram), std::end(kProgram), key) != std::end(kProgram);
}

Node list_node(const std::vector<std::string>& words) {
  Node list;
  list.kind = Node::Kind::kArray;
  for (const std::string& word : words) list.items.push_back(text_node(word));
  return list;
}

void say_adapter(const Job& job, Reasoned& out) {
  const job::Adapter& adapter = job.adapter;
  if (adapter.kind == job::AdapterKind::kNone) return;
  out.say("use_peft", bool_node(true), "peft");
  if (adapter.kind == job::AdapterKind::kDora) out.say("use_dora", bool_node(true), "peft");
  out.say("lora_r", integer_node(adapter.rank), "lora_rank");
  if (adapter.dropout > 0) out.say("lora_dropout", job::real_node(adapter.dropout), "lora_dropout");
  const std::vector<std::string> named = lora_targets(job);
  // One pattern is a text to PEFT; a list holds names.
  Node targets = text_node(named.front());
  if (named.size() > 1 || !is_pattern(named.front())) targets = list_node(named);
  out.say("lora_target_modules", std::move(targets), "lora_target_modules");
  if (!adapter.saved_modules.empty())
    out.say("lora_modules_to_save", list_node(adapter.saved_modules), "modules_to_save");
  if (adapter.eight_bit_base) out.say("load_in_8bit", bool_node(true), "load_in_8bit");
  if (adapter.quantized_base) out.say("load_in_4bit", bool_node(true), "load_in_4bit");
  if (adapter.double_quant) out.say("use_bnb_nested_quant", bool_node(true), "bnb_4bit_use_double_quant");
}

Status say_optimizer(const Job& job, Reasoned& out) {
  const job::Optimizer& optimizer = job.optimizer;
  if (optimizer.projection_rank > 0) {
    const bool wide = optimizer.kind == job::OptimizerKind::kAdam;
    const std::string_view form = optimizer.random_projection ? "apollo_adamw"
                                  : wide                      ? "galore_adamw"
                                                              : "galore_adamw_8bit";
    out.say("optim", text_node(fmt::format("{}{}", form, optimizer.in_backward ? "_layerwise" : "")), "optimizer");
    out.say("optim_args", text_node(fmt::format("rank={}", optimizer.projection_rank)), "projection_rank");
    out.say("optim_target_modules", list_node(optimizer.projected), "optim_target_modules");
    out.say("max_grad_norm", job::real_node(job.clip_grad ? 1.0 : 0.0), "clip_grad");
    return {};
  }
  for (const Optim& row : kOptims) {
    if (row.kind != optimizer.kind || row.impl != optimizer.impl || row.paged != optimizer.paged) continue;
    out.say("optim", text_node(row.name), "optimizer");
    out.say("max_grad_norm", job::real_node(job.clip_grad ? 1.0 : 0.0), "clip_grad");
    return {};
  }
  return bad_input(fmt::format("Trainer has no name for the optimizer {} ({}{})", job::name_of(optimizer.kind),
                               job::name_of(optimizer.impl), optimizer.paged ? ", paged" : ""),
                   "change optimizer or optimizer_implementation");
}

void say_kernels(const Job& job, Reasoned& out) {
  const job::Kernels& kernels = job.kernels;
  const auto stated = job.stated.find("attn_implementation");
  const bool flash = stated != job.stated.end() && stated->second.starts_with("flash_attention");
  const char* attention = kernels.attention == job::AttentionBackend::kUnfused ? "eager"
                          : kernels.attention == job::AttentionBackend::kFused ? "cudnn"
                          : flash                                              ? "flash_attention_2"
                                                                               : "sdpa";
  out.say("attn_implementation", text_node(attention), "attention_backend");
  if (kernels.liger) out.say("use_liger_kernel", bool_node(true), "use_liger_kernel");
  if (kernels.empty_cache_steps > 0)
    out.say("torch_empty_cache_steps", integer_node(kernels.empty_cache_steps), "torch_empty_cache_steps");
  if (kernels.torch_compile) out.say("torch_compile", bool_node(true), "torch_compile");
  if (kernels.loss == job::LossKind::kChunked) out.say("loss_type", text_node("chunked_nll"), "loss");
  if (kernels.loss == job::LossKind::kTransformers) out.say("loss_type", text_node("nll"), "loss");
}

}  // namespace

void Reasoned::say(std::string_view path, Node value, std::string_view key) {
  rows_ +=
      fmt::format("| {} | `{}` | {} |\n", name_, path, replace(comment(why_value(key, value, reasons_)), '|', '/'));
  root_.kind = Node::Kind::kObject;
  Node* table = &root_;
  std::string_view rest = path;
  for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
    const std::string_view name = rest.substr(0, dot);
    if (table->find(name) == nullptr) put(*table, name, object_node());
    for (auto& [member, child] : table->members)
      if (member == name) {
        table = &child;
        break;
      }
    rest = rest.substr(dot + 1);
  }
  put(*table, rest, std::move(value));
}

File Reasoned::file() const { return {name_, pretty_json(root_) + "\n", false}; }

Result<Trainer> start_trainer(const Order& order, job::Framework framework) {
  const Job& job = order.job;
  const ModelSource source = model_source(job);
  Trainer trainer{Reasoned("training_args.json", order.reasons), {}};
  Reasoned& out = trainer.arguments;
  out.say("output_dir", text_node("out"), "where checkpoints go");
  Choice choice{framework, carries_all, {"gpus", "gpus_per_node", "seq_length"}, {}, {}, {}};
  if (!source.name.empty() && source.changes.empty()) {
    out.say("model_name_or_path", text_node(source.hub.empty() ? source.name : source.hub), "the model");
    choice.base = source.base;
  } else if (!source.config.is_null()) {
    trainer.files.push_back({"config.json", pretty_json(source.config) + "\n", false});
    choice.base = job.model;
  } else {
    return bad_input(fmt::format("the model {} is neither in the catalogue nor of a family whose config.json can be "
                                 "written",
                                 job.model.name),
                     "emit a job file instead");
  }
  out.say("max_length", integer_node(job.batch.seq_length), "seq_length");
  out.say("per_device_train_batch_size", integer_node(job.batch.micro_batch), "micro_batch_size");
  out.say("gradient_accumulation_steps", integer_node(job.micro_batches), "gradient_accumulation_steps");
  if (job.batch.packed) out.say("packing", bool_node(true), "packed_sequences");
  if (job.batch.eval_micro_batch > 0) {
    out.say("eval_strategy", text_node("steps"), "eval_micro_batch_size");
    out.say("per_device_eval_batch_size", integer_node(job.batch.eval_micro_batch), "eval_micro_batch_size");
  }
  const bool recomputes = job.recompute.granularity == job::RecomputeGranularity::kFull;
  out.say("gradient_checkpointing", bool_node(recomputes), "gradient_checkpointing");
  if (job.offload.checkpointed_inputs) out.say("activation_offloading", bool_node(true), "offload_checkpointed_inputs");
  PLIMSOLL_TRY_STATUS(say_optimizer(job, out));
  say_kernels(job, out);
  say_adapter(job, out);
  std::vector<Setting> facts = chosen_settings(job, choice);
  std::erase_if(facts, [](const Setting& setting) { return !is_fact_of_trainer(setting.key); });
  trainer.files.push_back(facts_file(facts, order.environment, order.reasons, "plimsoll fit *.json *.yaml *.toml"));
  return trainer;
}

std::vector<File> finish_trainer(const Order& order, Trainer trainer, const std::vector<File>& more,
                                 std::string_view rows, std::string_view launcher, std::string_view options) {
  const bool named = trainer.arguments.root().has("model_name_or_path");
  std::string script = script_head(order.job, "Trains with Transformers and TRL; README.md says why each key is set.",
                                   order.environment);
  script += "\ncd \"$(dirname \"${BASH_SOURCE[0]}\")\"\n";
  if (!named) script += "MODEL=\"${MODEL:?give the folder of the model whose shape is config.json}\"\n";
  script += fmt::format("{}  -m trl.scripts.sft --config training_args.json{}{} \\\n", launcher, options,
                        named ? "" : " --model_name_or_path \"$MODEL\"");
  script += "  --dataset_name \"${DATASET:-trl-lib/Capybara}\"\n";
  std::vector<File> files = {trainer.arguments.file()};
  files.insert(files.end(), more.begin(), more.end());
  files.insert(files.end(), trainer.files.begin(), trainer.files.end());
  std::string read = "plimsoll fit";
  for (const std::string& name : readable_files(files)) read += " " + name;
  files.push_back({"launch.sh", std::move(script), true});
  files.push_back(slurm_script(order.job, order.nodes));
  if (launcher.find("PYTHON") != std::string_view::npos) files.push_back(numa_script(order.job, order.nodes));
  files.push_back({"README.md",
                   fmt::format("# Why each key is set\n\nRead the job again with `{}`.\n\n| file | key | why |\n"
                               "| --- | --- | --- |\n{}{}",
                               read, trainer.arguments.rows(), rows),
                   false});
  return files;
}

// dtype is what Transformers loads; bf16 and fp16 switch autocast or mixed precision on.
void say_precision(const Job& job, DType loaded, std::optional<DType> mixed, Reasoned& out) {
  out.say("dtype",
          text_node(loaded == DType::kFp32   ? "float32"
                    : loaded == DType::kFp16 ? "float16"
                                             : "bfloat16"),
          "load_dtype");
  out.say("bf16", bool_node(mixed == DType::kBf16), "bf16");
  out.say("fp16", bool_node(mixed == DType::kFp16), "fp16");
  if (job.precision.tf32) out.say("tf32", bool_node(true), "tf32");
}

// The 16-bit dtype that the job computes in; none where it is fp32.
std::optional<DType> half_of(DType type) { return type == DType::kFp32 ? std::nullopt : std::optional<DType>(type); }

}  // namespace plimsoll::emit

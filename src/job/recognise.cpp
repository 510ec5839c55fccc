// SPDX-License-Identifier: Apache-2.0
// What a file is, by what it holds; its name does not matter. Text that no document format explains may
// be a script or lines of Python; a document is told by keys that only one kind of file has.
#include <fmt/format.h>

#include "base/lines.h"
#include "base/text.h"
#include "job/keys.h"
#include "job/read.h"
#include "job/readers/by_names.h"
#include "job/readers/dialects.h"
#include "job/readers/nemo_rl.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/readers/rl_trainers.h"
#include "job/readers/run_records.h"
#include "job/readers/saved_arguments.h"
#include "job/readers/torchtitan.h"
#include "model/hf_config.h"
#include "model/safetensors_index.h"

namespace plimsoll::job {

using document::Node;

namespace {

bool has_any(const Node& table, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (table.has(key)) return true;
  return false;
}

bool is_table(const Node* node) { return node != nullptr && node->is_object(); }

// cfg.model.x = y at the start of a line.
bool has_override_lines(std::string_view text) {
  for (const std::string_view raw : lines(text)) {
    const std::string_view line = trim(raw);
    const bool is_field = line.substr(0, 4) == "cfg." || line.substr(0, 7) == "config.";
    if (is_field && line.find('=') != std::string_view::npos) return true;
  }
  return false;
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

// Words that start a training program on a command line.
bool starts_training(std::string_view line) {
  for (const std::string_view word :
       {"torchrun ", "accelerate launch", "deepspeed ", "srun ", "python ", "python3 ", "swift sft", "swift pt",
        "swift rlhf", "megatron sft", "megatron pt", "megatron rlhf", "llamafactory-cli ", "axolotl train",
        "oumi train", "tune run", "ray job submit", "bash "})
    if (line.find(word) != std::string_view::npos) return true;
  return false;
}

// A script without its first line: assignments, exports, commands with continued lines.
bool looks_like_shell(std::string_view text) {
  int signs = 0;
  bool launches = false;
  for (const std::string_view raw : lines(text.substr(0, 1 << 18))) {
    const std::string_view line = trim(raw);
    if (line.empty() || line.front() == '#') continue;
    if (line.substr(0, 7) == "export " || line == "fi" || line == "done" || line == "esac" || line.back() == '\\')
      ++signs;
    const std::size_t equals = line.find('=');
    const bool assigns = equals != std::string_view::npos && equals > 0 && line[equals - 1] != ' ' &&
                         equals + 1 < line.size() && line[equals + 1] != ' ' &&
                         line.substr(0, equals).find_first_of(" :{[\"'.") == std::string_view::npos;
    if (assigns) ++signs;
    if (starts_training(line) && line.find(": ") == std::string_view::npos) launches = true;
    if (launches && signs > 0) return true;
  }
  return launches && text.find(" --") != std::string_view::npos && text.find("import ") == std::string_view::npos;
}

bool is_shell_script(std::string_view text, std::string_view path) {
  const std::string_view start = trim(text);
  for (const std::string_view ending : {".sh", ".bash", ".slurm", ".sbatch"})
    if (path.ends_with(ending) && start.substr(0, 1) != "{") return true;
  if (start.substr(0, 2) == "#!") return start.substr(0, start.find('\n')).find("sh") != std::string_view::npos;
  if (start.empty() || start.front() == '{') return false;
  return has_megatron_flags(text) || looks_like_shell(text);
}

// num_layers beside DeepSpeed's or pipe-parallel-size: GPT-NeoX.
bool is_gpt_neox(const Node& root) {
  return has_any(root, {"pipe_parallel_size", "pipe-parallel-size"}) ||
         (has_any(root, {"model_parallel_size", "model-parallel-size"}) &&
          has_any(root, {"num_layers", "num-layers"})) ||
         has_any(root, {"pos_emb", "pos-emb"});
}

bool is_nanotron(const Node& root) {
  const Node* model = root.find("model");
  const Node* parallelism = root.find("parallelism");
  return (is_table(model) && is_table(model->find("model_config"))) ||
         (is_table(parallelism) && parallelism->has("dp") && parallelism->has("tp"));
}

bool is_primus(const Node& root) {
  const Node* modules = root.find("modules");
  return is_table(modules) && has_any(*modules, {"pre_trainer", "post_trainer", "sft_trainer"});
}

bool is_bridge(const Node& root) {
  const Node* model = root.find("model");
  if (is_table(model) && model->has("_target_")) return true;
  return has_any(root, {"ddp", "comm_overlap", "mixed_precision", "rerun_state_machine", "nvrx_straggler"}) ||
         (is_table(root.find("train")) && !root.has("framework")) ||
         (is_table(root.find("dataset")) && is_table(model));
}

// A table in the common words of training programs with sections that neither Megatron-Bridge nor a job file has, or
// without sections and without the words that only the Trainer and Megatron-LM have.
bool is_of_unknown_tool(const Node& root) {
  const Node* model = root.find("model");
  if ((is_table(model) && model->has("_target_")) || has_any(root, {"ddp", "comm_overlap", "rerun_state_machine"}))
    return false;
  bool has_section = false;
  bool has_foreign = false;
  for (const auto& [key, value] : root.members) {
    has_section = has_section || value.is_object();
    bool is_known = is_key(key) || key.starts_with("_");
    for (const std::string_view section :
         {"model",     "train",           "optimizer", "scheduler",   "dataset",   "logger",
          "tokenizer", "checkpoint",      "dist",      "ft",          "straggler", "profiling",
          "peft",      "mixed_precision", "rng",       "env_vars",    "cluster",   "parallel",
          "batch",     "precision",       "recompute", "sharding",    "offload",   "kernels",
          "adapter",   "environment",     "moe",       "description", "name"})
      is_known = is_known || key == section;
    has_foreign = has_foreign || !is_known;
  }
  if (!has_foreign) return false;
  const bool has_tables = is_table(root.find("peft_config")) || is_table(root.find("dist_config"));
  if (!has_tables &&
      has_any(root, {"per_device_train_batch_size", "num_train_epochs", "output_dir", "model_name_or_path"}))
    return false;
  if (!has_section && has_any(root, {"num_layers", "num-layers", "tensor_model_parallel_size", "train_batch_size",
                                     "zero_optimization"}))
    return false;
  for (const auto& member : root.members)
    if (member.first.starts_with("--")) return false;
  return speaks_of_training(root);
}

bool is_torchtitan(const Node& root) {
  const Node* model = root.find("model");
  const Node* training = root.find("training");
  return is_table(root.find("parallelism")) || is_table(root.find("activation_checkpoint")) ||
         (is_table(model) && model->has("flavor")) ||
         (is_table(training) && has_any(*training, {"seq_len", "local_batch_size", "mixed_precision_param"}));
}

bool is_deepspeed(const Node& root) {
  const Node* half = root.find("bf16");
  if (half == nullptr) half = root.find("fp16");
  return has_any(root, {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size",
                        "zero_allow_untested_optimizer"}) ||
         is_table(half);
}

bool is_accelerate(const Node& root) {
  return has_any(root, {"distributed_type", "compute_environment", "num_machines", "deepspeed_config"}) ||
         (root.has("num_processes") && has_any(root, {"mixed_precision", "fsdp_config"}));
}

bool is_training_arguments(const Node& root) {
  return has_any(root, {"per_device_train_batch_size", "output_dir", "num_train_epochs", "gradient_checkpointing",
                        "optim", "learning_rate", "max_grad_norm", "per_device_eval_batch_size", "fsdp", "deepspeed",
                        "max_seq_length", "lr_scheduler_type", "model_name_or_path", "gradient_accumulation_steps"});
}

bool is_job(const Node& root) {
  for (const std::string_view section :
       {"cluster", "parallel", "batch", "precision", "recompute", "sharding", "offload", "kernels", "adapter"})
    if (is_table(root.find(section))) return true;
  return has_any(root, {"framework", "model"});
}

bool is_megatron_args(const Node& root) {
  if (is_table(root.find("args")) || is_table(root.find("MODEL_ARGS"))) return true;
  for (const auto& member : root.members)
    if (member.first.substr(0, 2) == "--") return true;
  return has_any(root,
                 {"num_layers", "tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size"});
}

}  // namespace

Result<FileKind> recognise(const InputFile& file) {
  const std::string_view text = file.text;
  if (trim(text).empty()) return bad_input("the file is empty");
  if (is_saved_arguments(text)) return FileKind::kTrainingArguments;
  if (trim(text).front() != '{') {
    if (is_megatron_log(text)) return FileKind::kMegatronLog;
    if (is_torchtitan_registry(text)) return FileKind::kTorchtitanPython;
    if (is_shell_script(text, file.path)) {
      // A document that holds a command beside the settings of the training.
      const bool is_yaml = file.path.ends_with(".yaml") || file.path.ends_with(".yml");
      if (is_yaml)
        if (auto root = parse_document(text); root && root->is_object() && is_of_unknown_tool(*root))
          return FileKind::kByNames;
      return FileKind::kLaunchScript;
    }
    if (has_override_lines(text)) return FileKind::kBridgeOverrides;
  }
  PLIMSOLL_TRY(root, parse_document(text));
  if (root.is_object()) {
    if (is_table(root.find("args")) || is_table(root.find("MODEL_ARGS"))) return FileKind::kMegatronArgs;
    if (model::looks_like_safetensors_index(root)) return FileKind::kSafetensorsIndex;
    if (is_wandb_config(root)) return FileKind::kWandbConfig;
    if (is_trainer_state(root)) return FileKind::kTrainerState;
    if (root.has("peft_type")) return FileKind::kPeftConfig;
    if (root.has("framework")) return FileKind::kJob;
    if (is_primus(root)) return FileKind::kPrimus;
    if (root.has("defaults"))  // what it is may be said by the files below it
      if (auto whole = load_omega(text, file.path); whole && whole->is_object()) root = *std::move(whole);
    if (is_nemo_rl(root)) return FileKind::kNemoRl;
    if (is_verl_sft(root)) return FileKind::kVerlSft;
    if (is_nanotron(root)) return FileKind::kNanotron;
    if (is_gpt_neox(root)) return FileKind::kGptNeox;
    if (const auto dialect = dialect_of_keys(root)) return *dialect;
    const bool is_known_tool = is_prime_rl_sft(root) || is_torchtitan(root) || is_accelerate(root);
    if (is_table(root.find("model")) && !is_known_tool && is_of_unknown_tool(root)) return FileKind::kByNames;
    if (trim(text).front() == '{' && model::looks_like_hf_config(root)) return FileKind::kHfConfig;
    if (is_prime_rl_sft(root)) return FileKind::kPrimeRl;
    if (is_torchtitan(root)) return FileKind::kTorchtitanConfig;
    if (is_accelerate(root)) return FileKind::kAccelerateConfig;
    if (is_of_unknown_tool(root)) return FileKind::kByNames;
    if (is_bridge(root)) return FileKind::kBridgeConfig;
    if (is_deepspeed(root)) return FileKind::kDeepSpeedConfig;
    if (is_job(root)) return FileKind::kJob;
    if (is_training_arguments(root) && !root.has("num_layers")) return FileKind::kTrainingArguments;
    if (is_megatron_args(root)) return FileKind::kMegatronArgs;
  }
  return bad_input(
      "not recognised: it is neither a job file (framework, model, [cluster], ...), nor config.json (model_type), "
      "Megatron-LM "
      "flags or arguments (--num-layers), a Megatron-Bridge configuration (model, train, ddp), TrainingArguments "
      "(per_device_train_batch_size), an accelerate (distributed_type), DeepSpeed (zero_optimization), torchtitan "
      "([parallelism]) or PEFT (peft_type) file, nor one of axolotl (base_model), LLaMA-Factory (finetuning_type), "
      "ms-swift "
      "(tuner_type), oumi, torchtune, nanotron, GPT-NeoX or Primus, nor a table that names a model and its training in "
      "common words (max_seq_len, micro_batch_size, learning_rate, ...)");
}

}  // namespace plimsoll::job

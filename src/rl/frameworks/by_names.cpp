// SPDX-License-Identifier: Apache-2.0
#include "rl/frameworks/by_names.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "job/common_words.h"
#include "job/keys.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/unknown.h"
#include "job/value.h"
#include "model/catalog.h"
#include "rl/frameworks/by_names_words.h"
#include "rl/frameworks/items.h"
#include "rl/frameworks/settings.h"
#include "rl/frameworks/tool_values.h"
#include "rl/frameworks/unread.h"

namespace plimsoll::rl {

namespace {

using document::Node;

class RunByNames {
 public:
  RunByNames(Values& values, ConfigSettings& result) : values_(values), result_(result) {
    // "policy" is whichever side its keys speak of.
    for (const std::string& path : values.left_over())
      if (meaning_in_run(path) == "share") policy_serves_ = policy_serves_ || has_policy(path);
  }

  [[nodiscard]] Part part_of(std::string_view path) const {
    Part part = Part::kNone;
    for (const std::string_view segment : split(path, '.')) {
      const Part named = part_of_segment(segment);
      if (named == Part::kOther && is_size_of_run(segment, path)) continue;
      if (named == Part::kOther) return named;
      if (named != Part::kNone && part == Part::kNone) part = named;
      if (part == Part::kNone && lower(segment) == "policy") part = policy_serves_ ? Part::kServer : Part::kTrainer;
    }
    return part;
  }

  Status read(const Settings& given) {
    read_model();
    read_lengths();
    PLIMSOLL_TRY_STATUS(read_backends());
    PLIMSOLL_TRY_STATUS(read_places(given));
    read_sizes();
    PLIMSOLL_TRY_STATUS(read_batches());
    read_trainer();
    read_passes();
    return {};
  }

  // Parts that are not counted, for the check of what nobody read.
  [[nodiscard]] std::vector<std::string> passed() const {
    std::vector<std::string> paths;
    for (const std::string& path : values_.left_over())
      if (is_passed(path)) paths.push_back(path);
    return paths;
  }

 private:
  // "data.rollout_batch_size", "data.max_prompt_length": of the run, though they stand with the data.
  static bool is_size_of_run(std::string_view segment, std::string_view path) {
    const std::string word = lower(segment);
    if (word != "data" && word != "dataset") return false;
    const std::string_view meaning = meaning_in_run(path);
    return meaning == "prompts" || meaning == "prompt_max" || meaning == "max_tokens" || meaning == "group";
  }

  // Other models, data and logs; what a server has beside its sizes; weights that leave the GPU while the other side
  // has it; and words that are no sizes.
  [[nodiscard]] bool is_passed(const std::string& path) const {
    const Part part = part_of(path);
    if (part == Part::kOther || job::meaning_of(path) == "elsewhere" || path.starts_with("_")) return true;
    const std::string_view subject = job::subject_of(path);
    if (part == Part::kServer && subject != "parallelism" && subject != "precision") return true;
    if (subject == "offload" && setting(result_.settings, "placement") == "colocated") return true;
    if (subject == "adapters" && adapters_are_off_) return true;
    const Node* value = values_.look(path);
    const bool is_size = subject == "the batch" || subject == "the sequence length";
    if (value != nullptr && is_size && !value->is_number()) return true;
    const std::string last = last_of(path);
    if (last == "lora_alpha") return true;
    return last == "fsdp_size" && number(value) == trainers_;
  }

  static bool is_known(std::string_view path) {
    while (path.ends_with('/')) path.remove_suffix(1);
    const std::string_view last = path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
    return !last.empty() && model::find_model(std::string(last)).has_value();
  }

  static bool has_policy(std::string_view path) {
    for (const std::string_view segment : split(path, '.'))
      if (lower(segment) == "policy") return true;
    return false;
  }

  // The value with a meaning, in the wanted part first, then in none; every one of them is done with.
  const Node* find(std::string_view meaning, Part wanted, bool by_job = false) {
    const Node* best = nullptr;
    Part of_best = Part::kOther;
    for (const std::string& path : values_.left_over()) {
      const std::string_view means = by_job ? meaning_in_job(path) : meaning_in_run(path);
      const Part part = part_of(path);
      if (means != meaning || (part != wanted && part != Part::kNone)) continue;
      const Node* value = values_.take(path);
      if (value == nullptr || value->is_null()) continue;
      if (best == nullptr || (of_best == Part::kNone && part == wanted && wanted != Part::kNone)) {
        best = value;
        of_best = part;
      }
    }
    return best;
  }

  std::int64_t number(const Node* value) const {
    if (value == nullptr) return 0;
    const auto found = job::to_integer(*value, job::Range{1, double{kMost} * 16});
    return found ? *found : 0;
  }
  std::int64_t number(std::string_view meaning, Part wanted) { return number(find(meaning, wanted)); }
  std::int64_t size(std::string_view meaning, Part wanted) { return number(find(meaning, wanted, true)); }

  void put(std::string_view key, std::string value) { put_setting(result_.settings, key, std::move(value)); }
  void put(std::string_view key, std::int64_t value) { put(key, std::to_string(value)); }
  void assume(std::string what) { result_.assumed.push_back(std::move(what)); }

  // The policy's weights: in the trainer's part, or where no part is named.
  void read_model() {
    std::string chosen;
    for (const std::string& path : values_.left_over()) {
      const std::string last = last_of(path);
      const bool is_policy = last == "actor_model_name_or_path" || last == "policy_model_path" ||
                             last == "actor_model_path" || last == "load" || last == "policy_model_name_or_path";
      if (!is_policy && job::meaning_of(path) != "model") continue;
      if (part_of(path) == Part::kOther || last.find("reward") != std::string::npos ||
          last.find("critic") != std::string::npos)
        continue;
      const std::string word = values_.take_word(path);
      const bool looks_like_one =
          word.find('/') != std::string::npos || is_policy || last.find("path") != std::string::npos;
      if (word.empty() || word == "null" || !looks_like_one) continue;
      // A checkpoint in a format of its own may stand beside the model that it was made of.
      const bool is_better = is_known(word) && !is_known(chosen);
      if (chosen.empty() || is_better || (is_policy && !is_known(chosen))) chosen = word;
    }
    if (!chosen.empty()) put("model", chosen);
  }

  void read_lengths() {
    prompt_ = number("prompt_max", Part::kServer);
    answer_ = number("max_tokens", Part::kServer);
    longest_ = number("longest", Part::kServer);
    if (prompt_ == 0) prompt_ = number("prompt_max", Part::kTrainer);
    if (answer_ == 0) answer_ = number("max_tokens", Part::kTrainer);
    if (longest_ == 0) longest_ = number("longest", Part::kTrainer);
    if (answer_ == 0 && longest_ > 0) {
      answer_ = std::max<std::int64_t>(1, prompt_ > 0 && longest_ > prompt_ ? longest_ - prompt_ : longest_ / 2);
      assume(fmt::format("max_tokens: the file limits whole sequences ({} tokens); answers of {} are counted", longest_,
                         answer_));
    }
    if (prompt_ == 0 && longest_ > answer_) prompt_ = longest_ - answer_;
    if (prompt_ > 0) put("prompt_max", prompt_);
    if (answer_ > 0) put("max_tokens", answer_);
    if (longest_ > 0 && longest_ >= prompt_ + answer_) put("max_model_len", longest_);
  }

  Status read_backends() {
    std::string trains, serves;
    for (const std::string& path : values_.left_over()) {
      if (meaning_in_run(path) != "backend") continue;
      const Part part = part_of(path);
      const std::string word = lower(values_.take_word(path));
      const bool is_engine = word.find("vllm") != std::string::npos || word.find("sglang") != std::string::npos;
      if (part == Part::kOther) continue;
      if (is_engine && serves.empty()) serves = word.find("sglang") != std::string::npos ? "sglang" : "vllm";
      if (!is_engine && part != Part::kServer && trains.empty()) trains = word;
    }
    put("engine", serves.empty() ? "vllm" : serves);
    if (serves.empty()) assume("engine: the file names none; servers are counted as vLLM's (--engine changes that)");
    is_megatron_ = trains.find("megatron") != std::string::npos || trains.find("mcore") != std::string::npos;
    std::int64_t stage = size("zero_stage", Part::kTrainer);
    // A file of DeepSpeed's: its name may say the stage.
    if (const Node* file = find("deepspeed", Part::kTrainer, true);
        file != nullptr && !job::is_off(*file) && stage == 0 && !is_megatron_) {
      const std::string name = lower(document::to_text(*file));
      for (const std::string_view word : {"z", "zero", "zero_", "stage", "stage_"})
        for (const char digit : {'1', '2', '3'})
          if (name.find(std::string(word) + digit) != std::string::npos) stage = digit - '0';
      if (stage == 0) {
        stage = 3;
        assume("zero_stage: it is in another file; DeepSpeed's stage 3 is assumed (--zero-stage)");
      }
    }
    const bool is_deepspeed =
        stage > 0 || trains.find("deepspeed") != std::string::npos || trains.find("zero") != std::string::npos;
    put("trainer_framework", is_megatron_ ? "megatron-lm" : is_deepspeed ? "deepspeed" : "fsdp2");
    if (trains.empty() && stage == 0)
      assume("trainer_framework: the file names none; FSDP2 is assumed (--trainer-framework)");
    if (is_deepspeed)
      for (const char digit : {'1', '2', '3'})
        if (trains.find(digit) != std::string::npos) put("zero_stage", std::string(1, digit));
    if (stage > 0 && stage <= 3) put("zero_stage", stage);
    return {};
  }

  // "list(range(0,16))", "[0,1,2,3]": the GPUs that a part has; how many, and the first.
  static std::pair<std::int64_t, std::int64_t> devices_in(const std::string& text) {
    if (const std::size_t at = text.find("range("); at != std::string::npos) {
      const std::string inside = text.substr(at + 6, text.find(')', at) - at - 6);
      const std::vector<std::string_view> ends = split(inside, ',');
      const Node first = document::parse_scalar(trim(ends.front()));
      const Node last = document::parse_scalar(trim(ends.back()));
      const std::int64_t begin = ends.size() > 1 && first.is_integer() ? first.integer : 0;
      if (last.is_integer() && last.integer > begin && last.integer < kMost) return {last.integer - begin, begin};
      return {0, 0};
    }
    const std::string bare = replace(replace(text, '[', ' '), ']', ' ');
    const std::vector<std::string_view> listed = split(bare, ',');
    const Node first = document::parse_scalar(trim(listed.front()));
    return {static_cast<std::int64_t>(listed.size()), first.is_integer() ? first.integer : 0};
  }

  static std::string text_of(const Node& value) {
    if (!value.is_array()) return document::to_text(value);
    std::string text;
    for (const Node& item : value.items) text += (text.empty() ? "" : ",") + document::to_text(item);
    return text;
  }

  // "policy.parallelism: {dp_shard_size: 4, tp_size: 2, n_init_replicas: 1}": the product; 0 where none is said.
  std::int64_t gpus_of_sizes(Part part) const {
    std::int64_t product = 1;
    bool is_said = false;
    for (const std::string& path : values_.left_over()) {
      if (part_of(path) != part || path.find("parallel") == std::string::npos) continue;
      const std::string last = last_of(path);
      const bool is_size = last == "tp_size" || last == "pp_size" || last == "cp_size" || last == "dp_shard_size" ||
                           last == "dp_replicate_size" || last == "n_init_replicas" || last == "num_replicas";
      const std::int64_t value = is_size ? number(values_.look(path)) : 0;
      if (is_size && (last == "dp_shard_size" || last.ends_with("replicas"))) is_said = true;
      if (value > 0 && product < kMost) product *= value;
    }
    return is_said && product < kMost ? product : 0;
  }

  Status read_places(const Settings& given) {
    std::pair<std::int64_t, std::int64_t> trains{0, 0}, serves{0, 0};
    if (const Node* where = find("places", Part::kTrainer)) trains = devices_in(text_of(*where));
    if (const Node* where = find("places", Part::kServer)) serves = devices_in(text_of(*where));
    if (trains.first == 0) trains.first = number("part_gpus", Part::kTrainer);
    if (serves.first == 0) serves.first = number("part_gpus", Part::kServer);
    // Sizes of both parts in tables of their own, and no GPUs: each has what they make.
    const std::int64_t trainer_sizes = gpus_of_sizes(Part::kTrainer);
    const std::int64_t server_sizes = gpus_of_sizes(Part::kServer);
    const bool is_sized = trains.first == 0 && serves.first == 0 && trainer_sizes > 0 && server_sizes > 0;
    if (is_sized) {
      trains = {trainer_sizes, 0};
      serves = {server_sizes, trainer_sizes};
    }
    const std::int64_t per_node = size("devices", Part::kTrainer);
    const std::int64_t nodes = std::max<std::int64_t>(1, size("nodes", Part::kTrainer));
    std::int64_t launched = number(values_.take("launched_gpus"));
    if (launched == 0 && per_node > 0 && trains.first == 0) launched = per_node * nodes;
    const Node asked = document::parse_scalar(setting(given, "gpus"));
    const bool is_asked = asked.is_integer() && asked.integer > 0 && asked.integer < kMost;
    server_gpus_ = std::max<std::int64_t>(1, size("tp_size", Part::kServer));
    put("inference_tensor_parallel_size", server_gpus_);
    const bool apart = trains.first > 0 && serves.first > 0 && trains.second != serves.second &&
                       (trains.second >= serves.second + serves.first || serves.second >= trains.second + trains.first);
    const Node* ahead = find("ahead", Part::kServer);
    if (const Node* other = find("ahead", Part::kTrainer); ahead == nullptr) ahead = other;
    const bool runs_ahead = ahead != nullptr && !job::is_off(*ahead);
    put("mode", runs_ahead && apart ? "async" : "sync");
    if (runs_ahead && apart) put("max_async_rollout", std::max<std::int64_t>(1, number(ahead)));
    if (runs_ahead && !apart) assume("mode: generation ahead of the trainer, on the same GPUs, is counted as waiting");
    put("placement", apart ? "disaggregated" : "colocated");
    if (apart) {
      trainers_ = trains.first;
      put("trainer_num_workers", trains.first);
      put("inference_num_workers", serves.first);
      put("gpus", trains.first + serves.first);
    } else {
      trainers_ = is_asked ? asked.integer : std::max(trains.first, std::max(serves.first, launched));
      if (trainers_ == 0) return bad_input("the number of GPUs is not known", "give --gpus");
      if (!is_asked) put("gpus", trainers_);
      assume(fmt::format("placement: training and generation take turns on the same {} GPUs (--placement)", trainers_));
    }
    if (const Node* share = find("share", Part::kServer); share != nullptr)
      put("gpu_memory_utilization", document::to_text(*share));
    return {};
  }

  Status read_batches() {
    constexpr std::int64_t kLargestGroup = 4096;  // more is what a data set holds
    std::int64_t group = std::max<std::int64_t>(1, number_anywhere("group"));
    if (group > kLargestGroup) group = 1;
    std::int64_t prompts = number_anywhere("prompts");
    const std::int64_t samples = number_anywhere("samples");
    const std::int64_t micro = std::max<std::int64_t>(1, size("per_device_train_batch_size", Part::kTrainer));
    const std::int64_t accumulation = size("gradient_accumulation_steps", Part::kTrainer);
    const std::int64_t global = size("global_batch_size", Part::kTrainer);
    const std::int64_t plain = size("batch", Part::kTrainer);
    if (const std::int64_t own = number_anywhere("prompts_of_gpu"); own > 0 && own < kMost) prompts = own * trainers_;
    if (prompts == 0 && samples > 0) prompts = std::max<std::int64_t>(1, samples / group);
    if (prompts == 0 && global > 0) prompts = std::max<std::int64_t>(1, global / group);
    if (prompts == 0 && plain > 0) {
      prompts = plain;
      assume(fmt::format("prompts_batch_size_for_trainer: the batch of {} is taken as prompts of a step", plain));
    }
    if (prompts == 0) return bad_input("the prompts of a step are not known", "give --prompts-batch-size-for-trainer");
    // Fewer samples than GPUs are those of one GPU.
    if (prompts * group < trainers_) {
      assume(fmt::format("prompts_batch_size_for_trainer: {} prompts are taken as those of one GPU", prompts));
      prompts *= trainers_;
    }
    put("group_size", group);
    put("prompts_batch_size_for_trainer", prompts);
    const std::int64_t all = prompts * group;
    const std::int64_t ranks = std::max<std::int64_t>(1, trainers_ / std::max<std::int64_t>(1, split_));
    const std::int64_t step = global > 0 ? global : accumulation > 0 ? micro * accumulation * ranks : 0;
    if (step > 0 && all % step == 0 && all / step <= 4096) put("number_of_minibatches", all / step);
    const std::int64_t length = longest_ > 0 ? longest_ : prompt_ + answer_;
    // A bin of packed sequences, or a micro-batch of whole ones.
    const std::int64_t bin = number("bin", Part::kTrainer);
    const Node* packs = find("packing", Part::kTrainer, true);
    const bool is_packed = bin > 0 && (packs == nullptr || !job::is_off(*packs));
    const std::int64_t context = std::max<std::int64_t>(1, size("cp_size", Part::kTrainer));
    if (context > 1) {
      put("context_parallel_size", context);
      split_ *= context;
    }
    if (length > 0) put("seq_len", is_packed ? std::max(bin * context, length) : micro * length);
    if (const std::int64_t passes = number_anywhere("epochs"); passes > 1 && passes <= 64) put("epochs", passes);
    return {};
  }

  std::int64_t number_anywhere(std::string_view meaning) {
    const std::int64_t serving = number(meaning, Part::kServer);
    const std::int64_t training = number(meaning, Part::kTrainer);
    return serving > 0 ? serving : training;
  }

  void read_sizes() {
    constexpr std::pair<std::string_view, std::string_view> kSizes[] = {
        {"tp_size", "tensor_model_parallel_size"},
        {"pipeline_model_parallel_size", "pipeline_model_parallel_size"},
        {"expert_model_parallel_size", "expert_model_parallel_size"}};
    for (const auto& [meaning, key] : kSizes)
      if (const std::int64_t given = size(meaning, Part::kTrainer); given > 1) {
        put(key, given);
        split_ *= meaning == "expert_model_parallel_size" ? 1 : given;
      }
  }

  void read_trainer() {
    if (is_megatron_) put("bf16", "true");
    const bool splits = !setting(result_.settings, "tensor_model_parallel_size").empty();
    if (is_megatron_ && splits) put("sequence_parallel", "true");
    for (const std::string& path : values_.left_over()) {
      const std::string last = last_of(path);
      if (part_of(path) == Part::kOther || part_of(path) == Part::kServer) continue;
      if (last == "fsdp_reshard_after_forward" || last == "reshard_after_forward") {
        const std::string word = lower(values_.take_word(path));
        if (!is_megatron_) put("reshard_after_forward", word == "never" || word == "false" ? "false" : "true");
      }
      // Reductions in fp32 are FSDP2's own; in 16 bits their buffers are half of what is counted.
      if (last == "fsdp_reduce_dtype" || last == "reduce_dtype") {
        const std::string word = lower(values_.take_word(path));
        if (!is_megatron_ && !word.empty() && word.find("32") == std::string::npos) put("reduce_dtype", word);
      }
      for (const std::string_view key :
           {"recompute_granularity", "recompute_method", "recompute_num_layers", "use_distributed_optimizer",
            "sequence_parallel", "virtual_pipeline_model_parallel_size", "moe_token_dispatcher_type",
            "moe_grouped_gemm", "overlap_grad_reduce", "overlap_param_gather", "expert_tensor_parallel_size"})
        if (last == key && is_megatron_)
          if (std::string word = values_.take_word(path); !word.empty() && word != "null") put(key, std::move(word));
    }
    if (setting(result_.settings, "recompute_granularity") == "full") {
      if (setting(result_.settings, "recompute_method").empty()) put("recompute_method", "uniform");
      if (setting(result_.settings, "recompute_num_layers").empty()) put("recompute_num_layers", std::int64_t{1});
    }
    const Node* on = find("gradient_checkpointing", Part::kTrainer, true);
    const Node* off = find("no_recompute", Part::kTrainer);
    if (!is_megatron_ && (on != nullptr || off != nullptr))
      put("gradient_checkpointing", on != nullptr       ? (job::is_off(*on) ? "false" : "true")
                                    : job::is_off(*off) ? "true"
                                                        : "false");
    if (!is_megatron_ && on == nullptr && off == nullptr) {
      put("gradient_checkpointing", "true");
      assume(
          "gradient_checkpointing: the file does not say; layers are counted as recomputed (--gradient-checkpointing)");
    }
    if (const Node* offload = find("offload", Part::kTrainer);
        offload != nullptr && !job::is_off(*offload) && !is_megatron_)
      put("cpu_offload", "true");
    const Node* quantized = find("is_quantized", Part::kTrainer, true);
    if (quantized != nullptr && job::is_off(*quantized))
      for (const std::string_view done : {"quantize", "double_quant"})
        static_cast<void>(find(done, Part::kTrainer, true));
    const Node* rank = find("lora_r", Part::kTrainer, true);
    const Node* adapts = find("use_lora", Part::kTrainer, true);
    const Node* targets = find("lora_target_modules", Part::kTrainer, true);
    const bool is_on =
        adapts != nullptr && adapts->is_bool() ? adapts->boolean : rank != nullptr && !job::is_off(*rank);
    adapters_are_off_ = adapts != nullptr && job::is_off(*adapts);
    if (is_on && rank != nullptr) {
      put("peft", "lora");
      put("lora_rank", document::to_text(*rank));
      put("lora_target_modules", targets == nullptr ? "all-linear" : text_of(*targets));
    }
    for (const std::string_view done :
         {"precision", "bf16", "weights_dtype", "rate", "optim", "duration", "attn_implementation", "packing", "switch",
          "lora_dropout", "derived", "dp_shard", "use_liger_kernel"})
      for (const Part part : {Part::kTrainer, Part::kServer}) static_cast<void>(find(done, part, true));
  }

  // Which models stand beside the policy.
  void read_passes() {
    bool has_reference = false, has_critic = false;
    for (const std::string& path : values_.left_over()) {
      for (const std::string_view segment : split(path, '.')) {
        const std::string word = lower(segment);
        has_reference = has_reference || word == "reference" || word.starts_with("ref_") || word == "ref";
        has_critic = has_critic || word == "critic" || word == "critic_lr" || word == "critic_model_path" ||
                     word == "critic_train" || word == "reward_critic_model_name_or_path";
      }
    }
    const Node* coefficient = find("kl", Part::kTrainer);
    if (const Node* elsewhere = find("kl", Part::kServer); coefficient == nullptr) coefficient = elsewhere;
    const Node* uses = find("use_kl", Part::kTrainer);
    const bool is_plain =
        coefficient != nullptr && document::to_text(*coefficient).find_first_not_of("0.e-+") == std::string::npos;
    const bool compares = uses != nullptr ? !job::is_off(*uses) : coefficient != nullptr ? !is_plain : has_reference;
    put("reference_pass", compares || (has_reference && !is_plain) ? "true" : "false");
    std::string estimator;
    if (const Node* named = find("estimator", Part::kTrainer)) estimator = lower(document::to_text(*named));
    if (!estimator.empty() && estimator != "gae") has_critic = false;
    if (has_critic) {
      put("critic", "true");
      assume("critic: the value model is counted with the policy's size and sharding");
    }
  }

  Values& values_;
  ConfigSettings& result_;
  bool policy_serves_ = false;
  bool is_megatron_ = false;
  bool adapters_are_off_ = false;
  std::int64_t prompt_ = 0, answer_ = 0, longest_ = 0, trainers_ = 0, server_gpus_ = 1, split_ = 1;
};

}  // namespace

Result<ConfigSettings> read_run_by_names(const std::string& path, std::string_view text, const Settings& given) {
  Result<Values> read = path.ends_with(".toml")                        ? parse_tree(document::parse_toml(text))
                        : is_yaml(text) || trim(text).starts_with('{') ? parse_tree(job::parse_omega(text, path))
                                                                       : values_of_script(text, path);
  if (!read) return tl::make_unexpected(std::move(read.error()));
  ConfigSettings result;
  RunByNames run(*read, result);
  PLIMSOLL_TRY_STATUS(run.read(given));
  const std::vector<std::string> paths = run.passed();
  const std::vector<std::string_view> passed(paths.begin(), paths.end());
  PLIMSOLL_TRY_STATUS(check_unread_of_tool(*read, passed, result.ignored));
  result.assumed.push_back(
      fmt::format("{}: read as a run of a tool that is not known, by the names of its keys", path));
  return result;
}

}  // namespace plimsoll::rl

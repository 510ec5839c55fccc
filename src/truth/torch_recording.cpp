// SPDX-License-Identifier: Apache-2.0
// Recorded Transformers, PEFT and FSDP2 runs, and the same programs under other allocator settings.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/hf_config.h"
#include "truth/fields.h"
#include "truth/record.h"

namespace plimsoll::truth {

using document::Node;

namespace {

constexpr Field kFields[] = {
    {"id", Want::kText},
    {"framework", Want::kText, true},
    {"gpu", Want::kText, true},
    {"allocator", Want::kText},
    {"world_size", Want::kInteger, true},
    {"model", Want::kTable, true},
    {"train", Want::kTable, true},
    {"train.micro_batch", Want::kInteger, true},
    {"train.seq", Want::kInteger},
    {"train.seq_choices", Want::kList},
    {"train.steps", Want::kInteger},
    {"train.accumulation", Want::kInteger},
    {"train.precision", Want::kText, true},
    {"train.optimizer", Want::kText, true},
    {"train.attention", Want::kText},
    {"train.gradient_checkpointing", Want::kFlag},
    {"train.clip_grad_norm", Want::kFlag},
    {"train.lora_rank", Want::kInteger},
    {"train.lora_targets", Want::kList},
    {"train.reshard_after_forward", Want::kFlag},
    {"train.eval_every", Want::kInteger},
    {"train.eval_batch", Want::kInteger},
    {"train.eval_seq", Want::kInteger},
    {"measured", Want::kTable, true},
    {"measured.peak_allocated", Want::kInteger, true},
    {"measured.peak_reserved", Want::kInteger},
    {"measured.oom_message", Want::kText},
};

std::string precision_group(const job::Job& job) {
  if (job.sharding.kind == job::ShardingKind::kFsdp2) return "fsdp2";
  if (job.precision.autocast) return "autocast";
  return job.precision.params == job::DType::kFp32 ? "fp32" : "pure bf16";
}

void read_precision(const std::string& text, job::Job& job) {
  const bool fsdp = text.rfind("fsdp2", 0) == 0;
  const bool autocast = text.find("autocast") != std::string::npos;
  const bool fp32 = text == "fp32";
  job.precision.compute = fp32 ? job::DType::kFp32 : job::DType::kBf16;
  job.precision.autocast = autocast;
  job.precision.params = autocast || fp32 ? job::DType::kFp32 : job::DType::kBf16;
  if (!fsdp) return;
  job.sharding.kind = job::ShardingKind::kFsdp2;
  job.sharding.units = job::FsdpUnits::kLayersAndRoot;
  job.sharding.stored = job::DType::kFp32;
  job.sharding.reduce = job::DType::kFp32;
}

void read_optimizer(const std::string& text, job::Job& job) {
  job.optimizer.kind = text.rfind("sgd", 0) == 0 ? job::OptimizerKind::kSgd : job::OptimizerKind::kAdam;
  job.optimizer.impl = text.find("fused") != std::string::npos     ? job::OptimizerImpl::kFused
                       : text.find("foreach") != std::string::npos ? job::OptimizerImpl::kForeach
                                                                   : job::OptimizerImpl::kLoop;
}

// Sizes that complete() does not bound; far above any recording, and small enough for every product.
std::string absurd_size(const Node& train) {
  constexpr std::int64_t kLargest = 1 << 20;
  for (const char* key : {"lora_rank", "eval_batch", "eval_seq", "accumulation", "steps"}) {
    const std::int64_t size = integer_or(train, key, 1);
    if (size < 0 || size > kLargest) return fmt::format("train.{} is {}; wanted 0 to {}", key, size, kLargest);
  }
  const Node* targets = train.find("lora_targets");
  if (integer_or(train, "lora_rank", 0) > 0 && (targets == nullptr || targets->items.empty()))
    return "train.lora_rank is given without train.lora_targets";
  return {};
}

// The longest of the sequence lengths that the program draws from sets the peak.
std::int64_t longest_sequence(const Node& train) {
  std::int64_t longest = integer_or(train, "seq", 0);
  if (const Node* choices = train.find("seq_choices"); choices != nullptr && choices->is_array())
    for (const Node& choice : choices->items) longest = std::max(longest, choice.integer);
  return longest;
}

// The chance that the longest length was never drawn, 0 for a fixed length.
double chance_of_missing_the_longest(const Node& train) {
  const Node* choices = train.find("seq_choices");
  if (choices == nullptr || !choices->is_array() || choices->items.empty()) return 0;
  const auto lengths = static_cast<double>(choices->items.size());
  const auto draws = static_cast<double>(integer_or(train, "steps", 1) *
                                         std::max<std::int64_t>(1, integer_or(train, "accumulation", 1)));
  return std::pow(1 - 1 / lengths, draws);
}

}  // namespace

Record read_torch_recording(const Node& node) {
  Record record;
  record.id = text_of(node, "id");
  record.skip = first_problem(node, kFields);
  if (!record.skip.empty()) return record;
  const Node& train = table_of(node, "train");
  record.skip = absurd_size(train);
  if (!record.skip.empty()) return record;
  const Node& measured = table_of(node, "measured");
  const bool fsdp = text_of(node, "framework") == "fsdp2";
  job::Job job = job::defaults_for(fsdp ? job::Framework::kFsdp2 : job::Framework::kTransformers);
  job.name = record.id;
  job.kernels.own_loop = true;
  auto model = model::read_hf_config(table_of(node, "model"));
  auto gpu = cluster::find_gpu(text_of(node, "gpu"));
  if (!model || !gpu) {
    record.skip = to_string(!model ? model.error() : gpu.error());
    return record;
  }
  job.model = *std::move(model);
  job.cluster.gpu = *gpu;
  job.cluster.gpus = integer_or(node, "world_size", 1);
  job.batch.seq_length = longest_sequence(train);
  job.batch.micro_batch = integer_or(train, "micro_batch", 1);
  job.batch.accumulation = std::max<std::int64_t>(1, integer_or(train, "accumulation", 1));
  read_precision(text_of(train, "precision"), job);
  read_optimizer(text_of(train, "optimizer"), job);
  job.clip_grad = flag_of(train, "clip_grad_norm");
  if (flag_of(train, "gradient_checkpointing")) job.recompute.granularity = job::RecomputeGranularity::kFull;
  job.kernels.attention =
      text_of(train, "attention") == "eager" ? job::AttentionBackend::kUnfused : job::AttentionBackend::kFlash;
  if (const std::int64_t rank = integer_or(train, "lora_rank", 0); rank > 0) {
    job.adapter.kind = job::AdapterKind::kLora;
    job.adapter.rank = rank;
    job.adapter.targets.clear();
    if (const Node* targets = train.find("lora_targets"))
      for (const Node& target : targets->items) job.adapter.targets.push_back(target.text);
    job.adapter.inputs_require_grad = flag_of(train, "gradient_checkpointing");
  }
  if (const Node* reshard = train.find("reshard_after_forward"); reshard != nullptr && reshard->is_bool())
    job.sharding.reshard_after_forward = reshard->boolean;
  if (integer_or(train, "eval_every", 0) > 0) {
    // The program keeps the fp32 logits of four batches on the GPU.
    job.batch.eval_micro_batch = integer_or(train, "eval_batch", job.batch.micro_batch);
    job.batch.eval_seq_length = integer_or(train, "eval_seq", job.batch.seq_length);
    job.batch.eval_batches_kept = 4;
    job.batch.eval_logits_fp32 = true;
  }
  if (!text_of(node, "allocator").empty()) job.environment["PYTORCH_CUDA_ALLOC_CONF"] = text_of(node, "allocator");
  record.groups = {{"framework", text_of(node, "framework")},
                   {"gpu", text_of(node, "gpu")},
                   {"recompute", flag_of(train, "gradient_checkpointing") ? "checkpointing" : "none"},
                   {"precision", precision_group(job)},
                   {"adapter", job.adapter.kind == job::AdapterKind::kNone ? "none" : "lora"},
                   {"allocator", text_of(node, "allocator").empty() ? "default" : text_of(node, "allocator")}};
  if (measured.has("oom_message"))
    record.skip =
        "the run ended in an out-of-memory error at a memory fraction: its peak is the limit's, not the job's";
  constexpr double kNegligible = 0.01;
  if (const double chance = chance_of_missing_the_longest(train); record.skip.empty() && chance > kNegligible)
    record.skip = fmt::format(
        "lengths are drawn at random and which came is not recorded: with a chance of {:.0f} % the longest, which sets "
        "the "
        "peak, was not among them",
        100 * chance);
  if (auto status = job::complete(job); !status && record.skip.empty()) record.skip = to_string(status.error());
  record.job = std::move(job);
  record.peak_allocated = integer_or(measured, "peak_allocated", 0);
  // With lengths drawn at random, reserved memory depends on their order, which a job does not say.
  const Node* choices = train.find("seq_choices");
  if ((choices == nullptr || !choices->is_array()) && measured.has("peak_reserved"))
    record.peak_reserved = integer_or(measured, "peak_reserved", 0);
  return record;
}

}  // namespace plimsoll::truth

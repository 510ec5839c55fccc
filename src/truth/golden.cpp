// SPDX-License-Identifier: Apache-2.0
// Golden values that the Megatron-LM project publishes with its functional tests: peak allocated bytes of
// the last global rank, with the flags of the run.
#include "job/read.h"
#include "truth/fields.h"
#include "truth/record.h"

namespace plimsoll::truth {

using document::Node;

namespace {

constexpr Field kFields[] = {
    {"test_case", Want::kText, true},
    {"golden_file", Want::kText, true},
    {"run", Want::kText},
    {"gpu_type", Want::kText},
    {"test_type", Want::kText},
    {"environment", Want::kText},
    {"golden_last_commit_date", Want::kText},
    {"values_since", Want::kText},
    {"world_size", Want::kInteger, true},
    {"args", Want::kTable, true},
    {"mem_max_allocated_bytes", Want::kTable},
    {"mem_max_allocated_bytes.max", Want::kNumber},
    {"iteration_time_s", Want::kTable},
    {"iteration_time_s.median", Want::kNumber},
};

// What the figure of a record measures besides a plain training step, or "".
std::string why_not_comparable(const Node& node) {
  const std::string test = text_of(node, "test_case");
  if (text_of(node, "test_type") == "checkpoint-consistency")
    return "a checkpoint-consistency test: compares saved states and reports no training peak";
  const Node& args = table_of(node, "args");
  if (args.has("--perform-rl-step") || test.find("grpo") != std::string::npos)
    return "an RL test: inference engine and trainer share the process";
  if (args.has("--export-kd-teacher-load")) return "knowledge distillation: a teacher model is resident";
  return {};
}

std::string gpu_name(const std::string& type) {
  if (type == "H100") return "h100-sxm-80gb";
  if (type == "A100") return "a100-sxm-80gb";
  if (type == "GB200") return "gb200-186gb";
  return {};
}

// When the published bytes last changed: their container is the one of that day. A file may change later without them.
std::string recorded_on(const Node& node) {
  const std::string since = text_of(node, "values_since");
  return since.empty() ? text_of(node, "golden_last_commit_date") : since;
}

// Transformer Engine in the long-term-support container of before November 2025 had no deterministic fused attention
// for the A100 and fell back to its unfused form. Measured: 12 layers of TP 1 hold 160 MiB of scores each, and with
// --attention-backend unfused stated the same tests hold the same bytes in every container.
bool ran_unfused(const Node& node) {
  constexpr std::string_view kNewContainer = "2025-11";
  const Node& args = table_of(node, "args");
  return text_of(node, "environment") == "lts" && recorded_on(node) < kNewContainer &&
         args.has("--deterministic-mode") && !args.has("--attention-backend") &&
         text_of(args, "--transformer-impl") == "transformer_engine";
}

// The development container had PyTorch 2.12 from NGC 26.04 on, which the project took on 7 May 2026; a figure is of
// the container of the day when its bytes last changed.
std::string_view torch_version(const Node& node) {
  constexpr std::string_view kNewer = "2026-05-07";
  return text_of(node, "environment") == "dev" && recorded_on(node) >= kNewer ? "2.12" : "2.11";
}

// The records of BERT carry GPT-2's vocabulary, which their flags do not name: pretrain_bert.py's own tokenizer is
// BERT's, and with GPT-2's the weights alone would exceed the steady bytes that the same records publish.
bool has_bert_vocabulary(const Node& node) {
  return text_of(node, "test_case").rfind("bert/", 0) == 0 && !table_of(node, "args").has("--tokenizer-type");
}

std::string recompute_group(const job::Job& job) {
  switch (job.recompute.granularity) {
    case job::RecomputeGranularity::kNone:
      return "none";
    case job::RecomputeGranularity::kFull:
      return "full";
    default:
      return "selective";
  }
}

}  // namespace

Record read_golden(const Node& node) {
  Record record;
  record.id = text_of(node, "test_case") + "@" + text_of(node, "golden_file");
  if (const std::string run = text_of(node, "run"); run != "1st" && !run.empty()) record.id += "#" + run;
  record.groups = {{"framework", "megatron-lm"},
                   {"gpu", text_of(node, "gpu_type")},
                   {"family", text_of(node, "test_case").substr(0, text_of(node, "test_case").find('/'))},
                   {"test_type", text_of(node, "test_type")}};
  record.skip = first_problem(node, kFields);
  if (record.skip.empty()) record.skip = why_not_comparable(node);
  const Node& peak = table_of(node, "mem_max_allocated_bytes");
  const std::int64_t measured = integer_or(peak, "max", 0);
  if (record.skip.empty() && measured <= 0) record.skip = "no peak was published";
  if (!record.skip.empty()) return record;
  record.peak_allocated = measured;
  if (const Node* median = table_of(node, "iteration_time_s").find("median");
      median != nullptr && median->is_number()) {
    record.step_seconds = median->as_real();
    record.whole_job = true;
  }

  job::ReadOptions options;
  options.framework = job::Framework::kMegatronLm;
  // Files without a GPU name are of the A100 era; their figure does not depend on the capacity.
  options.gpu = gpu_name(text_of(node, "gpu_type"));
  if (options.gpu.empty()) options.gpu = "a100-sxm-80gb";
  options.gpus = integer_or(node, "world_size", 8);
  options.overrides.emplace_back("torch_version", torch_version(node));
  if (has_bert_vocabulary(node)) options.overrides.emplace_back("vocab_size", "30524");
  if (ran_unfused(node)) options.overrides.emplace_back("attention_backend", "unfused");
  auto job = job::read_job({{record.id, document::to_json(node)}}, options);
  if (!job) {
    record.skip = to_string(job.error());
    return record;
  }
  record.groups["recompute"] = recompute_group(*job);
  record.groups["precision"] =
      job->precision.fp8 != job::Fp8Recipe::kNone ? "fp8" : std::string(job::name_of(job->precision.params));
  record.pp_rank = job->parallel.pipeline - 1;
  record.job = *std::move(job);
  return record;
}

}  // namespace plimsoll::truth

// SPDX-License-Identifier: Apache-2.0
// Recorded runs of the Trainer of Transformers: a config.json, its TrainingArguments and a sequence length, read
// the way `fit` reads them; what the run itself chose (attention kernel, dtype of the weights) is not given.
#include <algorithm>

#include "job/read.h"
#include "truth/fields.h"
#include "truth/record.h"

namespace plimsoll::truth {

using document::Node;

namespace {

constexpr Field kFields[] = {
    {"id", Want::kText},
    {"gpu", Want::kText, true},
    {"gpus", Want::kInteger, true},
    {"host_speed", Want::kNumber},
    {"seq_length", Want::kInteger, true},
    {"config", Want::kTable, true},
    {"config.model_type", Want::kText},
    {"training_args", Want::kTable, true},
    {"keys", Want::kTable},
    {"measured", Want::kTable, true},
    {"measured.peak_allocated", Want::kInteger},
    {"measured.peak_reserved", Want::kInteger},
    {"measured.evaluation_peak_allocated", Want::kInteger},
    {"measured.evaluation_peak_reserved", Want::kInteger},
    {"measured.step_seconds", Want::kNumber},
};

// The largest over training steps and evaluation, as one run has it; nothing where training was not measured.
std::optional<std::int64_t> largest(const Node& measured, std::string_view training, std::string_view evaluation) {
  if (!measured.has(training)) return std::nullopt;
  return std::max(integer_or(measured, training, 0), integer_or(measured, evaluation, 0));
}

std::string precision_group(const job::Job& job) {
  if (job.precision.autocast) return "autocast";
  return job.precision.params == job::DType::kFp32 ? "fp32" : "pure bf16";
}

}  // namespace

Record read_trainer_recording(const Node& node) {
  Record record;
  record.id = text_of(node, "id");
  record.skip = first_problem(node, kFields);
  if (!record.skip.empty()) return record;
  const Node& measured = table_of(node, "measured");
  if (!measured.has("peak_allocated") && !measured.has("step_seconds")) {
    record.skip = "measured has neither peak_allocated nor step_seconds; wanted one of them";
    return record;
  }
  const Node& arguments = table_of(node, "training_args");
  record.groups = {{"framework", "transformers"},
                   {"gpu", text_of(node, "gpu")},
                   {"family", text_of(table_of(node, "config"), "model_type")},
                   {"recompute", flag_of(arguments, "gradient_checkpointing") ? "checkpointing" : "none"},
                   {"compiled", flag_of(arguments, "torch_compile") ? "yes" : "no"}};
  job::ReadOptions options;
  options.framework = job::Framework::kTransformers;
  options.gpu = text_of(node, "gpu");
  options.gpus = integer_or(node, "gpus", 1);
  options.overrides.emplace_back("seq_length", std::to_string(integer_or(node, "seq_length", 0)));
  // What config.json and TrainingArguments do not hold: images of a batch, what is frozen.
  for (const auto& [key, value] : table_of(node, "keys").members)
    options.overrides.emplace_back(key, document::to_text(value));
  auto job = job::read_job({{record.id + "/config.json", document::to_json(table_of(node, "config"))},
                            {record.id + "/training_args.json", document::to_json(arguments)}},
                           options);
  if (!job) {
    record.skip = to_string(job.error());
    return record;
  }
  record.groups["precision"] = precision_group(*job);
  record.job = *std::move(job);
  record.peak_allocated = largest(measured, "peak_allocated", "evaluation_peak_allocated");
  record.peak_reserved = largest(measured, "peak_reserved", "evaluation_peak_reserved");
  if (const Node* seconds = measured.find("step_seconds")) record.step_seconds = seconds->as_real();
  if (const Node* speed = node.find("host_speed")) record.host_speed = speed->as_real();
  record.whole_job = true;
  return record;
}

}  // namespace plimsoll::truth

// SPDX-License-Identifier: Apache-2.0
// Levers after which other numbers are computed: never pulled unasked.
#include <fmt/format.h>

#include "lever/proposers.h"

namespace plimsoll::lever {

namespace {

bool has_peft(const job::Job& job) { return job.facts().has_adapters; }

bool is_plain_adam(const job::Job& job) {
  return job.optimizer.kind == job::OptimizerKind::kAdam && runs_hub_modules(job) && !has_optimizer_on_host(job);
}

// Another optimizer than torch's Adam has one implementation, and no name in a launch with torch's other ones.
job::Settings settings_of(const job::Job& job, const char* optimizer, job::OptimizerImpl only) {
  job::Settings settings = {{"optimizer", optimizer}};
  if (job.optimizer.impl != only) settings.emplace_back("optimizer_implementation", job::name_of(only));
  return settings;
}

}  // namespace

void adam_8bit(const job::Job& job, Proposals& proposals) {
  if (is_plain_adam(job)) proposals.add("8-bit Adam", settings_of(job, "adam8bit", job::OptimizerImpl::kFused));
}

void adafactor(const job::Job& job, Proposals& proposals) {
  if (is_plain_adam(job)) proposals.add("Adafactor", settings_of(job, "adafactor", job::OptimizerImpl::kLoop));
}

void bf16(const job::Job& job, Proposals& proposals) {
  const cluster::Architecture gpu = job.cluster.gpu.architecture;
  if (job.precision.compute != job::DType::kFp32 || gpu == cluster::Architecture::kVolta ||
      gpu == cluster::Architecture::kTuring)
    return;
  proposals.add("bf16", {{"bf16", "true"}});
}

void fp8(const job::Job& job, Proposals& proposals) {
  if (!job.is_megatron() || job.precision.fp8 != job::Fp8Recipe::kNone || !job.cluster.gpu.is_hopper_or_newer() ||
      job.precision.compute != job::DType::kBf16)
    return;
  const char* recipe = job.cluster.gpu.is_blackwell() ? "mxfp8" : "tensorwise";
  proposals.add(fmt::format("FP8, {}", recipe),
                {{"fp8", "hybrid"}, {"fp8_recipe", recipe}, {"fp8_param_gather", "true"}});
}

void gradients_bf16(const job::Job& job, Proposals& proposals) {
  if (job.is_megatron() && job.optimizer.grad_reduce_in_fp32 && job.precision.compute == job::DType::kBf16)
    proposals.add("gradients in bf16", {{"grad_reduce_in_fp32", "false"}});
}

void lora(const job::Job& job, Proposals& proposals) {
  if (has_peft(job) && job.adapter.kind == job::AdapterKind::kNone) proposals.add("LoRA", {{"peft", "lora"}});
}

void qlora(const job::Job& job, Proposals& proposals) {
  if (!has_peft(job) || job.is_megatron() || job.adapter.has_quantized_base()) return;
  job::Settings settings = {{"load_in_4bit", "true"}};
  if (job.adapter.kind == job::AdapterKind::kNone) settings.emplace_back("peft", "lora");
  proposals.add("QLoRA (4-bit model)", std::move(settings));
}

}  // namespace plimsoll::lever

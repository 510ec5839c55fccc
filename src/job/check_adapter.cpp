// SPDX-License-Identifier: Apache-2.0
// What PEFT and bitsandbytes would refuse of adapters, and what is not modelled of them.
#include <algorithm>

#include <fmt/format.h>

#include "base/name_pattern.h"
#include "job/derive.h"

namespace plimsoll::job {

namespace {

// Every name is compared with every module of the model, and a pattern is walked through each of their names.
constexpr std::size_t kMostNames = 4'096;
constexpr std::size_t kMostPatterns = 32;

Status check_names(const Adapter& a) {
  std::size_t names = a.saved_modules.size() + a.ranks.size();
  std::size_t patterns = 0;
  for (const auto& [name, rank] : a.ranks) patterns += is_pattern(name) ? 1 : 0;
  for (const std::vector<std::string>* list : {&a.targets, &a.excluded}) {
    names += list->size();
    for (const std::string& name : *list) {
      if (!is_pattern(name)) continue;
      ++patterns;
      PLIMSOLL_TRY_STATUS(check_pattern(name));
    }
  }
  if (names > kMostNames)
    return bad_input(fmt::format("adapters: {} names of modules, wanted at most {}", names, kMostNames));
  if (patterns > kMostPatterns)
    return bad_input(fmt::format("adapters: {} patterns for modules, wanted at most {}", patterns, kMostPatterns));
  return {};
}

}  // namespace

Status check_adapter(const Job& job) {
  const Adapter& a = job.adapter;
  if (a.quantized_base && a.eight_bit_base) return bad_input("load_in_4bit and load_in_8bit are both on", "keep one");
  if (a.kind == AdapterKind::kNone && a.has_quantized_base())
    return bad_input(fmt::format("You cannot perform fine-tuning on purely quantized models: {} without an adapter",
                                 a.quantized_base ? "load_in_4bit" : "load_in_8bit"),
                     "add an adapter_config.json, or --peft lora");
  if (a.kind == AdapterKind::kNone) return {};
  if (a.rank < 1) return bad_input("lora_rank must be at least 1");
  if (!job.is_megatron()) PLIMSOLL_TRY_STATUS(check_names(a));
  if (a.trained_tokens > job.model.vocab)
    return bad_input(
        fmt::format("trainable_token_indices: {} rows of {} are named", a.trained_tokens, job.model.vocab));
  const bool saves_embedding =
      std::find(a.saved_modules.begin(), a.saved_modules.end(), "embed_tokens") != a.saved_modules.end();
  if (a.trained_tokens > 0 && saves_embedding)
    return bad_input("trainable_token_indices and modules_to_save both name the embedding", "keep one");
  const bool has_more = !a.saved_modules.empty() || !a.layers.empty() || !a.ranks.empty() ||
                        a.bias != AdapterBias::kNone || a.own_bias || a.trained_tokens > 0 || a.eight_bit_base;
  if (has_more && (job.is_megatron() || job.parallel.pipeline > 1))
    return bad_input(
        "modules_to_save, layers_to_transform, rank_pattern, adapter_bias, lora_bias, "
        "trainable_token_indices and load_in_8bit are PEFT's, modelled on Transformers' modules in one stage",
        "use --framework transformers, fsdp2 or deepspeed");
  return {};
}

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
// What is trained of a model where that is not all of it, and models beside it.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "base/name_pattern.h"
#include "job/derive.h"
#include "job/keys.h"

namespace plimsoll::job {

namespace {

// Families whose modules have the names of Llama's.
bool has_known_names(const model::Architecture& model) {
  constexpr std::string_view kTypes[] = {"llama",     "mistral",   "ministral", "mixtral", "qwen2",       "qwen3",
                                         "qwen2_moe", "qwen3_moe", "gemma",     "gemma2",  "gemma3_text", "phi3",
                                         "granite",   "smollm3",   "seed_oss",  "arcee"};
  return model.vision == nullptr &&
         std::find(std::begin(kTypes), std::end(kTypes), model.model_type) != std::end(kTypes);
}

Status check_chosen_parameters(const Job& job) {
  if (job.adapter.kind != AdapterKind::kNone)
    return bad_input("trainable_parameters: adapters are trained, and nothing of the model beside them",
                     "leave out the one or the other");
  if (!has_known_names(job.model))
    return tl::make_unexpected(
        Error{Code::kMissing,
              fmt::format("trainable_parameters: names of the parameters of {} are not known", job.model.model_type),
              {},
              "trainable_layers chooses whole layers"});
  for (const std::string& text : job.trainable_parameters)
    if (const auto pattern = NamePattern::parse(text); !pattern)
      return bad_input("trainable_parameters: " + pattern.error().message);
  return {};
}

}  // namespace

// Parts that are trained, and models beside the one that is, as Transformers' modules have them.
Status check_trained(Job& job) {
  const bool is_plain = job.kernels.implementation == Implementation::kTransformers && job.parallel.pipeline == 1;
  const auto beyond = [&job](std::string_view key) {
    return tl::make_unexpected(Error{
        Code::kMissing,
        fmt::format("{} is modelled on Transformers' modules in one stage, not under {}", key, name_of(job.framework)),
        {},
        "use --framework transformers, fsdp2 or deepspeed"});
  };
  if (job.trainable_layers != 0) {
    if (!is_plain) return beyond("trainable_layers");
    if (std::abs(job.trainable_layers) > job.model.depth())
      return bad_input(fmt::format("trainable_layers {}: {} has {} layers", job.trainable_layers, job.model.name,
                                   job.model.depth()));
    if (job.model.encoder_depth() > 0)
      return bad_input("trainable_layers: chosen layers of an encoder with a decoder are not modelled");
  }
  if (!job.trainable_parameters.empty()) {
    if (!is_plain || job.parallel.tensor > 1) return beyond("trainable_parameters");
    PLIMSOLL_TRY_STATUS(check_chosen_parameters(job));
  }
  if (job.preference_loss && !is_plain) return beyond("preference_loss");
  if (job.chosen_loss && !job.preference_loss)
    return bad_input("chosen_loss stands beside preference_loss, which is off", "add --preference-loss");
  if (job.teacher == nullptr) return {};
  if (!is_plain || job.parallel.tensor > 1 || job.parallel.context > 1) return beyond("teacher_model");
  return {};
}

}  // namespace plimsoll::job

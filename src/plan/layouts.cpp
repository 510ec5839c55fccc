// SPDX-License-Identifier: Apache-2.0
#include "plan/layouts.h"

namespace plimsoll::plan {

std::string balanced_layout(std::int64_t layers, std::int64_t mtp, std::int64_t stages, EndWeights ends) {
  const std::int64_t last_weighs = mtp + (1 + mtp) * ends.loss;
  const std::int64_t units = layers + ends.embedding + last_weighs;
  std::string text = "E";
  std::int64_t rest = layers;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    std::int64_t here = units / stages + (stage >= stages - units % stages ? 1 : 0);
    if (stage == 0) here -= ends.embedding;
    const bool last = stage == stages - 1;
    // An end that weighs more than its stage leaves the rest to others: the last stage takes what remains.
    if (last) here = rest;
    if (here < 0 || (here == 0 && !last && stage > 0)) return {};
    if (here > rest) return {};
    rest -= here;
    text.append(static_cast<std::size_t>(here), 't');
    if (last) text += std::string(static_cast<std::size_t>(mtp), 'm') + "L";
    if (!last) text += '|';
  }
  return text;
}

std::string layout_text(LayoutChoice choice, const model::Architecture& model, std::int64_t stages) {
  if (choice == LayoutChoice::kBalanced) return balanced_layout(model.depth(), model.mtp_layers, stages);
  if (choice == LayoutChoice::kLossCounts)
    return balanced_layout(model.depth(), model.mtp_layers, stages, {.embedding = 0, .loss = 1});
  return {};
}

std::vector<LayoutChoice> layouts_of(const job::Job& job, std::int64_t pipeline, std::int64_t chunks) {
  const std::int64_t stages = pipeline * chunks;
  const std::int64_t depth = job.model.depth();
  if (pipeline == 1) return {LayoutChoice::kEven};
  std::vector<LayoutChoice> layouts;
  if (depth % stages == 0) layouts.push_back(LayoutChoice::kEven);
  if (!job.is_megatron()) return layouts;
  if ((depth + 2) % stages == 0 && job.model.mtp_layers == 0) layouts.push_back(LayoutChoice::kEndsCount);
  if (!layouts.empty() && job.model.mtp_layers == 0) return layouts;
  const std::string both = layout_text(LayoutChoice::kBalanced, job.model, stages);
  const std::string loss = layout_text(LayoutChoice::kLossCounts, job.model, stages);
  if (!both.empty()) layouts.push_back(LayoutChoice::kBalanced);
  if (!loss.empty() && loss != both) layouts.push_back(LayoutChoice::kLossCounts);
  return layouts;
}

}  // namespace plimsoll::plan

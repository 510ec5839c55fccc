// SPDX-License-Identifier: Apache-2.0
// Optimizers as Trainer names them. One that is counted as another says so; one whose states are of
// another kind is refused, because any number for it would be wrong.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/transformers/include.h"
#include "job/value.h"

namespace plimsoll::job {

namespace {

enum class Projection : std::uint8_t { kNone, kSingular, kRandom };

struct Row {
  std::string_view name;
  OptimizerKind kind;
  OptimizerImpl impl;
  bool paged = false;
  std::string_view note = {};
  Projection projects = Projection::kNone;  // of rank 128 unless optim_args says another
  bool in_backward = false;                 // layer-wise
};

using enum OptimizerKind;
using enum OptimizerImpl;

// Adam-mini keeps a second moment per block of weights, which is nothing beside the first.
constexpr std::string_view kOneState = "one state per weight is counted, as SGD with momentum has";

constexpr std::string_view kDecomposes = "the decompositions of gradients are not in the step's time";
constexpr std::string_view kProjects = "the projections of gradients are not in the step's time";

constexpr Row kTransformersRows[] = {
    {"adamw_torch_fused", kAdam, kFused},
    {"adamw_torch", kAdam, kForeach},
    {"adamw_hf", kAdam, kLoop},
    {"adamw_apex_fused", kAdam, kFused},
    {"adamw_torch_npu_fused", kAdam, kFused},
    {"adafactor", kAdafactor, kLoop},
    {"sgd", kSgd, kForeach},
    {"adamw_bnb_8bit", kAdam8bit, kFused},
    {"adamw_8bit", kAdam8bit, kFused},
    {"paged_adamw_8bit", kAdam8bit, kFused, true},
    {"paged_adamw_32bit", kAdam, kFused, true},
    {"paged_adamw", kAdam, kFused, true},
    {"lion_32bit", kLion, kFused},
    {"paged_lion_32bit", kLion, kFused, true},
    {"lion_8bit", kLion, kFused, false, "8-bit states of Lion are counted in 32 bits"},
    {"paged_lion_8bit", kLion, kFused, true, "8-bit states of Lion are counted in 32 bits"},
    {"adamw_torch_8bit", kAdam8bit, kFused, false, "torchao's 8-bit states are counted as bitsandbytes'"},
    {"adamw_torch_4bit", kAdam8bit, kFused, false, "torchao's 4-bit states are counted as 8-bit ones"},
    {"rmsprop", kSgd, kForeach, false, kOneState},
    {"adam_mini", kSgd, kLoop, false, kOneState},
    {"adamw_mini", kSgd, kLoop, false, kOneState},
    {"muon", kMuon, kFused, false, "as torch.optim.Muon for the matrices of layers, with AdamW for the rest"},
    {"galore_adamw", kAdam, kLoop, false, kDecomposes, Projection::kSingular},
    {"galore_adamw_8bit", kAdam8bit, kFused, false, kDecomposes, Projection::kSingular},
    {"galore_adamw_layerwise", kAdam, kLoop, false, kDecomposes, Projection::kSingular, true},
    {"galore_adamw_8bit_layerwise", kAdam8bit, kFused, false, kDecomposes, Projection::kSingular, true},
    {"apollo_adamw", kAdam, kLoop, false, kProjects, Projection::kRandom},
    {"apollo_adamw_layerwise", kAdam, kLoop, false, kProjects, Projection::kRandom, true},
    {"lomo", kSgd, kForeach, false, "counted as SGD without momentum"},
    {"adalomo", kSgd, kForeach, false, "counted as SGD without momentum"},
    {"schedule_free_adamw", kAdam, kForeach, false, "counted as AdamW (foreach)"},
    {"stable_adamw", kAdam, kForeach, false, "counted as AdamW (foreach)"},
};

}  // namespace

Status read_optimizer_name(const document::Node& value, std::string_view written_as, Draft& draft) {
  PLIMSOLL_TRY(word, to_word(value));
  const std::string name = lower(word.substr(word.rfind('.') + 1));  // "OptimizerNames.ADAMW_TORCH" in dumps
  std::vector<std::string> names;
  for (const Row& row : kTransformersRows) {
    names.emplace_back(row.name);
    if (name != row.name) continue;
    draft.assign("optimizer", text_node(std::string(name_of(row.kind))), written_as);
    draft.assign("optimizer_implementation", text_node(std::string(name_of(row.impl))), written_as);
    if (row.projects != Projection::kNone) draft.assign("projection_rank", integer_node(128), written_as, true);
    if (row.projects == Projection::kRandom) draft.assign("random_projection", bool_node(true), written_as);
    if (row.in_backward) draft.assign("optimizer_in_backward", bool_node(true), written_as);
    if (row.paged) draft.assign("paged_optimizer", bool_node(true), written_as);
    const bool has_momentum = row.note == kOneState;
    if (row.kind == kSgd) draft.assign("sgd_momentum", real_node(has_momentum ? 0.9 : 0), written_as, true);
    if (!row.note.empty()) draft.warnings.push_back(fmt::format("{} {}: {}", written_as, name, row.note));
    return {};
  }
  const std::string near = nearest(name, names);
  return bad_input(fmt::format("{}: the optimizer '{}' is not modelled", written_as, name),
                   near.empty() ? "" : fmt::format("did you mean '{}'?", near));
}

Status read_optimizer_arguments(const document::Node& value, Draft& draft) {
  if (!value.is_string()) return {};
  for (const std::string_view part : split(value.text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) continue;
    if (trim(part.substr(0, equals)) == "proj" && trim(part.substr(equals + 1)) == "svd")
      draft.warnings.emplace_back("optim_args proj=svd: APOLLO's singular vectors are counted as random ones");
    if (trim(part.substr(0, equals)) != "rank") continue;
    const bool is_galore = std::any_of(draft.assignments.begin(), draft.assignments.end(),
                                       [](const Assignment& a) { return a.key == "projection_rank"; });
    draft.assign(is_galore ? "projection_rank" : "optim_args", text_node(std::string(trim(part.substr(equals + 1)))),
                 "optim_args");
  }
  return {};
}

}  // namespace plimsoll::job

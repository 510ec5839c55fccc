// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "job/keys.h"
#include "job/readers/megatron_flags.h"
#include "job/value.h"

namespace plimsoll::job {

namespace {

const Assignment* find(const Draft& draft, std::string_view key) {
  const Assignment* found = nullptr;
  for (const Assignment& given : draft.assignments)
    if (given.key == key && given.problem.empty()) found = &given;
  return found;
}

// No layer is recomputed: the same as no recomputation.
void settle_recomputation(Draft& draft) {
  const Assignment* layers = find(draft, "recompute_num_layers");
  if (layers == nullptr || !is_off(layers->value)) return;
  for (const std::string_view key : {"recompute_num_layers", "recompute_granularity", "recompute_method"})
    std::erase_if(draft.assignments, [key](const Assignment& given) { return given.key == key; });
}

// PyTorch's FSDP2 shards weights, gradients and states over data-parallel ranks and gathers a layer at a time, as
// Megatron's own does.
void settle_torch_fsdp2(Draft& draft) {
  const Assignment* given = find(draft, "use_torch_fsdp2");
  if (given == nullptr || is_off(given->value)) return;
  const std::string where = given->where;
  std::erase_if(draft.assignments, [](const Assignment& one) {
    return one.key == "use_torch_fsdp2" || one.key == "torch_fsdp2_reshard_after_forward";
  });
  draft.assign("use_megatron_fsdp", bool_node(true), "use_torch_fsdp2");
  draft.assign("data_parallel_sharding_strategy", text_node("optim_grads_params"), "use_torch_fsdp2", true);
  draft.warnings.emplace_back("use_torch_fsdp2: PyTorch's FSDP2 under Megatron is counted as Megatron-FSDP");
}

}  // namespace

void settle_megatron(Draft& draft) {
  settle_recomputation(draft);
  settle_torch_fsdp2(draft);
}

}  // namespace plimsoll::job

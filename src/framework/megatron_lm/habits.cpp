// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "framework/megatron_lm/flags.h"
#include "job/keys.h"
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

// Whether PyTorch's FSDP2 keeps a layer gathered until its backward is not told apart under Megatron.
void settle_torch_fsdp2(Draft& draft) {
  std::erase_if(draft.assignments,
                [](const Assignment& given) { return given.key == "torch_fsdp2_reshard_after_forward"; });
}

}  // namespace

void settle_megatron(Draft& draft) {
  settle_recomputation(draft);
  settle_torch_fsdp2(draft);
}

}  // namespace plimsoll::job

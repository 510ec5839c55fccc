// SPDX-License-Identifier: Apache-2.0
// What everybody calls the degrees of parallelism.
#pragma once

#include <string_view>
#include <utility>

namespace plimsoll::job {

inline constexpr std::pair<std::string_view, std::string_view> kShortNames[] = {
    {"tp", "tensor_model_parallel_size"},
    {"pp", "pipeline_model_parallel_size"},
    {"vpp", "virtual_pipeline_model_parallel_size"},
    {"cp", "context_parallel_size"},
    {"ep", "expert_model_parallel_size"},
    {"etp", "expert_tensor_parallel_size"},
};

}  // namespace plimsoll::job

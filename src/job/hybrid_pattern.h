// SPDX-License-Identifier: Apache-2.0
// Megatron's hybrid_layer_pattern: one symbol per layer, '|' between pipeline segments, and behind '/' the layers of
// one depth of multi-token prediction, once for each depth (facts megatron-memory.md 2.8).
//   M-M-|M-M*-/MM/MM  ->  9 layers in two segments, and two depths of two mixers
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll::job {

struct HybridPattern {
  std::string layers;                  // without separators
  std::vector<std::int64_t> segments;  // layers of each; one: the pipeline cuts the stack evenly
  std::string mtp;                     // layers of one depth
  std::int64_t mtp_depths = 0;

  friend bool operator==(const HybridPattern&, const HybridPattern&) = default;
};

[[nodiscard]] Result<HybridPattern> parse_hybrid_pattern(std::string_view text);

// What hybrid_attention_ratio and hybrid_mlp_ratio stand for: attention evenly between mixers, then MLPs in the place
// of mixers. Ratios are between 0 and 1 and make at most 1 together; num_layers is positive.
[[nodiscard]] std::string pattern_of_ratios(std::int64_t num_layers, double attention, double mlp);

}  // namespace plimsoll::job

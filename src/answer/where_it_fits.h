// SPDX-License-Identifier: Apache-2.0
// A model without a GPU: where it would fit, trained whole, with LoRA and with QLoRA.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answer/input.h"

namespace plimsoll::answer {

struct WhereItFits {
  struct Row {
    std::string gpu;
    std::int64_t capacity = 0;                        // bytes
    std::vector<std::optional<std::int64_t>> fewest;  // GPUs, by method; nothing: more than were tried
  };
  std::string model;
  std::vector<std::string> methods;  // "full", "LoRA", "QLoRA"
  std::vector<Row> rows;

  [[nodiscard]] bool any() const;
};

// Whether nothing but a model was named.
[[nodiscard]] bool asks_where_it_fits(const job::Request& request);

[[nodiscard]] Result<WhereItFits> where_it_fits(const job::Request& request, const lever::World& world);
[[nodiscard]] std::string to_json(const WhereItFits& answer);

}  // namespace plimsoll::answer

// SPDX-License-Identifier: Apache-2.0
// model.safetensors.index.json: the size of a checkpoint as it was stored. A config.json beside it that
// describes another model is found out here, before its numbers are believed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "document/node.h"
#include "model/architecture.h"

namespace plimsoll::model {

struct SafetensorsIndex {
  std::int64_t total_size = 0;       // bytes of all tensors
  std::vector<std::string> tensors;  // their names
  std::int64_t files = 0;            // distinct shards
};

// True for a table with weight_map and metadata.
[[nodiscard]] bool looks_like_safetensors_index(const document::Node& root);

[[nodiscard]] Result<SafetensorsIndex> read_safetensors_index(const document::Node& root);

// Compares the stored bytes with the parameters of the model at the type that its config.json states
// (torch_dtype or dtype). Copies of tied embeddings, MTP layers and known buffers may be stored on top.
// Disagreement is an error with both numbers. The value is empty when they agree, and otherwise says why
// they could not be compared (a quantized checkpoint, a vision part).
[[nodiscard]] Result<std::string> check_safetensors_index(const SafetensorsIndex& index, const Architecture& model,
                                                          const document::Node& config);

}  // namespace plimsoll::model

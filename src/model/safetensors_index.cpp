// SPDX-License-Identifier: Apache-2.0
#include "model/safetensors_index.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "model/parameters.h"

namespace plimsoll::model {

namespace {

using document::Node;

// A key of the file or of its text_config; null counts as absent.
const Node* find_anywhere(const Node& config, std::string_view key) {
  const Node* node = config.find(key);
  if (node != nullptr && !node->is_null()) return node;
  const Node* text = config.find("text_config");
  node = text == nullptr ? nullptr : text->find(key);
  return node != nullptr && !node->is_null() ? node : nullptr;
}

// Bytes per parameter by torch_dtype or dtype; 0 where neither is there.
Result<std::int64_t> stored_bytes(const Node& config) {
  const Node* type = find_anywhere(config, "torch_dtype");
  if (type == nullptr) type = find_anywhere(config, "dtype");
  if (type == nullptr) return 0;
  if (!type->is_string())
    return bad_input(fmt::format("torch_dtype is {}; wanted a string", document::kind_name(type->kind)));
  std::string_view name = type->text;
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name == "bfloat16" || name == "float16") return 2;
  if (name == "float32") return 4;
  if (name == "auto") return 0;
  return bad_input(fmt::format("torch_dtype is '{}'; wanted bfloat16, float16 or float32", name.substr(0, 40)));
}

// Bytes of tensors that are stored but are no parameters: rotary tables, causal masks and router
// corrections, by the names of the index. An upper bound: each is taken as fp32.
std::int64_t buffer_bytes(const SafetensorsIndex& index, const Architecture& model) {
  constexpr std::int64_t kFp32 = 4;
  std::int64_t largest_rotary = 0;
  std::int64_t largest_router = 0;
  for (const Layer& kind : model.kinds) {
    largest_rotary = std::max({largest_rotary, kind.attention.head_dim / 2, kind.attention.qk_rope_dim / 2});
    largest_router = std::max(largest_router, kind.ffn.experts);
  }
  const std::int64_t mask = checked_mul(model.max_positions, model.max_positions).value_or(0);
  std::int64_t bytes = 0;
  for (const std::string& name : index.tensors) {
    std::int64_t elements = 0;
    if (name.ends_with("rotary_emb.inv_freq")) elements = largest_rotary;
    if (name.ends_with("e_score_correction_bias")) elements = largest_router;
    if (name.ends_with(".masked_bias")) elements = 1;
    if (name.ends_with(".attn.bias") || name.ends_with(".attention.bias")) elements = mask;
    bytes = checked_add(bytes, checked_mul(elements, kFp32).value_or(0)).value_or(bytes);
  }
  return bytes;
}

// MTP layers of the config, or one that only the tensor names announce (Qwen3-Next; facts models.md,
// trap 7), with a copy of embedding and head for each.
std::int64_t mtp_parameters(const SafetensorsIndex& index, const Architecture& model) {
  Architecture with_mtp = model;
  for (const std::string& name : index.tensors)
    if (model.mtp_layers == 0 && (name.starts_with("mtp.") || name.find(".mtp") != std::string::npos))
      with_mtp.mtp_layers = 1;
  if (with_mtp.mtp_layers == 0) return 0;
  return count_parameters(with_mtp).mtp + with_mtp.mtp_layers * 2 * embedding_parameters(model);
}

}  // namespace

bool looks_like_safetensors_index(const Node& root) {
  return root.is_object() && root.has("weight_map") && root.has("metadata");
}

Result<SafetensorsIndex> read_safetensors_index(const Node& root) {
  const Node* metadata = root.find("metadata");
  const Node* map = root.find("weight_map");
  if (metadata == nullptr || !metadata->is_object()) return bad_input("the table metadata is missing");
  if (map == nullptr || !map->is_object()) return bad_input("the table weight_map is missing");
  const Node* size = metadata->find("total_size");
  if (size == nullptr) return bad_input("the key metadata.total_size is missing");
  SafetensorsIndex index;
  // Some writers print the size as a real number.
  const double real = size->is_number() ? size->as_real() : 0;
  if (!(real >= 1 && real < 9e18) || real != static_cast<double>(static_cast<std::int64_t>(real)))
    return bad_input(
        fmt::format("metadata.total_size is {}; wanted a number of bytes", document::to_text(*size).substr(0, 40)));
  index.total_size = size->is_integer() ? size->integer : static_cast<std::int64_t>(real);
  std::set<std::string_view> files;
  for (const auto& [name, file] : map->members) {
    if (!file.is_string())
      return bad_input(
          fmt::format("weight_map.{} is {}; wanted a file name", name.substr(0, 80), document::kind_name(file.kind)));
    files.insert(file.text);
    index.tensors.push_back(name);
  }
  if (index.tensors.empty()) return bad_input("weight_map is empty; wanted the tensors of the checkpoint");
  index.files = static_cast<std::int64_t>(files.size());
  return index;
}

Result<std::string> check_safetensors_index(const SafetensorsIndex& index, const Architecture& model,
                                            const Node& config) {
  if (find_anywhere(config, "quantization_config") != nullptr)
    return std::string{"quantization_config: the checkpoint is quantized, so its size was not compared"};
  PLIMSOLL_TRY(stated, stored_bytes(config));
  const Parameters count = count_parameters(model);
  const std::int64_t copies = model.tied_embeddings ? embedding_parameters(model) : 0;
  const std::int64_t most = count.total + copies + mtp_parameters(index, model);
  const std::int64_t buffers = buffer_bytes(index, model);
  const bool has_more = config.has("vision_config") || config.has("audio_config");
  for (const std::int64_t bytes : {std::int64_t{2}, std::int64_t{4}}) {
    if (stated != 0 && stated != bytes) continue;
    const bool is_enough = index.total_size >= count.total * bytes;
    const bool is_not_more = index.total_size - most * bytes <= buffers;
    if (is_enough && is_not_more) return std::string{};
    if (is_enough && has_more)
      return std::string{"vision_config: the checkpoint holds more than the language model; only its least size fits"};
  }
  const std::string type = stated == 0 ? "2 or 4" : std::to_string(stated);
  const std::string with_extras = most == count.total ? "" : fmt::format(" to {}", with_commas(most));
  return bad_input(
      fmt::format("metadata.total_size is {} bytes, but the config describes {}{} parameters of {} bytes each ({})",
                  with_commas(index.total_size), with_commas(count.total), with_extras, type,
                  format_bytes(count.total * (stated == 0 ? 2 : stated))),
      "is the config.json of the same model as the index?");
}

}  // namespace plimsoll::model

// SPDX-License-Identifier: Apache-2.0
#include "model/unmodelled.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "base/text.h"

namespace plimsoll::model {

using document::Node;

namespace {

constexpr std::int64_t kMostOfOne = 1 << 20;           // of a width or a number of layers
constexpr std::int64_t kMost = std::int64_t{1} << 44;  // of all parameters

// The first of these keys that is a number of a sensible size; 0: none.
std::int64_t number(const Node& config, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const Node* node = config.find(key);
    if (node != nullptr && node->is_integer() && node->integer > 0 && node->integer <= kMostOfOne) return node->integer;
  }
  return 0;
}

// mobilenetv5_300m_enc: timm's models are built by their name, which says how many millions they have.
std::int64_t millions_in_name(const Node& config) {
  const Node* name = config.find("architecture");
  if (name == nullptr || !name->is_string()) return 0;
  for (const std::string_view part : split(name->text, '_')) {
    if (part.size() < 2 || part.size() > 6 || part.back() != 'm') continue;
    const std::string_view digits = part.substr(0, part.size() - 1);
    if (!std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    std::int64_t millions = 0;
    for (const char digit : digits) millions = 10 * millions + (digit - '0');
    return millions * 1'000'000;
  }
  return 0;
}

// A conformer (Gemma 3n): two feed-forward blocks of four times the width, attention with projected distances, and a
// light convolution between two products. Else a transformer of two products to an MLP.
std::int64_t stacked(const Node& config, std::int64_t width) {
  if (const std::int64_t layers = number(config, {"conf_num_hidden_layers"}); layers > 0) {
    constexpr std::int64_t kSquares = 2 * 8 + 5 + 3;
    const std::int64_t kernel = std::max<std::int64_t>(1, number(config, {"conf_conv_kernel_size"}));
    return layers * width * (kSquares * width + kernel + 9);
  }
  const std::int64_t layers = number(config, {"num_hidden_layers", "encoder_layers", "depth", "num_layers", "n_layer"});
  const std::int64_t ffn = number(config, {"intermediate_size", "encoder_ffn_dim", "ffn_dim"});
  return layers * width * (4 * width + 2 * (ffn > 0 ? ffn : 4 * width));
}

}  // namespace

std::int64_t unmodelled_parameters(const Node& config, std::int64_t text_width) {
  if (!config.is_object()) return 0;
  const std::int64_t width = number(config, {"hidden_size", "d_model", "embed_dim", "n_state"});
  const std::int64_t named = millions_in_name(config);
  const std::int64_t inside = named > 0 ? named : stacked(config, width);
  if (inside <= 0) return 0;
  // Words of its own (Gemma 3n); elsewhere the key repeats the text's.
  const std::int64_t words = config.has("vocab_offset") ? number(config, {"vocab_size"}) : 0;
  return std::min(kMost, inside + width * (words + text_width));
}

}  // namespace plimsoll::model

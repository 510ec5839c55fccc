// SPDX-License-Identifier: Apache-2.0
#include "job/hybrid_pattern.h"

#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "model/limits.h"

namespace plimsoll::job {

namespace {

constexpr std::string_view kHint = "M is a Mamba mixer, * attention, + latent attention, - an MLP, E experts";

Status check_symbols(std::string_view part, std::string_view allowed) {
  for (const char symbol : part) {
    if (symbol == 'G' || symbol == 'D')
      return tl::make_unexpected(
          Error{Code::kMissing,
                fmt::format("hybrid_layer_pattern: layers of kind {} ({}) are not modelled", symbol,
                            symbol == 'G' ? "gated delta nets" : "sparse attention of DeepSeek"),
                {},
                std::string(kHint)});
    if (allowed.find(symbol) == std::string_view::npos)
      return bad_input(fmt::format("hybrid_layer_pattern: '{}' is not a layer", symbol), std::string(kHint));
  }
  if (part.find('*') != std::string_view::npos && part.find('+') != std::string_view::npos)
    return bad_input("hybrid_layer_pattern: Not supported to have both Attention and MLA/DSA in one model",
                     "use * or +, not both");
  return {};
}

}  // namespace

Result<HybridPattern> parse_hybrid_pattern(std::string_view text) {
  text = trim(text);
  constexpr auto kLongest = static_cast<std::size_t>(4 * model::limits::kDepth);
  if (text.size() > kLongest)
    return bad_input(fmt::format("hybrid_layer_pattern: {} symbols are more than any model has", text.size()));
  HybridPattern pattern;
  const auto parts = split(text, '/');
  PLIMSOLL_TRY_STATUS(check_symbols(parts.front(), "M*+-E|"));
  for (const std::string_view segment : split(parts.front(), '|')) {
    pattern.layers += segment;
    pattern.segments.push_back(static_cast<std::int64_t>(segment.size()));
  }
  if (pattern.layers.empty()) return bad_input("hybrid_layer_pattern: it names no layer", std::string(kHint));
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (i > 1 && parts[i] != parts[1])
      return bad_input(
          fmt::format("hybrid_layer_pattern: All MTP patterns must be identical. Pattern 1 is '{}', but pattern {} "
                      "is '{}'.",
                      parts[1], i, parts[i]));
    pattern.mtp = parts[i];
    ++pattern.mtp_depths;
  }
  PLIMSOLL_TRY_STATUS(check_symbols(pattern.mtp, "M*+-E"));
  if (pattern.mtp.empty()) pattern.mtp_depths = 0;  // "M*/" is "M*"
  return pattern;
}

std::string pattern_of_ratios(std::int64_t num_layers, double attention, double mlp) {
  const auto layers = static_cast<double>(num_layers);
  // Python rounds halves to the even number, as nearbyint does.
  const double attentions = std::nearbyint(layers * attention);
  const double mlps = std::nearbyint(layers * mlp);
  std::string pattern(static_cast<std::size_t>(num_layers), 'M');
  const auto spread = [&pattern](double every, char symbol) {
    double left = every;
    for (char& layer : pattern) {
      if (layer != 'M') continue;
      if (left < 0.5) {
        layer = symbol;
        left += every;
      } else {
        left -= 1;
      }
    }
  };
  spread((layers - attentions) / (attentions + 1), '*');
  if (mlps > 0) spread((layers - attentions - mlps) / mlps, '-');
  return pattern;
}

}  // namespace plimsoll::job

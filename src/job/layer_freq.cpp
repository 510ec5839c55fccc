// SPDX-License-Identifier: Apache-2.0
// Which layers are what, as Megatron's flags write it: every n-th, or a list of 0 and 1.
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "job/model_keys.h"

namespace plimsoll::job {

namespace {

// As of num_layers.
constexpr std::int64_t kMaxDepth = 100'000;

// Reads the value of Megatron's --moe-layer-freq: lists of 0 and 1, repeated with *, joined with +.
//   ([0]*3+[1]*12)  ->  0 0 0 1 1 1 1 1 1 1 1 1 1 1 1
class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  std::optional<std::vector<bool>> read() {
    auto pattern = sum(0);
    skip_spaces();
    if (!pattern || at_ != text_.size() || pattern->empty()) return std::nullopt;
    return pattern;
  }

 private:
  using Pattern = std::optional<std::vector<bool>>;

  Pattern sum(int depth) {
    if (depth > 16) return std::nullopt;
    Pattern total = product(depth);
    while (total && accept('+')) {
      const Pattern more = product(depth);
      if (!more || total->size() + more->size() > static_cast<std::size_t>(kMaxDepth)) return std::nullopt;
      total->insert(total->end(), more->begin(), more->end());
    }
    return total;
  }
  Pattern product(int depth) {
    const bool grouped = accept('(');
    Pattern once = grouped ? sum(depth + 1) : list();
    if (!once || (grouped && !accept(')'))) return std::nullopt;
    if (!accept('*')) return once;
    const auto times = number();
    if (!times || *times < 0 || *times > kMaxDepth || *times * static_cast<std::int64_t>(once->size()) > kMaxDepth)
      return std::nullopt;
    std::vector<bool> repeated;
    for (std::int64_t i = 0; i < *times; ++i) repeated.insert(repeated.end(), once->begin(), once->end());
    return repeated;
  }
  Pattern list() {
    if (!accept('[')) return std::nullopt;
    std::vector<bool> items;
    while (!accept(']')) {
      const auto item = number();
      if (!item || (*item != 0 && *item != 1)) return std::nullopt;
      items.push_back(*item == 1);
      accept(',');
    }
    return items;
  }
  std::optional<std::int64_t> number() {
    skip_spaces();
    std::int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, failure] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (failure != std::errc{}) return std::nullopt;
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Status parse_freq(std::string_view key, std::string_view text, std::optional<std::int64_t>& period,
                  std::vector<bool>& layers) {
  text = trim(text);
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  if (const auto [at, failure] = std::from_chars(text.data(), end, number); failure == std::errc{} && at == end) {
    if (number < 1 || number > kMaxDepth) return bad_input(fmt::format("{} = {}: wanted 1 or more", key, number));
    period = number;
    layers.clear();
    return {};
  }
  auto pattern = PatternReader(text).read();
  if (!pattern)
    return bad_input(fmt::format("{} = '{}': wanted a number or a list of 0 and 1 such as ([0]*3+[1]*12)", key, text));
  layers = std::move(*pattern);
  period.reset();
  return {};
}

}  // namespace

Status parse_moe_layer_freq(std::string_view text, ModelKeys& keys) {
  return parse_freq("moe_layer_freq", text, keys.moe_layer_period, keys.moe_layer_pattern);
}

Status parse_window_freq(std::string_view text, ModelKeys& keys) {
  return parse_freq("window_attn_skip_freq", text, keys.window_period, keys.window_pattern);
}

}  // namespace plimsoll::job

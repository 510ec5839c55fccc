// SPDX-License-Identifier: Apache-2.0
#include "measure/host.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "base/ask.h"
#include "document/node.h"
#include "measure/library.h"

namespace plimsoll::catalog {
extern const std::string_view kHostPy;
}

namespace plimsoll::measure {

using document::Node;

namespace {

constexpr std::size_t kFewest = 5;  // passes; the median of fewer tells nothing

std::string text_of(const Node& root, std::string_view key) {
  const Node* node = root.find(key);
  return node != nullptr && node->is_string() ? node->text : std::string{};
}

Result<double> count_of(const Node& root, std::string_view key) {
  constexpr double kMost = 1e6;
  const Node* node = root.find(key);
  if (node == nullptr || !node->is_number() || !(node->as_real() >= 1) || node->as_real() > kMost)
    return bad_input(fmt::format("{}: found {}, wanted a number from 1", key,
                                 node == nullptr ? "nothing" : document::to_text(*node)));
  return node->as_real();
}

// Seconds of passes, in order of size.
Result<std::vector<double>> times_of(const Node& root, std::string_view key) {
  constexpr double kMost = 3600;
  const Node* node = root.find(key);
  if (node == nullptr || !node->is_array()) return bad_input(fmt::format("{}: wanted a list of seconds", key));
  std::vector<double> times;
  for (const Node& item : node->items) {
    if (!item.is_number() || !(item.as_real() > 0) || item.as_real() > kMost)
      return bad_input(fmt::format("{}: found {}, wanted seconds", key, document::to_text(item)));
    times.push_back(item.as_real());
  }
  if (times.size() < kFewest)
    return bad_input(fmt::format("{}: {} passes, wanted {} at least", key, times.size(), kFewest));
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace

Result<HostTime> read_host_time(std::string_view text) {
  PLIMSOLL_TRY(root, document::parse_json(text));
  if (!root.is_object()) return bad_input("wanted an object");
  if (const std::string why = text_of(root, "missing"); !why.empty()) return missing(why);
  HostTime time;
  time.python = text_of(root, "python");
  time.torch = text_of(root, "torch");
  PLIMSOLL_TRY(launches, count_of(root, "launches"));
  PLIMSOLL_TRY(weights, count_of(root, "weights"));
  PLIMSOLL_TRY(forward, times_of(root, "forward_seconds"));
  PLIMSOLL_TRY(backward, times_of(root, "backward_seconds"));
  time.launches = launches;
  time.weights = weights;
  time.forward = forward[forward.size() / 2];
  time.backward = backward[backward.size() / 2];
  const auto middle_half = [](const std::vector<double>& times) {
    return times[times.size() * 3 / 4] - times[times.size() / 4];
  };
  time.spread = (middle_half(forward) + middle_half(backward)) / time.seconds();
  return time;
}

Result<HostTime> time_host(const std::string& python, int device, double seconds) {
  constexpr auto kPatience = std::chrono::seconds(90);  // PyTorch alone may take half of it to be read from a network
  const auto text = ask(
      {python, "-c", std::string(catalog::kHostPy), std::to_string(device), fmt::format("{:.1f}", seconds)}, kPatience);
  if (!text) return missing(fmt::format("{} could not be started, failed, or took too long", python));
  return read_host_time(*text);
}

}  // namespace plimsoll::measure

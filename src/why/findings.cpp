// SPDX-License-Identifier: Apache-2.0
#include "why/findings.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "why/words.h"

namespace plimsoll::why {

std::vector<std::string> Findings::damages() const {
  std::vector<std::string> sentences;
  for (const LogFile& file : files)
    if (!file.damage.empty())
      sentences.push_back(
          fmt::format("{} could not be read to its end: {} after line {}", file.name, file.damage, file.lines));
  return sentences;
}

Framework Findings::framework() const {
  Framework outermost = Framework::kUnknown;
  for (const auto& [framework, mentions] : frameworks) {
    const bool is_outer =
        outermost == Framework::kUnknown || speaker_of(framework)->precedence > speaker_of(outermost)->precedence;
    if (mentions > 0 && is_outer) outermost = framework;
  }
  if (outermost != Framework::kUnknown) return outermost;
  const bool torch = !torch_version.empty() || std::any_of(events.begin(), events.end(), [](const Event& event) {
    return event.signal.kind == SignalKind::kDeviceOom && event.signal.oom.allocator != Allocator::kXla;
  });
  return torch ? Framework::kPyTorch : Framework::kUnknown;
}

std::string Findings::allocator_settings() const {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"})
    if (const auto found = settings.find(name); found != settings.end()) return found->second.value;
  return {};
}

bool Findings::has_expandable_segments() const { return has_text(allocator_settings(), "expandable_segments:true"); }

std::string Findings::option(const std::string& name) const {
  if (const auto found = config.find(name); found != config.end()) return found->second;
  const auto given = flags.find(name);
  return given == flags.end() ? std::string{} : given->second;
}

}  // namespace plimsoll::why

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
  // A stack names its parts too: the outermost that is mentioned decides.
  static constexpr std::array<Framework, 10> kOrder = {
      Framework::kVllm,       Framework::kSglang,    Framework::kMegatronBridge, Framework::kMegatron,
      Framework::kTorchtitan, Framework::kDeepSpeed, Framework::kTransformers,   Framework::kFsdp,
      Framework::kLightning,  Framework::kJax};
  for (const Framework framework : kOrder)
    if (const auto found = frameworks.find(framework); found != frameworks.end() && found->second > 0) return framework;
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
  const auto found = config.find(name);
  return found == config.end() ? std::string{} : found->second;
}

std::string_view framework_name(Framework framework) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "unknown",   "Megatron-LM", "Megatron-Bridge", "DeepSpeed", "FSDP",   "torchtitan", "Transformers",
      "Lightning", "vLLM",        "SGLang",          "JAX",       "PyTorch"};
  return kNames[static_cast<std::size_t>(framework)];
}

}  // namespace plimsoll::why

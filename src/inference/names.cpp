// SPDX-License-Identifier: Apache-2.0
// The spelling of engines, types and versions.
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/text.h"
#include "inference/server.h"

namespace plimsoll::inference {

namespace {

constexpr Spelling<Engine> kEngines[] = {
    {Engine::kVllm, "vllm"},
    {Engine::kSglang, "sglang"},
};
constexpr Spelling<WeightType> kWeightTypes[] = {
    {WeightType::kBf16, "bf16", "bfloat16 fp16 float16"},
    {WeightType::kFp32, "fp32", "float32"},
    {WeightType::kFp8, "fp8"},
    {WeightType::kInt8, "int8", "w8a8"},
    {WeightType::kInt4, "int4", "awq gptq w4a16"},
};
constexpr Spelling<KvType> kKvTypes[] = {
    {KvType::kAuto, "auto"},
    {KvType::kBf16, "bf16", "bfloat16 fp16 float16"},
    {KvType::kFp32, "fp32", "float32"},
    {KvType::kFp8, "fp8", "fp8_e4m3 fp8_e5m2"},
    {KvType::kInt8, "int8"},
    {KvType::kInt4, "int4"},
    {KvType::kNvfp4, "nvfp4"},
};

}  // namespace

std::span<const Spelling<Engine>> spellings_of(Engine) { return kEngines; }
std::span<const Spelling<WeightType>> spellings_of(WeightType) { return kWeightTypes; }
std::span<const Spelling<KvType>> spellings_of(KvType) { return kKvTypes; }

Result<Version> parse_version(std::string_view text) {
  std::array<int, 3> parts = {0, 0, 0};
  std::string_view rest = trim(text);
  if (rest.starts_with('v')) rest.remove_prefix(1);
  std::size_t found = 0;
  for (; found < parts.size() && !rest.empty(); ++found) {
    const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), parts[found]);
    if (problem != std::errc{} || parts[found] < 0) break;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (!rest.starts_with('.')) {
      ++found;
      break;
    }
    rest.remove_prefix(1);
  }
  if (found < 2) return bad_input(fmt::format("version '{}' was not understood; wanted numbers such as 0.17.1", text));
  return Version{parts[0], parts[1], parts[2]};
}

std::string to_string(const Version& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

}  // namespace plimsoll::inference

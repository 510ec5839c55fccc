// SPDX-License-Identifier: Apache-2.0
// The spelling of engines, types and versions, one table each for reading and printing.
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "inference/server.h"

namespace plimsoll::inference {

namespace {

template <class Enum, std::size_t N>
using Names = std::array<std::pair<std::string_view, Enum>, N>;

// The first name of a value is how it is printed; the others are what engines also accept.
constexpr Names<Engine, 2> kEngines = {{{"vllm", Engine::kVllm}, {"sglang", Engine::kSglang}}};
constexpr Names<WeightType, 11> kWeights = {{{"bf16", WeightType::kBf16},
                                             {"bfloat16", WeightType::kBf16},
                                             {"fp16", WeightType::kBf16},
                                             {"float16", WeightType::kBf16},
                                             {"fp32", WeightType::kFp32},
                                             {"float32", WeightType::kFp32},
                                             {"fp8", WeightType::kFp8},
                                             {"int8", WeightType::kInt8},
                                             {"w8a8", WeightType::kInt8},
                                             {"int4", WeightType::kInt4},
                                             {"w4a16", WeightType::kInt4}}};
constexpr Names<KvType, 11> kKv = {{{"auto", KvType::kAuto},
                                    {"bf16", KvType::kBf16},
                                    {"bfloat16", KvType::kBf16},
                                    {"fp32", KvType::kFp32},
                                    {"float32", KvType::kFp32},
                                    {"fp8", KvType::kFp8},
                                    {"fp8_e4m3", KvType::kFp8},
                                    {"fp8_e5m2", KvType::kFp8},
                                    {"int8", KvType::kInt8},
                                    {"int4", KvType::kInt4},
                                    {"nvfp4", KvType::kNvfp4}}};

template <class Enum, std::size_t N>
std::string_view name_in(const Names<Enum, N>& names, Enum value) {
  for (const auto& [name, known] : names)
    if (known == value) return name;
  return {};
}

template <class Enum, std::size_t N>
std::optional<Enum> value_in(const Names<Enum, N>& names, std::string_view text) {
  for (const auto& [name, known] : names)
    if (equals_ignoring_case(name, text)) return known;
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Engine engine) { return name_in(kEngines, engine); }
std::string_view name_of(WeightType type) { return name_in(kWeights, type); }
std::string_view name_of(KvType type) { return name_in(kKv, type); }
std::optional<Engine> engine_from_name(std::string_view name) { return value_in(kEngines, name); }
std::optional<WeightType> weight_type_from_name(std::string_view name) { return value_in(kWeights, name); }
std::optional<KvType> kv_type_from_name(std::string_view name) { return value_in(kKv, name); }

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

// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/float8.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace plimsoll::step::transformers {

namespace {

constexpr std::int64_t kMultiple = 16;  // of both features, or the hardware has no product
constexpr std::string_view kSkipsSmall = "auto_filter_small_kn";

// Modules that torchtitan calls by names of its own.
struct Called {
  std::string_view here, there;
};
constexpr Called kNames[] = {{"q_proj", "attention.wq"},       {"k_proj", "attention.wk"},
                             {"v_proj", "attention.wv"},       {"o_proj", "attention.wo"},
                             {"gate_proj", "feed_forward.w1"}, {"down_proj", "feed_forward.w2"},
                             {"up_proj", "feed_forward.w3"},   {"lm_head", "output"}};

}  // namespace

Float8Linears::Float8Linears(const job::Job& job) : job_(job) {
  if (job.kernels.implementation != job::Implementation::kTorchtitan || job.precision.fp8 == job::Fp8Recipe::kNone)
    return;
  kind_ = job.kernels.torch_compile ? Float8::kFused : Float8::kEager;
  gathers_ = job.precision.fp8_param_gather && job.sharding.kind == job::ShardingKind::kFsdp2;
  const auto& filter = job.kernels.float8_filter;
  skips_small_ = std::find(filter.begin(), filter.end(), kSkipsSmall) != filter.end();
}

void Float8Linears::choose(Weight& weight, Aliases names, std::int64_t layer, std::int64_t in, std::int64_t out) const {
  if (kind_ == Float8::kNone || in % kMultiple != 0 || out % kMultiple != 0) return;
  // Products of these sizes gain nothing by it (torchao's _auto_filter_for_tensorwise).
  if (skips_small_ && in <= 4096 && out <= 1024) return;
  for (const std::string_view name : names) {
    const auto* const row =
        std::find_if(std::begin(kNames), std::end(kNames), [&](const Called& one) { return one.here == name; });
    const std::string_view called = row == std::end(kNames) ? name : row->there;
    const std::string full = layer < 0 ? std::string(called) : fmt::format("layers.{}.{}", layer, called);
    for (const std::string& part : job_.kernels.float8_filter)
      if (!part.empty() && full.find(part) != std::string::npos) return;
  }
  weight.float8 = kind_;
  weight.gathered_float8 = gathers_;
}

}  // namespace plimsoll::step::transformers

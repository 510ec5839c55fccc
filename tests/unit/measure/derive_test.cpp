// SPDX-License-Identifier: Apache-2.0
#include "measure/derive.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "document/node.h"
#include "timing/calibration.h"

namespace plimsoll::measure {
namespace {

cluster::Gpu h200() { return cluster::find_gpu("h200-sxm-141gb").value(); }

double value_of(const std::vector<DerivedValue>& values, std::string_view name) {
  for (const DerivedValue& value : values)
    if (value.name == name) return value.value;
  return -1;
}

// The products that PyTorch timed on an H200, as calibrate would have found them.
std::vector<ProductTime> recorded_products() {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/timing/kernels-h200-2.json";
  const document::Node root = document::parse_json(read_file(path).value()).value();
  std::vector<ProductTime> times;
  for (const document::Node& row : root.find("rows")->items) {
    const document::Node* part = row.find("part");
    if (part == nullptr || part->text != "gemm" || row.find("dt")->text != "bf16") continue;
    const auto size = [&row](const char* key) { return static_cast<std::int64_t>(row.find(key)->as_real()); };
    const std::int64_t m = size("m");
    const std::int64_t n = size("n");
    const std::int64_t k = size("k");
    constexpr double kLaunch = 30e-6;  // shorter ones waited for Python (the file's note)
    if (n % 8 != 0 || row.find("fwd")->as_real() < kLaunch) continue;
    times.push_back({Format::kBf16, Pass::kForward, {m, n, k}, row.find("fwd")->as_real()});
    times.push_back({Format::kBf16, Pass::kInputGradient, {m, k, n}, row.find("dgrad")->as_real()});
    times.push_back({Format::kBf16, Pass::kWeightGradient, {n, k, m}, row.find("wgrad")->as_real()});
  }
  return times;
}

TEST(Derive, products_recorded_on_an_h200_give_the_built_in_rate_again) {
  const std::vector<ProductTime> times = recorded_products();
  ASSERT_GT(times.size(), 200U);
  const ProductFit fit = fit_products(times, Format::kBf16, h200(), true);
  const timing::Device& built_in = timing::device_of(timing::built_in(), h200());
  EXPECT_NEAR(fit.fraction, built_in.gemm_bf16, 0.05);
  EXPECT_NEAR(fit.half_depth, built_in.half_depth_bf16, 60);
  EXPECT_LT(fit.median_pct, 8);
}

TEST(Derive, the_shape_comes_of_a_rested_device_and_the_rate_of_a_warm_one) {
  std::vector<ProductTime> times = recorded_products();
  const ProductFit rested = fit_products(times, Format::kBf16, h200(), true);
  const std::size_t count = times.size();
  for (std::size_t i = 0; i < count; ++i) {
    ProductTime slower = times[i];
    slower.seconds *= 1.1;
    slower.warm = true;
    times.push_back(slower);
  }
  const ProductFit both = fit_products(times, Format::kBf16, h200(), true);
  EXPECT_EQ(both.half_depth, rested.half_depth);
  EXPECT_NEAR(both.fraction, rested.fraction / 1.1, 0.02);
}

TEST(Derive, nothing_measured_gives_nothing) {
  const Derived derived = derive({}, h200());
  EXPECT_TRUE(derived.device.empty());
  EXPECT_TRUE(derived.values.empty());
}

TEST(Derive, a_part_without_a_loss_of_its_own_gets_the_rate_of_steps) {
  Survey survey;
  survey.device.capability = 90;
  survey.products = recorded_products();
  const cluster::Gpu h100 = cluster::find_gpu("h100-sxm-80gb").value();
  const double alone = value_of(derive(survey, h200()).device, "gemm_bf16");
  const double in_step = value_of(derive(survey, h100).device, "gemm_bf16");
  EXPECT_LT(in_step, 0.9 * alone);
  EXPECT_GT(in_step, 0.8 * alone);
  EXPECT_EQ(value_of(derive(survey, h100).device, "power"), -1);
}

TEST(Derive, a_warm_device_has_lost_to_its_power_limit_what_it_loses) {
  Survey survey;
  survey.device.capability = 90;
  survey.products = recorded_products();
  const Derived derived = derive(survey, h200());
  EXPECT_GT(value_of(derived.device, "gemm_bf16"), 0.6);
  EXPECT_EQ(value_of(derived.device, "power"), 0);
}

TEST(Derive, links_are_shares_of_the_catalogue) {
  Survey survey;
  survey.devices = 8;
  survey.copies = {{Route::kToDevice, std::size_t{256} << 20, 268435456 / 55e9},
                   {Route::kToHost, std::size_t{256} << 20, 268435456 / 50e9}};
  survey.messages = {{Collective::kAllReduce, 8192, 30e-6},
                     {Collective::kAllGather, std::size_t{256} << 20, 15e-6 + 0.875 * 268435456 / 360e9}};
  const Derived derived = derive(survey, h200());
  EXPECT_NEAR(value_of(derived.values, "host_link"), 50.0 / 63, 1e-6);
  EXPECT_NEAR(value_of(derived.values, "nvlink"), 0.8, 1e-6);
  EXPECT_NEAR(value_of(derived.values, "latency_nvlink"), 15e-6, 1e-9);
}

}  // namespace
}  // namespace plimsoll::measure

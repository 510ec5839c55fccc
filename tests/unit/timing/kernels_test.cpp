// SPDX-License-Identifier: Apache-2.0
#include "timing/kernels.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/file.h"
#include "document/node.h"
#include "step/work.h"
#include "timing/support.h"

namespace plimsoll::timing {
namespace {

// |predicted / measured - 1| of the recorded kernels of one kind, sorted.
std::vector<double> errors_of(const std::string& kind, const auto& predict) {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/timing/kernels-h200.json";
  const document::Node root = document::parse_json(read_file(path).value()).value();
  std::vector<double> errors;
  for (const document::Node& row : root.find("rows")->items)
    if (row.find("kind")->text == kind)
      errors.push_back(std::abs(predict(row) / (row.find("ms")->as_real() * 1e-3) - 1));
  std::sort(errors.begin(), errors.end());
  return errors;
}

double at(const document::Node& row, const char* key) { return row.find(key)->as_real(); }

class Kernels : public ::testing::Test {
 protected:
  Machine h200{test::cluster_of("h200-sxm-141gb", 8), built_in()};
};

// These were timed one after the other for so long that the power limit took half of what it can, and each has about
// 4 us around it.
TEST_F(Kernels, recorded_bf16_products_are_predicted_within_a_tenth) {
  const auto errors = errors_of("gemm_bf16", [&](const document::Node& row) {
    return 4e-6 + (1 + h200.power / 2) * gemm_seconds(h200, Number::kBf16, at(row, "m"), at(row, "n"), at(row, "k"), 2);
  });
  ASSERT_EQ(errors.size(), 114U);
  EXPECT_LT(errors[errors.size() / 2], 0.07);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.20);
}

TEST_F(Kernels, recorded_fp8_products_are_predicted_within_an_eighth) {
  const auto errors = errors_of("gemm_fp8", [&](const document::Node& row) {
    return 4e-6 + gemm_seconds(h200, Number::kFp8, at(row, "m"), at(row, "n"), at(row, "k"), 2);
  });
  ASSERT_EQ(errors.size(), 90U);
  EXPECT_LT(errors[errors.size() / 2], 0.125);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.25);
}

TEST_F(Kernels, recorded_attention_is_predicted) {
  const auto flops = [](const document::Node& row) {
    return 2 * at(row, "b") * at(row, "h") * at(row, "s") * at(row, "s") * at(row, "d");
  };
  const auto forward = errors_of("attn_fwd", [&](const document::Node& row) {
    return attention_forward_seconds(h200, flops(row), {at(row, "d")}, at(row, "s") / 2);
  });
  const auto backward = errors_of("attn_bwd", [&](const document::Node& row) {
    return attention_backward_seconds(h200, flops(row), {at(row, "d")}, at(row, "s") / 2);
  });
  EXPECT_LT(forward[forward.size() / 2], 0.05);
  EXPECT_LT(backward[backward.size() / 2], 0.06);
}

TEST_F(Kernels, more_work_never_takes_less_time) {
  for (const double size : {256.0, 1024.0, 4096.0, 16384.0}) {
    EXPECT_LE(gemm_seconds(h200, Number::kBf16, size, 4096, 4096, 2),
              gemm_seconds(h200, Number::kBf16, 2 * size, 4096, 4096, 2));
    EXPECT_LE(gemm_seconds(h200, Number::kFp8, size, 4096, 4096, 2),
              gemm_seconds(h200, Number::kBf16, size, 4096, 4096, 2));
  }
}

TEST_F(Kernels, a_product_of_few_rows_is_bound_by_reading_its_weight) {
  const double seconds = gemm_seconds(h200, Number::kBf16, 16, 8192, 8192, 2);
  EXPECT_GE(seconds, 2.0 * 8192 * 8192 / 4.8e12);
}

TEST_F(Kernels, grouped_products_lose_to_one_product_of_the_same_rows) {
  const GroupedRate rate{40, 200};
  const double one = gemm_seconds(h200, Number::kBf16, 8192, 2048, 4096, 2);
  EXPECT_GT(grouped_gemm_seconds(h200, Number::kBf16, 8192, 2048, 4096, 8, 2, rate), one);
  EXPECT_GT(grouped_gemm_seconds(h200, Number::kBf16, 8192, 2048, 4096, 64, 2, rate),
            grouped_gemm_seconds(h200, Number::kBf16, 8192, 2048, 4096, 8, 2, rate));
}

// Bursts of a few milliseconds, all three passes; those below 26 us are bounded by launches, and 50,257 columns by
// their alignment.
TEST_F(Kernels, recorded_bursts_of_products_are_predicted_in_every_format) {
  struct Format {
    const char* name;
    Number number;
    double bytes;
    double median;
    double p90;
  };
  const Format formats[] = {
      {"bf16", Number::kBf16, 2, 0.07, 0.15},
      {"fp32", Number::kFp32, 4, 0.07, 0.15},
      {"tf32", Number::kTf32, 4, 0.22, 0.45}};  // its weight gradients are slower, by their layout
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/timing/kernels-h200-2.json";
  const document::Node root = document::parse_json(read_file(path).value()).value();
  for (const Format& format : formats) {
    SCOPED_TRACE(format.name);
    std::vector<double> errors;
    for (const document::Node& row : root.find("rows")->items) {
      if (row.find("part")->text != "gemm" || row.find("dt")->text != format.name) continue;
      const double m = at(row, "m");
      const double n = at(row, "n");
      const double k = at(row, "k");
      if (row.find("n")->integer % 8 != 0) continue;
      const auto compare = [&](const char* pass, double rows, double columns, double depth) {
        if (at(row, pass) < 26e-6) return;
        const double predicted = gemm_seconds(h200, format.number, rows, columns, depth, format.bytes);
        errors.push_back(std::abs(predicted / at(row, pass) - 1));
      };
      compare("fwd", m, n, k);
      compare("dgrad", m, k, n);
      compare("wgrad", n, k, m);
    }
    std::sort(errors.begin(), errors.end());
    ASSERT_GT(errors.size(), 50U);
    EXPECT_LT(errors[errors.size() / 2], format.median);
    EXPECT_LT(errors[errors.size() * 9 / 10], format.p90);
  }
}

// Products of PyTorch's grouped kernel, from 64 to 8,192 rows per expert; those below 40 us are bounded by launches.
TEST_F(Kernels, recorded_grouped_products_are_predicted_by_rows_per_expert) {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/timing/kernels-h200-2.json";
  const document::Node root = document::parse_json(read_file(path).value()).value();
  const GroupedRate rate{built_in().grouped_half_rows, built_in().grouped_half_rows_weight};
  std::vector<double> errors;
  for (const document::Node& row : root.find("rows")->items) {
    if (row.find("part")->text != "grouped") continue;
    const double groups = at(row, "groups");
    const double rows = at(row, "rows") * groups;
    const auto compare = [&](const char* pass, double predicted) {
      if (at(row, pass) > 40e-6) errors.push_back(std::abs(predicted / at(row, pass) - 1));
    };
    const double n = at(row, "n");
    const double k = at(row, "k");
    compare("fwd", grouped_gemm_seconds(h200, Number::kBf16, rows, n, k, groups, 2, rate));
    compare("dgrad", grouped_gemm_seconds(h200, Number::kBf16, rows, k, n, groups, 2, rate));
    compare("wgrad", grouped_weight_gradient_seconds(h200, Number::kBf16, rows, n, k, groups, 2, rate));
  }
  std::sort(errors.begin(), errors.end());
  ASSERT_GT(errors.size(), 400U);
  EXPECT_LT(errors[errors.size() / 2], 0.1);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.3);
}

TEST_F(Kernels, nothing_takes_no_time) {
  EXPECT_EQ(gemm_seconds(h200, Number::kBf16, 0, 128, 128, 2), 0);
  EXPECT_EQ(grouped_gemm_seconds(h200, Number::kBf16, 0, 128, 128, 8, 2, {}), 0);
  EXPECT_EQ(stream_seconds(h200, 0, 0), 0);
}

// Kernels of a Mamba-2 scan, its gate and its norm, without the convolution, which the recording leaves out.
TEST_F(Kernels, recorded_scans_are_predicted_within_a_tenth) {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/timing/scan-h200.json";
  const document::Node root = document::parse_json(read_file(path).value()).value();
  for (const document::Node& row : root.find("cases")->items) {
    job::Job job = job::defaults_for(job::Framework::kMegatronLm);
    job.precision.compute = job::DType::kBf16;
    job.batch.micro_batch = row.find("sequences")->integer;
    job.batch.seq_length = row.find("tokens")->integer;
    model::Layer layer;
    layer.norms = 1;
    layer.attention.kind = model::AttentionKind::kMamba2;
    model::StateSpace& m = layer.attention.mamba;
    m = {row.find("heads")->integer,
         row.find("head_dim")->integer,
         row.find("state")->integer,
         row.find("groups")->integer,
         4,
         row.find("block")->integer};
    job.model.hidden = 512;
    step::WorkList list;
    step::layer_work(job, layer, false, list);
    double seconds = 0;
    for (const step::Work& w : list) {
      if (w.doing == step::Doing::kScan)
        seconds += scan_seconds(h200, w.flops + w.backward_flops) +
                   transposed_seconds(h200, w.forward_elements + w.backward_elements);
      if (w.doing != step::Doing::kStream || w.forward_kernels < 6) continue;
      // Bytes of the convolution: twice forward, and three times in its own backward.
      const double tokens = static_cast<double>(job.batch.micro_batch * job.batch.seq_length);
      const double convolved = 2.0 * tokens * static_cast<double>(m.conv_channels());
      seconds += stream_seconds(h200, w.forward_bytes + w.backward_bytes - 7 * convolved, 59);
    }
    double measured = 0;
    for (const auto& [name, kernel] : row.find("kernels_us")->members) measured += kernel.items[1].as_real() * 1e-6;
    EXPECT_NEAR(seconds / measured, 1, 0.11) << document::to_json(row).substr(0, 90);
  }
}

}  // namespace
}  // namespace plimsoll::timing

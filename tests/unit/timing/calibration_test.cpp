// SPDX-License-Identifier: Apache-2.0
#include "timing/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "document/node.h"

namespace plimsoll::timing {
namespace {

using ::testing::HasSubstr;

TEST(Calibration, every_built_in_value_has_a_source) {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/catalog/timing.json";
  const document::Node root = document::parse_json(read_file(path).value()).value();
  EXPECT_EQ(root.find("values")->members.size(), named_values().size());
  for (const auto& [key, value] : root.find("values")->members) EXPECT_FALSE(value.find("source")->text.empty()) << key;
  for (const auto& [gpu, value] : root.find("devices")->members)
    EXPECT_FALSE(value.find("source")->text.empty()) << gpu;
}

TEST(Calibration, fractions_of_a_peak_are_below_one) {
  for (const auto& [name, device] : built_in().devices)
    for (const NamedDeviceValue& value : named_device_values()) {
      // A speed, depths in elements, and a loss that may be none.
      if (value.name == "host_speed" || value.name == "power" || value.name.starts_with("half_depth")) continue;
      if (value.name == "attention_latent") continue;  // against heads of 128, not against a peak
      EXPECT_GT(device.*value.field, 0) << name << ' ' << value.name;
      EXPECT_LT(device.*value.field, 1) << name << ' ' << value.name;
    }
}

TEST(Calibration, a_users_file_wins_where_it_names_a_value) {
  const auto read =
      read_calibration("mine.json", R"({"values": {"nic": 0.5, "nvlink": {"value": 0.6, "source": "nccl-tests"}},
    "devices": {"h100-sxm-80gb": {"gemm_bf16": 0.7}}})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->nic, 0.5);
  EXPECT_EQ(read->nvlink, 0.6);
  EXPECT_EQ(read->tensor_exposed, built_in().tensor_exposed);
  const cluster::Gpu gpu = cluster::find_gpu("h100-sxm-80gb").value();
  EXPECT_EQ(device_of(*read, gpu).gemm_bf16, 0.7);
  EXPECT_EQ(device_of(*read, gpu).gemm_fp8, device_of(built_in(), gpu).gemm_fp8) << "the rest is its architecture's";
}

TEST(Calibration, may_be_toml) {
  const auto read = read_calibration("mine.toml", "[values]\nnic = 0.5\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->nic, 0.5);
}

TEST(Calibration, errors_name_the_key) {
  const auto message = [](const char* text) { return to_string(read_calibration("mine.json", text).error()); };
  EXPECT_THAT(message(R"({"values": {"nick": 0.5}})"), HasSubstr("values.nick"));
  EXPECT_THAT(message(R"({"values": {"nic": "fast"}})"), HasSubstr("values.nic"));
  EXPECT_THAT(message(R"({"values": {"nic": -1}})"), HasSubstr("values.nic"));
  EXPECT_THAT(message(R"({"values": {"nic": 0}})"), HasSubstr("values.nic: 0 is no rate"));
  EXPECT_THAT(message(R"({"devices": {"h100": {"stream": 0}}})"), HasSubstr("stream: 0 is no rate"));
  EXPECT_THAT(message(R"({"values": 3})"), HasSubstr("values"));
  EXPECT_THAT(message(R"({"device": {}})"), HasSubstr("device"));
  EXPECT_THAT(message(R"({"devices": {"h100-sxm-80gb": 1}})"), HasSubstr("h100-sxm-80gb"));
  EXPECT_THAT(message(R"([1])"), HasSubstr("wanted"));
}

TEST(Calibration, what_calibrate_wrote_has_a_head_and_holds_for_one_gpu) {
  const auto read = read_calibration("mine.json", R"({"kind": "plimsoll-calibration", "schema": 1, "gpu": "h200",
    "machine": {"driver": "580"}, "values": {"nic": 0.5}, "measured": {"products": []}, "left_out": ["x"]})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->measured_on, "h200-sxm-141gb");
  EXPECT_TRUE(check_gpu(*read, cluster::find_gpu("h200").value()));
  const Status other = check_gpu(*read, cluster::find_gpu("h100").value());
  ASSERT_FALSE(other);
  EXPECT_THAT(to_string(other.error()), HasSubstr("measured on h200-sxm-141gb"));
  EXPECT_TRUE(check_gpu(built_in(), cluster::find_gpu("h100").value()));
}

TEST(Calibration, a_damaged_head_is_said) {
  const auto message = [](const char* text) { return to_string(read_calibration("mine.json", text).error()); };
  EXPECT_THAT(message(R"({"kind": "plimsoll-learned"})"), HasSubstr("kind"));
  EXPECT_THAT(message(R"({"kind": 3})"), HasSubstr("kind"));
  EXPECT_THAT(message(R"({"schema": 2})"), HasSubstr("schema: this program reads 1"));
  EXPECT_THAT(message(R"({"schema": "1"})"), HasSubstr("schema"));
  EXPECT_THAT(message(R"({"gpu": 7})"), HasSubstr("gpu: wanted"));
  EXPECT_THAT(message(R"({"gpu": "h9000"})"), HasSubstr("h9000"));
}

}  // namespace
}  // namespace plimsoll::timing

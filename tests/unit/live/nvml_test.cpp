// SPDX-License-Identifier: Apache-2.0
// What the process that asks the driver sends: whole devices or nothing.
#include "live/nvml.h"

#include <gtest/gtest.h>

namespace plimsoll::live {
namespace {

std::vector<DeviceUse> two_devices() {
  DeviceUse busy{0, "NVIDIA H200", "GPU-1", 150'754'820'096, 42, 97, {{4711, 40}, {4712, -1}}};
  DeviceUse idle{3, "", "GPU-2", 1, 0, -1, {}};
  return {busy, idle};
}

TEST(Nvml, devices_arrive_as_they_were_sent) {
  const auto devices = unpack(pack(two_devices()));
  ASSERT_TRUE(devices);
  ASSERT_EQ(devices->size(), 2U);
  const DeviceUse& busy = devices->front();
  EXPECT_EQ(busy.name, "NVIDIA H200");
  EXPECT_EQ(busy.uuid, "GPU-1");
  EXPECT_EQ(busy.total, 150'754'820'096);
  EXPECT_EQ(busy.used, 42);
  EXPECT_EQ(busy.busy_percent, 97);
  ASSERT_EQ(busy.processes.size(), 2U);
  EXPECT_EQ(busy.processes[1].pid, 4712);
  EXPECT_EQ(busy.processes[1].bytes, -1);
  EXPECT_EQ((*devices)[1].index, 3);
  EXPECT_EQ((*devices)[1].busy_percent, -1);
}

TEST(Nvml, a_message_that_is_cut_or_too_long_is_refused) {
  const std::string whole = pack(two_devices());
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(unpack(std::string_view(whole).substr(0, length))) << length;
  EXPECT_FALSE(unpack(whole + "x"));
}

TEST(Nvml, a_count_that_the_message_cannot_hold_allocates_nothing) {
  std::string lies = pack({});
  lies[5] = '\x7f';  // 2^46 devices
  EXPECT_FALSE(unpack(lies));
}

TEST(Nvml, a_library_that_is_not_there_is_missing) {
  const auto nvml = Nvml::load("/nowhere/libnvidia-ml.so.1");
  ASSERT_FALSE(nvml);
  EXPECT_EQ(nvml.error().code, Code::kMissing);
  EXPECT_NE(nvml.error().message.find("no NVIDIA driver"), std::string::npos) << nvml.error().message;
}

}  // namespace
}  // namespace plimsoll::live

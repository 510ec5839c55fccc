// SPDX-License-Identifier: Apache-2.0
// The catalogue of GPUs and nodes: what torch reports, and the names under which people know them.
#include "cluster/cluster.h"
#include "cluster/device_name.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"

namespace plimsoll::cluster {
namespace {

using testing::HasSubstr;

TEST(Gpus, every_entry_is_complete_and_its_id_is_its_own) {
  std::set<std::string> ids;
  for (const Gpu& gpu : catalog_gpus()) {
    EXPECT_TRUE(ids.insert(gpu.id).second) << gpu.id;
    EXPECT_GT(gpu.capacity, 7 * kGiB) << gpu.id;
    EXPECT_LT(gpu.capacity, 300 * kGiB) << gpu.id;
    // Pascal, Gaudi and TPUs: nothing here depends on which of them it is.
    const bool is_other = gpu.id.starts_with("p100") || gpu.id.starts_with("gaudi") || gpu.id.starts_with("tpu");
    EXPECT_EQ(gpu.architecture == Architecture::kOther, is_other) << gpu.id;
    EXPECT_FALSE(gpu.name.empty()) << gpu.id;
    EXPECT_THAT(gpu.source, HasSubstr("capacity: ")) << gpu.id;
    EXPECT_EQ(find_gpu(gpu.id)->id, gpu.id);
    EXPECT_EQ(find_gpu(gpu.name)->id, gpu.id);
  }
  EXPECT_EQ(ids.size(), 63U);
}

TEST(Gpus, the_h200_has_the_bytes_that_torch_reports) {
  const Result<Gpu> gpu = find_gpu("h200-sxm-141gb");

  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->capacity, 150'109'880'320);
  EXPECT_TRUE(gpu->capacity_is_measured);
  EXPECT_EQ(gpu->l2_bytes, 60 * kMiB);
}

TEST(Gpus, capacity_is_the_smallest_one_observed) {
  EXPECT_EQ(format_gib(find_gpu("h100-sxm-80gb")->capacity), "79.10");
  EXPECT_EQ(format_gib(find_gpu("a100-sxm-80gb")->capacity), "79.14");
  EXPECT_EQ(format_gib(find_gpu("a100-sxm-40gb")->capacity), "39.38");
  EXPECT_EQ(format_gib(find_gpu("gb200-186gb")->capacity), "184.31");
}

TEST(Gpus, a_capacity_that_no_report_names_is_not_called_measured) {
  EXPECT_FALSE(find_gpu("h800")->capacity_is_measured);
  EXPECT_FALSE(find_gpu("h20")->capacity_is_measured);
  EXPECT_FALSE(find_gpu("l40s")->capacity_is_measured);
}

TEST(Gpus, common_names_in_any_spelling_find_the_part) {
  for (const char* name : {"h100", "H100", "H100 SXM", "h100_sxm", "h100-80-sxm", "NVIDIA H100 80GB HBM3", "DGX-H100",
                           "dgx_h100", "h100-80gb"})
    EXPECT_EQ(find_gpu(name)->id, "h100-sxm-80gb") << name;
  for (const char* name : {"a100", "DGX A100", "dgx_a100", "NVIDIA A100-SXM4-80GB"})
    EXPECT_EQ(find_gpu(name)->id, "a100-sxm-80gb") << name;
  EXPECT_EQ(find_gpu("NVIDIA H200")->id, "h200-sxm-141gb");
  EXPECT_EQ(find_gpu("b200")->id, "b200-sxm-180gb");
  EXPECT_EQ(find_gpu("GB200")->id, "gb200-186gb");
  EXPECT_EQ(find_gpu("DGX-GB300")->id, "gb300-279gb");
  EXPECT_EQ(find_gpu("AMD Instinct MI300X")->id, "mi300x-192gb");
}

TEST(Gpus, an_unknown_name_is_an_error_that_lists_and_suggests) {
  const Result<Gpu> gpu = find_gpu("h100-sxm-80");

  ASSERT_FALSE(gpu);
  EXPECT_THAT(gpu.error().message, HasSubstr("gpu 'h100-sxm-80' is not in the catalogue; plimsoll gpus lists the 63"));
  EXPECT_THAT(gpu.error().hint, HasSubstr("h100"));
  EXPECT_FALSE(find_gpu(""));
  EXPECT_FALSE(find_gpu("nvidia"));
  EXPECT_FALSE(find_gpu(std::string(1 << 20, 'h')));
}

TEST(Gpus, architecture_decides_what_starts_with_hopper) {
  EXPECT_FALSE(find_gpu("a100")->is_hopper_or_newer());
  EXPECT_TRUE(find_gpu("h100")->is_hopper_or_newer());
  EXPECT_TRUE(find_gpu("gb300")->is_hopper_or_newer());
  EXPECT_TRUE(find_gpu("gb300")->is_blackwell());
  EXPECT_FALSE(find_gpu("mi300x")->is_hopper_or_newer());
}

TEST(Nodes, a_dgx_has_eight_gpus_and_two_tebibytes) {
  Cluster cluster;
  cluster.gpu = *find_gpu("h100");

  use_typical_node(cluster);

  EXPECT_EQ(cluster.gpus_per_node, 8);
  EXPECT_EQ(cluster.host_memory, 2048 * kGiB);
}

TEST(Nodes, an_nvl72_tray_has_four_gpus_and_two_graces) {
  Cluster cluster;
  cluster.gpu = *find_gpu("gb200");

  use_typical_node(cluster);

  EXPECT_EQ(cluster.gpus_per_node, 4);
  EXPECT_EQ(cluster.host_memory, 960'000'000'000);
}

TEST(Nodes, a_gpu_without_a_typical_node_leaves_the_cluster_as_it_was) {
  Cluster cluster;
  cluster.gpu = *find_gpu("l40s");
  cluster.gpus_per_node = 3;

  use_typical_node(cluster);

  EXPECT_EQ(cluster.gpus_per_node, 3);
  EXPECT_EQ(cluster.host_memory, 0);
}

TEST(DeviceName, is_that_of_the_driver) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  const std::pair<const char*, const char*> kNames[] = {{"NVIDIA H100 80GB HBM3", "h100-sxm-80gb"},
                                                        {"NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"},
                                                        {"NVIDIA A100 80GB PCIe", "a100-pcie-80gb"},
                                                        {"NVIDIA GeForce RTX 4090", "rtx4090-24gb"},
                                                        {"NVIDIA GeForce RTX 3080 Ti", "rtx3080ti-12gb"},
                                                        {"NVIDIA RTX 6000 Ada Generation", "rtx6000-ada-48gb"},
                                                        {"Tesla V100-SXM2-32GB", "v100-sxm-32gb"},
                                                        {"Quadro RTX 8000", "rtx8000-48gb"},
                                                        {"NVIDIA L4", "l4-24gb"},
                                                        {"Tesla T4", "t4-16gb"}};
  for (const auto& [name, id] : kNames) {
    const auto found = find_gpu(name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->id, id);
    EXPECT_EQ(gpu_of_device(name, found->capacity)->id, id);
  }
  // One name, two amounts of memory.
  EXPECT_EQ(gpu_of_device("NVIDIA GH200 480GB", 95 * kGiB)->id, "gh200-96gb");
  EXPECT_EQ(gpu_of_device("NVIDIA GH200 480GB", 142 * kGiB)->id, "gh200-144gb");
  EXPECT_FALSE(gpu_of_device("Matrox G200", kGiB));
}

}  // namespace
}  // namespace plimsoll::cluster

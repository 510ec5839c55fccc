// SPDX-License-Identifier: Apache-2.0
#include "why/oom_message.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/bytes.h"

namespace plimsoll::why {
namespace {

std::int64_t gib(double n) { return std::llround(n * static_cast<double>(kGiB)); }
std::int64_t mib(double n) { return std::llround(n * static_cast<double>(kMiB)); }

TEST(OomMessage, reads_1_0_with_cached) {
  const auto oom = parse_oom_message(
      "RuntimeError: CUDA out of memory. Tried to allocate 352.00 MiB (GPU 0; 7.92 GiB total capacity; 1.67 GiB "
      "already allocated; "
      "156.00 MiB free; 124.28 MiB cached)");
  ASSERT_TRUE(oom);
  EXPECT_EQ(oom->request, mib(352));
  EXPECT_EQ(oom->gpu, 0);
  EXPECT_EQ(oom->total, gib(7.92));
  EXPECT_EQ(oom->allocated, gib(1.67));
  EXPECT_EQ(oom->free, mib(156));
  EXPECT_EQ(oom->reserved_unallocated, mib(124.28));
  EXPECT_EQ(oom->reserved, gib(1.67) + mib(124.28));
}

TEST(OomMessage, reads_1_8_with_a_limit) {
  const auto oom = parse_oom_message(
      "RuntimeError: CUDA out of memory. Tried to allocate 1.71 GiB (GPU 3; 31.72 GiB total capacity; 23.58 GiB "
      "already allocated; "
      "1.58 GiB free; 28.00 GiB allowed; 27.08 GiB reserved in total by PyTorch)");
  ASSERT_TRUE(oom);
  EXPECT_EQ(oom->gpu, 3);
  EXPECT_EQ(oom->free, gib(1.58));
  EXPECT_EQ(oom->allowed, gib(28));
  EXPECT_EQ(oom->reserved, gib(27.08));
  EXPECT_EQ(oom->reserved_unallocated, gib(27.08) - gib(23.58));
}

TEST(OomMessage, reads_2_1_with_its_misspelling) {
  const auto oom = parse_oom_message(
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 1 has a total capacty of "
      "79.15 GiB of which "
      "5.00 MiB is free. Process 11 has 3.00 GiB memory in use. Process 12 has 70.10 GiB memory in use. Of the "
      "allocated memory 69.00 GiB "
      "is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated "
      "memory is large try "
      "setting max_split_size_mb to avoid fragmentation.");
  ASSERT_TRUE(oom);
  EXPECT_EQ(oom->total, gib(79.15));
  EXPECT_EQ(oom->free, mib(5));
  ASSERT_EQ(oom->processes.size(), 2U);
  EXPECT_EQ(oom->processes[1].pid, 12);
  EXPECT_EQ(oom->processes[1].bytes, gib(70.10));
  EXPECT_EQ(oom->allocated, gib(69));
  EXPECT_EQ(oom->reserved_unallocated, mib(512));
}

TEST(OomMessage, reads_2_11_with_every_figure) {
  const auto oom = parse_oom_message(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 376.00 MiB. GPU 0 has a total capacity of 139.80 "
      "GiB of which 125.27 "
      "GiB is free. Process 77 has 1.00 GiB memory in use. Including non-PyTorch memory, this process has 14.52 GiB "
      "memory in use. 13.98 "
      "GiB allowed; Of the allocated memory 13.67 GiB is allocated by PyTorch, with 4.74 GiB allocated in private "
      "pools (e.g., CUDA "
      "Graphs), and 30.41 MiB is reserved by PyTorch but unallocated.");
  ASSERT_TRUE(oom);
  EXPECT_EQ(oom->allowed, gib(13.98));
  EXPECT_EQ(oom->this_process, gib(14.52));
  EXPECT_EQ(oom->private_pools, gib(4.74));
  EXPECT_EQ(oom->allocated, gib(13.67));
  EXPECT_EQ(oom->processes.size(), 1U);
  EXPECT_EQ(oom->reserved, gib(13.67) + mib(30.41));
}

TEST(OomMessage, reads_zero_bytes_and_cut_messages) {
  const auto zero = parse_oom_message(
      "CUDA out of memory. Tried to allocate 90.00 MiB. GPU 0 has a total capacity of 8.00 GiB of which 0 bytes is "
      "free.");
  ASSERT_TRUE(zero);
  EXPECT_EQ(zero->free, 0);
  EXPECT_FALSE(zero->allocated);
  const auto cut =
      parse_oom_message("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU");
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->request, gib(2));
  EXPECT_FALSE(cut->total);
  EXPECT_TRUE(parse_oom_message("torch.OutOfMemoryError: CUDA out of memory."));
}

TEST(OomMessage, knows_other_devices) {
  EXPECT_EQ(
      parse_oom_message("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 16.00 GiB. GPU 0 has")->allocator,
      Allocator::kHip);
  EXPECT_EQ(parse_oom_message(
                "RuntimeError: NPU out of memory. Tried to allocate 22.00 MiB (NPU 0; 60.97 GiB total capacity;")
                ->gpu,
            0);
  const auto mps = parse_oom_message(
      "RuntimeError: MPS backend out of memory (MPS allocated: 5.05 GB, other allocations: 1.80 GB, max allowed: 6.80 "
      "GB). Tried to allocate "
      "1.00 GB on private pool.");
  ASSERT_TRUE(mps);
  EXPECT_EQ(mps->allocated, gib(5.05));
  EXPECT_EQ(mps->allowed, gib(6.80));
  EXPECT_EQ(mps->request, gib(1));
}

TEST(OomMessage, reads_xla) {
  const auto tpu = parse_oom_message(
      "XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 21.90G of 7.48G hbm.");
  ASSERT_TRUE(tpu);
  EXPECT_EQ(tpu->needed, gib(21.90));
  EXPECT_EQ(tpu->total, gib(7.48));
  const auto gpu = parse_oom_message("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.");
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->request, 17179869184);
}

TEST(OomMessage, an_impossible_size_is_marked) {
  const auto oom = parse_oom_message("RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory.");
  ASSERT_TRUE(oom);
  EXPECT_TRUE(oom->is_impossible);
}

TEST(OomMessage, advice_and_prose_are_no_message) {
  for (const char* text :
       {"If you run out of memory, reduce the batch size", "this may go out of memory on small cards",
        "hint: to avoid CUDA out of memory errors set the allocator",
        "# catch torch.OutOfMemoryError and halve the batch",
        "Out of memory: Killed process 25315 (python3) total-vm:53312244kB"})
    EXPECT_FALSE(parse_oom_message(text)) << text;
}

}  // namespace
}  // namespace plimsoll::why

// SPDX-License-Identifier: Apache-2.0
// Any text as PYTORCH_CUDA_ALLOC_CONF: what is accepted rounds every size up to a multiple of 512, twice as
// once, and an allocator under it keeps its books.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "allocator/caching.h"
#include "allocator/settings.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto settings = allocator::parse_settings({reinterpret_cast<const char*>(data), size});
  if (!settings) {
    if (settings.error().message.empty()) std::abort();
    return 0;
  }
  constexpr std::int64_t kLargest = std::int64_t{1} << 50;
  for (std::int64_t bytes = 1; bytes < kLargest; bytes = bytes * 3 + 7) {
    const std::int64_t rounded = allocator::round_size(*settings, bytes);
    if (rounded < bytes || rounded % 512 != 0 || allocator::round_size(*settings, rounded) != rounded) std::abort();
  }
  allocator::SimulatedDriver driver(std::int64_t{1} << 36);
  allocator::CachingAllocator cache(*settings, driver);
  std::vector<allocator::CachingAllocator::BlockId> blocks;
  for (std::int64_t bytes = 1; bytes < (std::int64_t{1} << 34); bytes = bytes * 5 + 3) {
    if (const auto block = cache.allocate(bytes)) {
      if (cache.block_size(*block) < bytes) std::abort();
      blocks.push_back(*block);
    }
    if (blocks.size() % 3 == 2) {
      cache.free(blocks.back());
      blocks.pop_back();
    }
    if (cache.stats().allocated > cache.stats().reserved || cache.stats().reserved > driver.total()) std::abort();
    if (driver.free_bytes() + cache.stats().reserved != driver.total()) std::abort();
  }
  for (const auto block : blocks) cache.free(block);
  cache.release_cached();
  if (cache.stats().allocated != 0 || cache.stats().reserved != 0) std::abort();
  return 0;
}

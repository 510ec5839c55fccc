// SPDX-License-Identifier: Apache-2.0
#include "memory/settings.h"

namespace plimsoll::memory {

Result<allocator::Settings> settings_of(const job::Job& job) {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const auto found = job.environment.find(name);
    if (found != job.environment.end()) return allocator::parse_settings(found->second);
  }
  return allocator::parse_settings({});
}

}  // namespace plimsoll::memory

// SPDX-License-Identifier: Apache-2.0
// Captures of a step: read, walked, and read as three of one program.
#include <memory>

#include "capture/answer.h"
#include "capture/sizes.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace plimsoll;
  const auto source = snapshot::memory_source({reinterpret_cast<const char*>(data), size});
  const Result<capture::Capture> read = capture::read_capture(*source);
  if (!read) return 0;
  static const cluster::Gpu gpu = *cluster::find_gpu("h200");
  (void)capture::answer(*read, gpu, {});
  std::vector<capture::Capture> known(3, *read);
  known[1].batch = read->batch + 1;
  known[2].sequence = read->sequence + 1;
  (void)capture::at_size(known, 7, 77);
  return 0;
}

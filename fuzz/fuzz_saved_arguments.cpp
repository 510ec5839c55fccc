// SPDX-License-Identifier: Apache-2.0
// Any bytes as a pickle, as a zip archive and as training_args.bin: never a crash, nothing run, and no growth beyond
// what the readers allow.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/zip.h"
#include "document/pickle.h"
#include "job/read.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto object = document::parse_pickle(bytes);
  if (!object && object.error().message.empty()) std::abort();
  const auto entry = read_zip_entry(bytes, "data.pkl", 1U << 20);
  if (!entry && entry.error().message.empty()) std::abort();
  if (entry) static_cast<void>(document::parse_pickle(*entry));
  job::ReadOptions options;
  options.gpu = "a100";
  options.gpus = 8;
  options.model = "llama3-8b";
  const auto job = job::read_job({{"no-such-folder/training_args.bin", bytes}}, options);
  if (!job && job.error().message.empty()) std::abort();
  return 0;
}

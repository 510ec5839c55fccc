// SPDX-License-Identifier: Apache-2.0
// Any bytes as a launch script and as lines of Python: never a crash, and never a wait or a growth beyond
// the size of the script.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "job/read.h"
#include "job/readers/python_value.h"
#include "job/readers/shell.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Result<job::Shell> shell = job::read_shell(text);
  if (!shell && shell.error().message.empty()) std::abort();
  const Result<document::Node> value = job::parse_python(text);
  if (!value && value.error().message.empty()) std::abort();
  job::ReadOptions options;
  options.gpu = "a100";
  options.gpus = 8;
  for (const char* start : {"#!/bin/bash\n", "cfg.model.seq_length = 4096\n"}) {
    const Result<job::Job> job = job::read_job({{"no-such-folder/input", start + text}}, options);
    if (!job && job.error().message.empty()) std::abort();
  }
  return 0;
}

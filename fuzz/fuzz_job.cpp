// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file that describes a job: an error with a message, or a completed job whose numbers
// hold together. What files do not say is given, so that most of them can become a job.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "job/pipeline_layout.h"
#include "job/read.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const job::InputFile file{"no-such-folder/input", std::string(reinterpret_cast<const char*>(data), size)};
  const Result<job::FileKind> kind = job::recognise(file);
  if (!kind && kind.error().message.empty()) std::abort();
  job::ReadOptions options;
  options.gpu = "h100";
  options.gpus = 64;
  if (size % 2 == 1) options.model = "llama3-8b";
  if (size % 3 == 1) options.overrides = {{"seq-length", "2048"}, {"micro-batch-size", "1"}};
  const Result<job::Job> job = job::read_job({file}, options);
  if (!job) {
    if (job.error().message.empty()) std::abort();
    return 0;
  }
  if (job->data_parallel < 1 || job->micro_batches < 1 || job->vocab_rows < job->model.vocab || job->tokens() < 1)
    std::abort();
  if (!job::pipeline_layout(*job)) std::abort();
  job::Job again = *job;
  if (!job::complete(again)) std::abort();
  return 0;
}

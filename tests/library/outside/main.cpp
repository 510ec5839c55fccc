// SPDX-License-Identifier: Apache-2.0
// Asks what a user of the library would: does it fit, what if, why not, what does a recording hold.
#include <cstdio>

#include <plimsoll/plimsoll.h>

namespace api = plimsoll::api;

namespace {

int fail(const api::Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return error.code;
}

int say_fit(const api::Job& job) {
  const auto fit = api::fit(job);
  if (!fit) return fail(fit.error());
  std::int64_t sum = 0;
  for (const api::Row& row : fit->worst().table) sum += row.bytes;
  std::printf("%s %lld %lld %s\n", fit->fits() ? "fits" : "does not fit",
              static_cast<long long>(fit->worst().device_used), static_cast<long long>(fit->worst().peak_allocated),
              sum == fit->worst().capacity ? "whole" : "has a gap");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto job = api::Job::read({argv[1]});
  if (!job) return fail(job.error());
  if (const int code = say_fit(*job); code != 0) return code;
  if (const int code = say_fit(job->with({{"micro_batch_size", "2"}})); code != 0) return code;

  const auto refused = api::fit(job->with({{"tp", "3"}}));
  if (refused) return 1;
  std::printf("refused with %d\n", refused.error().code);

  const auto recording = api::Recording::open(argv[2]);
  if (!recording) return fail(recording.error());
  api::ReplayOptions options;
  options.what_if = true;
  const auto replay = recording->replay(options);
  if (!replay) return fail(replay.error());
  std::printf("%zu characters of JSON, %zu of text, version %s\n", replay->json().size(), replay->text(80).size(),
              api::version().c_str());
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "answer/captured.h"

#include <algorithm>

#include "answer/describe.h"
#include "base/usage.h"
#include "capture/accumulate.h"
#include "capture/sizes.h"
#include "cluster/architecture.h"

namespace plimsoll::answer {

Result<bool> are_captures(const std::vector<std::string>& paths) {
  const auto captures = std::count_if(paths.begin(), paths.end(), capture::is_capture);
  if (captures == 0) return false;
  if (captures != static_cast<std::ptrdiff_t>(paths.size()))
    return usage_error("captures and other files together; wanted captures alone",
                       "a capture has the whole step in it");
  return true;
}

bool is_captured(const std::string& path) { return capture::is_capture(path); }

Result<int> capability_of(const std::string& gpu) {
  PLIMSOLL_TRY(found, cluster::find_gpu(gpu));
  constexpr int kHopper = 90;
  return cluster::compute_capability(found.architecture).value_or(kHopper);
}

Result<Captured> fit_captured(const CapturedQuestion& question) {
  if (question.gpu.empty()) return usage_error("--gpu is missing; wanted a name of plimsoll gpus");
  PLIMSOLL_TRY(gpu, cluster::find_gpu(question.gpu));
  PLIMSOLL_TRY(settings, allocator::parse_settings(question.allocator));
  std::vector<capture::Capture> known;
  for (const std::string& path : question.paths) {
    PLIMSOLL_TRY(one, capture::read_capture(path));
    known.push_back(std::move(one));
  }
  const std::int64_t batch = question.micro_batch.value_or(known.front().batch);
  const std::int64_t sequence = question.seq_length.value_or(known.front().sequence);
  PLIMSOLL_TRY(step, capture::at_size(known, batch, sequence));
  if (question.accumulation > 1) step = capture::with_accumulation(step);
  capture::Answer answer = capture::answer(step, gpu, settings);
  return Captured{std::move(step), std::move(gpu), std::move(answer)};
}

std::string to_json(const Captured& captured) {
  const capture::Answer& answer = captured.answer;
  const memory::RankAnswer& rank = answer.rank;
  JsonWriter w;
  w.begin_object().member("schema", 1).member("verb", "fit").member("capture", true);
  w.member("fits", rank.fits).member("gpu", captured.gpu.id).member("torch", captured.step.torch);
  w.member("batch", captured.step.batch).member("sequence", captured.step.sequence);
  w.member("accumulates", capture::has_accumulation(captured.step));
  w.member("parameters", rank.parameters).member("capacity", rank.capacity);
  w.member("peak_allocated", rank.peak_allocated).member("peak_reserved", rank.peak_reserved);
  w.member("device_used", rank.device_used).member("low", rank.low).member("high", rank.high);
  w.key("phases").begin_object();
  for (std::size_t i = 0; i < rank.phases.size(); ++i)
    if (rank.phases[i].peak_allocated > 0)
      w.member(step::text_of(static_cast<step::Phase>(i)), rank.phases[i].peak_allocated);
  w.end_object();
  describe(w, rank.table);
  w.key("alive").begin_array();
  for (const capture::Holder& holder : answer.holders)
    w.begin_object(Layout::kInline)
        .member("operation", holder.operation)
        .member("module", holder.module)
        .member("count", holder.count)
        .member("bytes", holder.bytes)
        .end_object();
  w.end_array();
  write_texts(w, "warnings", answer.warnings);
  return w.end_object().take();
}

}  // namespace plimsoll::answer

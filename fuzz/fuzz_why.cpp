// SPDX-License-Identifier: Apache-2.0
// Any bytes as a log: an answer with probabilities that sum to at most one, the same way in both reading
// modes, never a crash or a hang.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "why/block_reader.h"
#include "why/fixes.h"
#include "why/pace.h"
#include "why/read.h"
#include "why/tempo.h"

namespace {

void answer(std::string_view text, const plimsoll::why::ReadLimits& limits) {
  plimsoll::why::Collector collector;
  plimsoll::why::read_text("rank1.log", text, collector, limits);
  const plimsoll::why::Findings findings = collector.take();
  const plimsoll::why::Diagnosis diagnosis = plimsoll::why::diagnose(findings);
  double sum = 0;
  for (const auto& candidate : diagnosis.candidates) sum += candidate.probability;
  if (diagnosis.candidates.empty() || sum > 1.0001 || diagnosis.confidence > 0.97) std::abort();
  for (const auto& fix : plimsoll::why::fixes_for(diagnosis, findings))
    if (fix.change.empty() || (fix.saves && fix.saves->low > fix.saves->high)) std::abort();
  static_cast<void>(plimsoll::why::explain(diagnosis.sum));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  answer(text, {});
  plimsoll::why::ReadLimits sparse;
  sparse.dense_bytes = 0;
  sparse.sample_bytes = 32;
  sparse.window_bytes = 256;
  answer(text, sparse);
  std::string carry;
  std::string decoded;
  plimsoll::why::append_utf16(text, (size & 1U) != 0, carry, decoded);
  // The same bytes as a log that is asked for its speed.
  static_cast<void>(plimsoll::why::tempo_of(plimsoll::why::read_pace_text("fuzz.log", text).points));
  return 0;
}

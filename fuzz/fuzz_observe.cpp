// SPDX-License-Identifier: Apache-2.0
// Any bytes as metrics or a log: a judgement whose every claim has evidence on a line of the input, the same whether
// the bytes come at once or in pieces; never a crash or a hang.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rl/observe/observer.h"

namespace {

void check(const plimsoll::rl::Observation& observation) {
  using plimsoll::rl::Verdict;
  if ((observation.verdict == Verdict::kBottleneck) == observation.findings.empty()) std::abort();
  for (const auto& finding : observation.findings) {
    if (finding.evidence.empty()) std::abort();
    for (const auto& evidence : finding.evidence)
      if (evidence.line < 1 || evidence.line > observation.lines || !std::isfinite(evidence.value)) std::abort();
  }
  if (observation.understood > observation.lines) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const plimsoll::rl::Observation whole = plimsoll::rl::observe({{"a.jsonl", text}});
  check(whole);
  plimsoll::rl::Observer observer;
  observer.begin_file("a.jsonl");
  for (std::size_t at = 0; at < size; at += 7) observer.feed(text.substr(at, 7));
  observer.end_file();
  const plimsoll::rl::Observation pieces = plimsoll::rl::judge(observer.take(), {});
  check(pieces);
  if (pieces.verdict != whole.verdict || pieces.findings.size() != whole.findings.size() ||
      pieces.understood != whole.understood)
    std::abort();
  return 0;
}

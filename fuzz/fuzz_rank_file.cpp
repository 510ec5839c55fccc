// SPDX-License-Identifier: Apache-2.0
// Any bytes as a rank file of a run and as a file of what was learned: refused with a message, or figures that a
// comparison can count with.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lever/learned.h"
#include "live/compare.h"
#include "live/evidence.h"
#include "live/groups.h"

using namespace plimsoll;

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto learned = lever::read_learned("fuzz", text); !learned) check(!learned.error().message.empty());
  const auto run = live::read_rank("fuzz", text);
  if (!run) {
    check(!run.error().message.empty());
    return 0;
  }
  check(run->peak_allocated >= 0 && run->steps_done >= 0);
  const std::vector<live::RankRun> ranks(3, *run);
  const live::Most most;
  const auto rows = live::compare(ranks, nullptr, most);
  static_cast<void>(live::differences(rows, ranks, nullptr));
  static_cast<void>(live::steps_text(ranks));
  std::size_t grouped = 0;
  for (const live::RankGroup& group : live::group_rows(rows, 1)) grouped += group.rows.size();
  check(grouped == rows.size());
  return 0;
}

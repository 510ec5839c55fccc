// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_goals_report.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/plan_report.h"
#include "cli/table.h"

namespace plimsoll::cli {

std::string fewest_gpus_report(const answer::FewestGpus& answer, const Console& console) {
  if (answer.interrupted) {
    const std::string known = answer.nothing_fits_on > 0
                                  ? fmt::format("nothing fits on {} GPUs", answer.nothing_fits_on)
                                  : "nothing was decided";
    return answer.fewest ? fmt::format("interrupted: {}; {} GPUs do, fewer may\n", known, answer.fewest->gpus)
                         : fmt::format("interrupted: {}; up to {} were to be tried\n", known, answer.tried_to);
  }
  if (!answer.fewest)
    return fmt::format("does not fit on up to {0} GPUs; on {0}:\n{1}", answer.tried_to,
                       plan_report(*answer.plan, console));
  return fmt::format(
      "fits from {} GPU{} on ({} were tried)\n\n{}", answer.fewest->gpus, answer.fewest->gpus == 1 ? "" : "s",
      answer.fewest->step > 1 ? fmt::format("counts {} apart", answer.fewest->step) : "powers of two in a node",
      plan_report(*answer.plan, console));
}

std::string largest_value_report(const answer::LargestValue& answer, const Console& console) {
  const plan::Longest& longest = answer.longest;
  if (answer.interrupted) {
    if (longest.tokens == 0) return fmt::format("interrupted: nothing was decided about {}\n", answer.key);
    return fmt::format(
        "interrupted: {} {} fits; {}\n", answer.key, longest.tokens,
        answer.decided ? "nothing larger does, and the plan for it was not finished" : "larger was not decided");
  }
  if (longest.tokens == 0)
    return fmt::format("nothing fits at {} {}\n", answer.key, answer.key == "seq_length" ? 1024 : 1);
  const std::string note = longest.is_endless ? ", the most that is asked for"
                           : longest.step > 1 ? fmt::format(" (in steps of {})", with_commas(longest.step))
                                              : std::string{};
  return fmt::format("largest {} that fits: {}{}\n\n{}", answer.key, longest.tokens, note,
                     plan_report(*answer.plan, console));
}

std::string gpu_hours_report(const answer::GpuHours& answer, const Console& console) {
  std::string text;
  if (answer.interrupted) text = fmt::format("interrupted: {} numbers of GPUs were answered\n", answer.rows.size());
  if (answer.rows.empty())
    return answer.interrupted ? text : fmt::format("does not fit on up to {} GPUs\n", answer.most);
  Table table({{"GPUs", Align::kRight},
               {"GPU-hours", Align::kRight},
               {"days", Align::kRight},
               {"tokens/s/GPU", Align::kRight},
               {"headroom", Align::kRight},
               {"configuration", Align::kLeft, true}});
  for (const answer::GpuHours::Row& row : answer.rows) {
    const plan::Found& best = row.plan.best.front();
    table.add_row({std::to_string(row.gpus), with_commas(static_cast<std::int64_t>(row.gpu_hours)),
                   fmt::format("{:.1f}", row.days), fmt::format("{:.0f}", best.time.tokens_per_second_per_gpu),
                   format_gib(best.worst.headroom), answer::shown(row.plan, best)});
  }
  return text + fmt::format("{} tokens, fewest GPU-hours first\n\n{}", answer.asked,
                            table.to_text(console.width, console.colour_out));
}

}  // namespace plimsoll::cli

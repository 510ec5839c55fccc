// SPDX-License-Identifier: Apache-2.0
#include "cli/batching_report.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/fit_time.h"
#include "cli/table.h"

namespace plimsoll::cli {

std::string batching_report(const answer::Batching& batching, const Console& console) {
  const answer::Batching::Samples& samples = batching.samples;
  std::string text = fmt::format("samples: mean {:.0f} tokens, half up to {:.0f}, 95 % up to {:.0f}, longest {}",
                                 samples.mean, samples.median, samples.p95, samples.longest);
  if (samples.cut_share > 0) text += fmt::format("; {:.1f} % are cut", 100 * samples.cut_share);
  text += '\n';
  Table table({{"samples are"},
               {"device GiB", Align::kRight},
               {"usual GiB", Align::kRight},
               {"fits"},
               {"tokens", Align::kRight},
               {"real %", Align::kRight},
               {"step", Align::kRight},
               {"real tokens/s/GPU", Align::kRight},
               {"times as fast", Align::kRight}});
  for (const answer::Batching::Row& row : batching.rows) {
    if (!row.refused.empty()) {
      table.add_row({row.name, "", "", Cell{"no", Style::kBad}, "", "", "", "", ""});
      continue;
    }
    table.add_row({row.name, format_gib(row.device_used), format_gib(row.usual),
                   Cell{row.fits ? "yes" : "no", row.fits ? Style::kGood : Style::kBad},
                   fmt::format("{:.0f}", row.tokens), fmt::format("{:.1f}", 100 * row.real_share),
                   format_seconds(row.seconds), fmt::format("{:.0f}", row.tokens_per_second),
                   fmt::format("{:.2f}", row.times_as_fast)});
  }
  text += '\n' + table.to_text(console.width, console.colour_out);
  text +=
      "fixed: each to seq_length. padded: each micro-batch to its longest; device is that of the longest sample, usual "
      "that\nof the mean micro-batch. packed: sequences filled with whole samples, largest first";
  text += batching.within_samples ? "; attention stays within a sample\n" : "; attention runs over whole sequences\n";
  for (const answer::Batching::Row& row : batching.rows)
    if (!row.refused.empty()) text += fmt::format("{}: {}\n", row.name, row.refused);
  return text;
}

}  // namespace plimsoll::cli

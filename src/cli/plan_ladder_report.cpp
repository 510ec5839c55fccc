// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_ladder_report.h"

#include <string_view>

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

// What a launch needs beside the keys, where the split of the model state changes.
std::string how_to_shard(const job::Settings& settings) {
  const auto value = [&](std::string_view key) -> std::string {
    for (const auto& [name, text] : settings)
      if (name == key) return text;
    return {};
  };
  if (value("sharding") == "fsdp2") return "FSDP2: accelerate launch with fsdp_version 2 in its FSDP configuration\n";
  if (value("sharding") == "zero")
    return fmt::format(
        "ZeRO: a DeepSpeed configuration with zero_optimization.stage {}, named by the Trainer's deepspeed\n",
        value("zero_stage"));
  return {};
}

// By how much a rank misses its device; where the device is not what is short, the host is.
std::string shortfall(const memory::RankAnswer& rank) {
  if (rank.fits) return "too much for the host memory of a node";
  return fmt::format("{} too much on rank pp={}", format_bytes(-rank.headroom), rank.pp_rank);
}

}  // namespace

std::string ladder_report(const plan::Ladder& ladder, const Console& console) {
  if (ladder.fits_already)
    return fmt::format("fits already: {} of headroom on the worst rank; nothing to climb\n",
                       format_bytes(ladder.before.headroom));
  std::string text = fmt::format("does not fit: {}\n\n", shortfall(ladder.before));
  Table table({{"step", Align::kRight},
               {"change"},
               {"saves GiB", Align::kRight},
               {"time %", Align::kRight},
               {"device GiB", Align::kRight},
               {"fits"}});
  const auto time = [](const lever::PricedChange& change) {
    return change.slower ? fmt::format("{:+.1f}", 100 * *change.slower) : std::string{};
  };
  for (std::size_t i = 0; i < ladder.steps.size(); ++i) {
    const lever::PricedChange& taken = ladder.steps[i].taken;
    table.add_row({std::to_string(i + 1), taken.change.label, format_gib(-taken.difference), time(taken),
                   format_gib(taken.device_used),
                   Cell(taken.fits ? "yes" : "no", taken.fits ? Style::kGood : Style::kBad)});
    for (const lever::PricedChange& other : ladder.steps[i].passed_over)
      table.add_row({"", "not " + other.change.label, format_gib(-other.difference), time(other),
                     format_gib(other.device_used), other.fits ? "yes" : "no"});
  }
  text += table.to_text(console.width, console.colour_out);
  if (ladder.fits) {
    text += fmt::format("\nfits with {} of headroom, time {:+.1f} %: {}\n", format_bytes(ladder.after.headroom),
                        100 * ladder.slower, lever::as_flags(ladder.settings));
    if (ladder.after.high > ladder.after.capacity)
      text += "that is less than the error of the prediction: try it, and keep one more rung at hand\n";
    text += how_to_shard(ladder.settings);
    if (ladder.after.host_bytes > ladder.before.host_bytes)
      text += fmt::format("needs {} of host memory for each GPU\n", format_bytes(ladder.after.host_bytes));
  } else {
    text += fmt::format(
        "\ndoes not fit: of {} sets of changes that leave the science alone, the leanest has {}\n"
        "other splits and offloads: {}; or take more GPUs\n",
        ladder.tried, shortfall(ladder.after), ladder.search_command);
  }
  if (ladder.fits && !ladder.is_cheapest)
    text += fmt::format("the search ended after {} sets of changes: a faster one may exist; {} searches all\n",
                        ladder.tried, ladder.search_command);
  if (!ladder.science.empty()) {
    text += "\nnever taken unasked, because they change what is learned (each alone, on top of the steps above)\n";
    Table science({{"change"}, {"saves GiB", Align::kRight}, {"time %", Align::kRight}, {"fits"}});
    for (const lever::PricedChange& change : ladder.science)
      science.add_row({change.change.label, format_gib(-change.difference), time(change), change.fits ? "yes" : "no"});
    text += science.to_text(console.width, console.colour_out);
  }
  return text;
}

}  // namespace plimsoll::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_ladder_report.h"

#include <string_view>

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/json_writer.h"
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

std::string ladder_json(const plan::Ladder& ladder) {
  JsonWriter json;
  const auto write = [&json](const lever::PricedChange& change) {
    json.begin_object(Layout::kInline)
        .member("lever", change.change.lever)
        .member("label", change.change.label)
        .key("settings")
        .begin_object();
    for (const auto& [key, value] : change.change.settings) json.member(key, value);
    json.end_object()
        .member("saves_bytes", -change.difference)
        .member("time_share", change.slower)
        .member("device_used_bytes", change.device_used)
        .member("fits", change.fits)
        .end_object();
  };
  json.begin_object().member("schema", 1).member("fits_already", ladder.fits_already).member("fits", ladder.fits);
  json.member("headroom_before", ladder.before.headroom).member("headroom_after", ladder.after.headroom);
  json.member("time_share", ladder.slower).member("tried", ladder.tried).member("is_cheapest", ladder.is_cheapest);
  json.key("steps").begin_array();
  for (const plan::LadderStep& step : ladder.steps) {
    json.begin_object().key("taken");
    write(step.taken);
    json.key("passed_over").begin_array();
    for (const lever::PricedChange& other : step.passed_over) write(other);
    json.end_array().end_object();
  }
  json.end_array().key("changes_science").begin_array();
  for (const lever::PricedChange& change : ladder.science) write(change);
  json.end_array().key("settings").begin_object();
  for (const auto& [key, value] : ladder.settings) json.member(key, value);
  return json.end_object().end_object().take();
}

}  // namespace plimsoll::cli

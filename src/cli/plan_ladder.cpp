// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_ladder.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/json_writer.h"
#include "cli/table.h"
#include "rules/rules.h"

namespace plimsoll::cli {

namespace {

bool is_refused(const job::Job& job) {
  const std::vector<rules::Violation> violations = rules::check(job);
  return std::any_of(violations.begin(), violations.end(),
                     [](const rules::Violation& v) { return v.rule->severity == rules::Severity::kError; });
}

// Rungs that change what is learned (seed M4: 2, 6, 7's Adafactor, 10).
std::vector<Change> science_changes(const job::Job& job) {
  std::vector<Change> changes;
  if (job.batch.seq_length % 2 == 0)
    changes.push_back({"half the sequence length", {{"seq_length", std::to_string(job.batch.seq_length / 2)}}});
  if (job.optimizer.kind == job::OptimizerKind::kAdam) changes.push_back({"Adafactor", {{"optimizer", "adafactor"}}});
  if (!job.is_megatron() && job.adapter.kind == job::AdapterKind::kNone)
    changes.push_back({"LoRA", {{"adapter", "lora"}}});
  return changes;
}

// How much of a launch a change touches: a variable, the batch, a switch, the split over GPUs.
int reach(const PricedChange& change) {
  const std::string& key = change.change.settings.front().first;
  if (key.starts_with("environment.")) return 0;
  if (key == "micro_batch_size") return 1;
  return key.ends_with("_parallel_size") ? 3 : 2;
}

// Time lost decides, in steps of half a percent; then how far a change reaches, then the bytes that it wins.
bool costs_less(const PricedChange& a, const PricedChange& b) {
  const auto cost = [](const PricedChange& change) {
    const double slower = std::max(change.slower.value_or(1), 0.0);
    return std::make_tuple(static_cast<int>(slower * 200), reach(change), change.difference);
  };
  return cost(a) < cost(b);
}

}  // namespace

Result<Ladder> climb(const JobInput& input) {
  PLIMSOLL_TRY(first, make_job(input, {}));
  PLIMSOLL_TRY(answer, memory::answer(first, {}));
  Ladder ladder;
  ladder.before = ladder.after = answer.ranks[answer.worst];
  ladder.fits = ladder.fits_already = answer.fits;
  if (ladder.fits_already) return ladder;
  ladder.science = price_these(input, first, answer, science_changes(first));
  JobInput way = input;
  job::Job job = first;
  constexpr int kMostSteps = 12;
  for (int step = 0; step < kMostSteps && !ladder.fits; ++step) {
    std::vector<PricedChange> rungs = price_changes(way, job, answer);
    std::erase_if(rungs, [&](const PricedChange& rung) {
      if (rung.difference >= 0) return true;
      const auto changed = make_job(replaced(way, rung.change.settings), {});
      return !changed || is_refused(*changed);
    });
    if (rungs.empty()) break;
    std::sort(rungs.begin(), rungs.end(), costs_less);
    auto taken = std::find_if(rungs.begin(), rungs.end(), [](const PricedChange& rung) { return rung.fits; });
    if (taken == rungs.end()) taken = rungs.begin();
    LadderStep done{*taken, {}};
    rungs.erase(taken);
    done.passed_over = std::move(rungs);
    way = replaced(way, done.taken.change.settings);
    for (const auto& setting : done.taken.change.settings) {
      std::erase_if(ladder.settings, [&](const auto& old) { return old.first == setting.first; });
      ladder.settings.push_back(setting);
    }
    PLIMSOLL_TRY(next, make_job(way, {}));
    PLIMSOLL_TRY(next_answer, memory::answer(next, {}));
    job = std::move(next);
    answer = std::move(next_answer);
    ladder.after = answer.ranks[answer.worst];
    ladder.fits = answer.fits;
    ladder.steps.push_back(std::move(done));
  }
  return ladder;
}

std::string ladder_report(const Ladder& ladder, const Console& console) {
  if (ladder.fits_already)
    return fmt::format("fits already: {} of headroom on the worst rank; nothing to climb\n",
                       format_bytes(ladder.before.headroom));
  std::string text = fmt::format("does not fit: {} too much on rank pp={}\n\n", format_bytes(-ladder.before.headroom),
                                 ladder.before.pp_rank);
  Table table({{"step", Align::kRight},
               {"change"},
               {"saves GiB", Align::kRight},
               {"time %", Align::kRight},
               {"device GiB", Align::kRight},
               {"fits"}});
  const auto time = [](const PricedChange& change) {
    return change.slower ? fmt::format("{:+.1f}", 100 * *change.slower) : std::string{};
  };
  for (std::size_t i = 0; i < ladder.steps.size(); ++i) {
    const PricedChange& taken = ladder.steps[i].taken;
    table.add_row({std::to_string(i + 1), taken.change.label, format_gib(-taken.difference), time(taken),
                   format_gib(taken.device_used),
                   Cell(taken.fits ? "yes" : "no", taken.fits ? Style::kGood : Style::kBad)});
    for (const PricedChange& other : ladder.steps[i].passed_over)
      table.add_row({"", "not " + other.change.label, format_gib(-other.difference), time(other),
                     format_gib(other.device_used), other.fits ? "yes" : "no"});
  }
  text += table.to_text(console.width, console.colour_out);
  text += ladder.fits
              ? fmt::format("\nfits with {} of headroom: {}\n", format_bytes(ladder.after.headroom),
                            as_flags(ladder.settings))
              : "\nno change that leaves the science alone makes it fit; plimsoll plan searches other splits, or "
                "take more GPUs\n";
  if (!ladder.science.empty()) {
    text += "\nnever taken unasked, because they change what is learned\n";
    for (const PricedChange& change : ladder.science)
      text +=
          fmt::format("  {}: {} GiB, time {} %\n", change.change.label, format_gib(change.difference), time(change));
  }
  return text;
}

std::string ladder_json(const Ladder& ladder) {
  JsonWriter json;
  const auto write = [&json](const PricedChange& change) {
    json.begin_object(Layout::kInline).member("label", change.change.label).key("settings").begin_object();
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
  json.key("steps").begin_array();
  for (const LadderStep& step : ladder.steps) {
    json.begin_object().key("taken");
    write(step.taken);
    json.key("passed_over").begin_array();
    for (const PricedChange& other : step.passed_over) write(other);
    json.end_array().end_object();
  }
  json.end_array().key("changes_science").begin_array();
  for (const PricedChange& change : ladder.science) write(change);
  json.end_array().key("settings").begin_object();
  for (const auto& [key, value] : ladder.settings) json.member(key, value);
  return json.end_object().end_object().take();
}

}  // namespace plimsoll::cli

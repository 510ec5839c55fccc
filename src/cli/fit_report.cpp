// SPDX-License-Identifier: Apache-2.0
#include "cli/fit_report.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "answer/words.h"
#include "base/bytes.h"
#include "cli/batching_report.h"
#include "cli/fit_time.h"
#include "cli/lint_report.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

constexpr std::size_t kMostAlive = 10;  // kinds of tensors shown at the peak; the rest is one row

std::string percent(std::int64_t bytes, std::int64_t capacity) {
  return fmt::format("{:.1f}", answer::percent_of(bytes, capacity));
}

std::string signed_gib(std::int64_t bytes) { return (bytes > 0 ? "+" : "") + format_gib(bytes); }

std::string verdict_text(const answer::Fit& fit, const memory::RankAnswer& rank) {
  const std::string where = fmt::format("on {} pp={}", fit.asked.pp ? "rank" : "the worst rank,", rank.pp_rank);
  const std::string share = percent(std::abs(rank.headroom), rank.capacity);
  if (rank.fits)
    return fmt::format("{} GiB ({} %) of {} GiB are free {}", format_gib(rank.headroom), share,
                       format_gib(rank.capacity), where);
  if (rank.headroom < 0)
    return fmt::format("{} GiB ({} %) more than {} GiB are needed {}", format_gib(-rank.headroom), share,
                       format_gib(rank.capacity), where);
  return fmt::format("the allocator runs out {}, although {} GiB would be enough without its gaps", where,
                     format_gib(rank.device_used));
}

std::string verdict(const answer::Fit& fit, const memory::RankAnswer& rank, const Console& console) {
  const auto line = [&](bool fits, const std::string& says) {
    return fmt::format("{} {}\n",
                       paint(fits ? "fits:" : "does not fit:", fits ? Style::kGood : Style::kBad, console.colour_out),
                       says);
  };
  const memory::Host& host = fit.memory.host;
  std::string text;
  if (host.capacity > 0 && host.bytes_per_node > host.capacity)
    text += line(false, fmt::format("{} GiB of host memory per node are needed, {} GiB are there",
                                    format_gib(host.bytes_per_node), format_gib(host.capacity)));
  if (host.nvme_capacity > 0 && host.nvme_per_node > host.nvme_capacity)
    text += line(false, fmt::format("{} GiB of NVMe per node are needed, {} GiB are there",
                                    format_gib(host.nvme_per_node), format_gib(host.nvme_capacity)));
  // The verdict is the job's, whichever rank is shown.
  const memory::WorstRank& worst = fit.memory.worst_of_all;
  if (rank.fits && !worst.fits)
    text +=
        line(false, worst.headroom < 0 ? fmt::format("{} GiB more than there are are needed on the worst rank, pp={}",
                                                     format_gib(-worst.headroom), worst.pp_rank)
                                       : fmt::format("the allocator runs out on the worst rank, pp={}", worst.pp_rank));
  text += line(rank.fits, verdict_text(fit, rank));
  text += fmt::format("interval: {} to {} GiB of device memory", format_gib(rank.low), format_gib(rank.high));
  if (rank.fits && rank.high > rank.capacity) text += "; its upper end does not fit";
  if (!rank.fits && rank.low <= rank.capacity) text += "; its lower end fits";
  return text + '\n';
}

std::string job_lines(const job::Job& job) {
  const std::string gpu = job.cluster.gpu.id.empty()
                              ? fmt::format("a GPU of {}", format_bytes(job.cluster.gpu.capacity))
                              : job.cluster.gpu.id;
  std::string text = fmt::format("job: {}, {}, {} x {}, {}\n", job.model.name, job::name_of(job.framework),
                                 job.cluster.gpus, gpu, answer::describe_split(job));
  text += fmt::format("     sequence {}, micro-batch {}, {} micro-batches per step\n", job.batch.seq_length,
                      job.batch.micro_batch, job.micro_batches);
  const std::string assumed = answer::assumed_environment(job);
  if (!assumed.empty())
    text += fmt::format("     environment as the launcher of {} has it: {}\n", job::name_of(job.framework), assumed);
  return text;
}

std::string peak_lines(const answer::Fit& fit, const memory::RankAnswer& rank, const Console& console) {
  const bool has_chunks = fit.job.parallel.virtual_pipeline > 1;
  std::string text = fmt::format("peak: {} GiB allocated, {} GiB reserved; {}\n", format_gib(rank.peak_allocated),
                                 format_gib(rank.peak_reserved), answer::describe(rank.peak.moment, has_chunks));
  if (rank.second) {
    text += fmt::format("next peak: {} GiB allocated; {}\n", format_gib(rank.second->allocated),
                        answer::describe(rank.second->moment, has_chunks));
    text += fmt::format("           removing the first saves at most {} GiB\n",
                        format_gib(rank.peak_allocated - rank.second->allocated));
  }
  if (rank.out_of_memory)
    text += fmt::format("runs out: {}, asking for {} ({})\n", answer::describe(rank.out_of_memory->moment, has_chunks),
                        format_bytes(rank.out_of_memory->requested), step::text_of(rank.out_of_memory->name));

  Table alive({{"alive at the peak"}, {"for"}, {"count", Align::kRight}, {"GiB", Align::kRight}});
  memory::Alive others{};
  for (std::size_t i = 0; i < rank.alive.size(); ++i) {
    const memory::Alive& kind = rank.alive[i];
    if (i < kMostAlive) {
      alive.add_row({std::string{step::text_of(kind.name)}, std::string{step::text_of(step::category_of(kind.name))},
                     std::to_string(kind.count), format_gib(kind.bytes)});
    } else {
      others.count += kind.count;
      others.bytes += kind.bytes;
    }
  }
  if (others.count > 0)
    alive.add_row({fmt::format("{} other kinds", rank.alive.size() - kMostAlive), "", std::to_string(others.count),
                   format_gib(others.bytes)});
  return text + '\n' + alive.to_text(console.width, console.colour_out);
}

std::string ranks_table(const answer::Fit& fit, const Console& console) {
  Table table({{"rank"},
               {"parameters", Align::kRight},
               {"allocated GiB", Align::kRight},
               {"reserved GiB", Align::kRight},
               {"device GiB", Align::kRight},
               {"free GiB", Align::kRight},
               {"fits"},
               {"peak at", Align::kLeft, true}});
  for (const memory::RankAnswer& rank : fit.memory.ranks)
    table.add_row({fmt::format("pp={}", rank.pp_rank), with_commas(rank.parameters), format_gib(rank.peak_allocated),
                   format_gib(rank.peak_reserved), format_gib(rank.device_used), format_gib(rank.headroom),
                   Cell{rank.fits ? "yes" : "no", rank.fits ? Style::kGood : Style::kBad},
                   answer::describe(rank.peak.moment, fit.job.parallel.virtual_pipeline > 1)});
  return table.to_text(console.width, console.colour_out);
}

std::string stage_lines(const memory::Answer& answer) {
  std::string text = "tensors at the peak of each stage, GiB:";
  for (const std::int64_t peak : answer.peak_by_stage) text += fmt::format(" {}", format_gib(peak));
  return text + '\n';
}

std::string host_lines(const memory::Host& host) {
  std::string text;
  if (host.bytes_per_node > 0) {
    text = fmt::format("host memory: {} GiB per node", format_gib(host.bytes_per_node));
    if (host.capacity > 0)
      text += fmt::format(" of {} GiB{}", format_gib(host.capacity),
                          host.bytes_per_node <= host.capacity ? "" : ": does not fit");
    else
      text += "; what the node has is not known";
    text += '\n';
    if (host.gathered > 0)
      text += fmt::format("             {} GiB of them on rank 0, while a full state dict is brought together\n",
                          format_gib(host.gathered));
  }
  if (host.nvme_per_node > 0) {
    text += fmt::format("NVMe: {} GiB per node", format_gib(host.nvme_per_node));
    if (host.nvme_capacity > 0)
      text += fmt::format(" of {} GiB{}", format_gib(host.nvme_capacity),
                          host.nvme_per_node <= host.nvme_capacity ? "" : ": does not fit");
    text += '\n';
  }
  return text;
}

// Memory is answered all the same: what the framework refuses today may be what a newer one allows.
std::string refusal_lines(const answer::Fit& fit, const Console& console) {
  if (!answer::has_error(fit.violations)) return {};
  std::string text = paint(fmt::format("{} would refuse this job:", job::name_of(fit.job.framework)), Style::kBad,
                           console.colour_out) +
                     "\n\n";
  for (const rules::Violation& violation : fit.violations)
    if (violation.rule->severity == rules::Severity::kError)
      text += violation_lines(violation, fit.job.framework, console) + '\n';
  return text;
}

std::string changes_table(const answer::Fit& fit, const Console& console) {
  Table table({{"with"},
               {"worst"},
               {"device GiB", Align::kRight},
               {"change", Align::kRight},
               {"time %", Align::kRight},
               {"fits"}});
  for (const lever::PricedChange& priced : fit.changes)
    table.add_row({lever::lever_of(priced.change).lossless ? priced.change.label : priced.change.label + " *",
                   fmt::format("pp={}", priced.worst_rank), format_gib(priced.device_used),
                   signed_gib(priced.difference), priced.slower ? fmt::format("{:+.1f}", 100 * *priced.slower) : "",
                   Cell{priced.fits ? "yes" : "no", priced.fits ? Style::kGood : Style::kBad}});
  std::string text = table.to_text(console.width, console.colour_out);
  if (std::any_of(fit.changes.begin(), fit.changes.end(),
                  [](const lever::PricedChange& priced) { return !lever::lever_of(priced.change).lossless; }))
    text += "* changes what is learned\n";
  return text;
}

}  // namespace

std::string memory_table(const memory::RankAnswer& rank, const Console& console) {
  Table table({{fmt::format("memory of rank pp={}", rank.pp_rank)},
               {"GiB", Align::kRight},
               {"%", Align::kRight},
               {"bytes", Align::kRight}});
  const auto add = [&](const std::string& name, std::int64_t bytes, Style style) {
    table.add_row({Cell{name, style}, format_gib(bytes), percent(bytes, rank.capacity), with_commas(bytes)});
  };
  for (const memory::Row& row : rank.table) {
    const bool is_free = &row == &rank.table.back();
    if (row.bytes == 0 && !is_free) continue;
    add(row.estimated ? row.name + " (estimate)" : row.name, row.bytes,
        is_free ? (row.bytes < 0 ? Style::kBad : Style::kGood) : Style::kPlain);
  }
  table.add_rule();
  add("capacity", rank.capacity, Style::kBold);
  return table.to_text(console.width, console.colour_out);
}

std::string fit_report(const answer::Fit& fit, const Console& console) {
  const memory::RankAnswer& rank = fit.memory.ranks[fit.memory.worst];
  std::string text = refusal_lines(fit, console) + verdict(fit, rank, console) + job_lines(fit.job);
  if (fit.asked.all) text += '\n' + ranks_table(fit, console);
  text += '\n' + memory_table(rank, console);
  text += '\n' + peak_lines(fit, rank, console);
  if (fit.memory.peak_by_stage.size() > 1) text += '\n' + stage_lines(fit.memory);
  if (const std::string host = host_lines(fit.memory.host); !host.empty()) text += '\n' + host;
  text += '\n' + time_report(fit.time, console);
  if (fit.batching) text += '\n' + batching_report(*fit.batching, console);
  if (!fit.changes.empty()) text += '\n' + changes_table(fit, console);
  return text;
}

std::string sweep_report(const answer::Sweep& sweep, const Console& console) {
  std::vector<Column> columns;
  for (const auto& [key, value] : sweep.rows.front().settings) columns.push_back({key});
  for (const char* title : {"rank", "allocated GiB", "device GiB", "free GiB", "step", "tokens/s/GPU"})
    columns.push_back({title, Align::kRight});
  columns.push_back({"fits", Align::kLeft, true});
  Table table(std::move(columns));
  for (const answer::SweepRow& row : sweep.rows) {
    std::vector<Cell> cells;
    for (const auto& [key, value] : row.settings) cells.emplace_back(value);
    if (row.price) {
      const memory::RankAnswer& rank = row.price->worst();
      cells.emplace_back(fmt::format("pp={}", rank.pp_rank));
      for (const std::int64_t bytes : {rank.peak_allocated, rank.device_used, rank.headroom})
        cells.emplace_back(format_gib(bytes));
      cells.emplace_back(format_seconds(row.price->time.seconds));
      cells.emplace_back(fmt::format("{:.0f}", row.price->time.tokens_per_second_per_gpu));
      cells.emplace_back(row.price->fits() ? "yes" : (rank.fits ? "no: host memory" : "no"),
                         row.price->fits() ? Style::kGood : Style::kBad);
    } else {
      cells.insert(cells.end(), 6, Cell{""});
      cells.emplace_back(fmt::format("cannot run: {}", to_string(row.price.error())), Style::kWarning);
    }
    table.add_row(std::move(cells));
  }
  return table.to_text(console.width, console.colour_out);
}

std::string where_report(const answer::WhereItFits& where, const Console& console) {
  std::vector<Column> columns = {{"GPU"}, {"GiB", Align::kRight}};
  for (const std::string& method : where.methods) columns.push_back({method, Align::kRight});
  Table table(columns);
  for (const answer::WhereItFits::Row& row : where.rows) {
    std::vector<Cell> cells = {row.gpu, fmt::format("{:.0f}", static_cast<double>(row.capacity) / kGiB)};
    for (const auto& count : row.fewest) cells.emplace_back(count ? std::to_string(*count) : "-");
    table.add_row(std::move(cells));
  }
  return fmt::format("fewest GPUs that hold {}, with activation checkpointing and FSDP2 over several\n\n{}",
                     where.model, table.to_text(console.width, console.colour_out));
}

}  // namespace plimsoll::cli

// SPDX-License-Identifier: Apache-2.0
#include "live/record.h"

#include <ctime>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "emit/text.h"
#include "live/nodes.h"

namespace plimsoll::live {

namespace {

using document::Node;

Node list_of(const std::vector<std::string>& texts) {
  Node list;
  list.kind = Node::Kind::kArray;
  for (const std::string& text : texts) list.items.push_back(node_of(std::string_view(text)));
  return list;
}

Node pair_of(const Quantity& quantity) {
  Object object;
  object.set_if("measured", quantity.measured);
  object.set_if("predicted", quantity.predicted);
  if (quantity.predicted) object.set("half_width", quantity.half_width);
  return object.take();
}

void put_measured(const RankRun& rank, const RankComparison& row, Object& object) {
  object.set("peak_allocated", rank.peak_allocated).set("peak_reserved", rank.peak_reserved);
  if (row.outside.measured) object.set("outside", static_cast<std::int64_t>(*row.outside.measured));
  if (rank.rss_most > 0) object.set("host", rank.rss_most);
  object.set_if("step_seconds", row.seconds.measured);
}

Node rank_node(const RankRun& rank, const RankComparison* row) {
  Object object;
  object.set("rank", rank.rank).set("host", rank.host).set("pid", rank.pid).set("file", rank.file);
  object.set("world", rank.world).set("torch", rank.torch).set("device", rank.device_name).set("total", rank.total);
  object.set("steps", rank.steps_done).set("ended", rank.ended).set("alloc_retries", rank.retries);
  if (rank.restart > 0) object.set("restart", rank.restart);
  Object settings;
  for (const auto& [name, value] : rank.settings) settings.set(name, value);
  object.add("settings", settings.take());
  if (row != nullptr) {
    if (row->pp_rank) object.set("pp_rank", *row->pp_rank);
    object.add("allocated", pair_of(row->allocated)).add("reserved", pair_of(row->reserved));
    object.add("outside", pair_of(row->outside)).add("resident", pair_of(row->resident));
    object.add("step_seconds", pair_of(row->seconds));
    object.set("headroom", row->headroom).set("fragmentation", row->fragmentation);
  }
  if (rank.oom) {
    Object oom;
    oom.set("phase", rank.oom->phase).set("step", rank.oom->step).set("requested", rank.oom->requested);
    oom.set("free", rank.oom->free).set("total", rank.oom->total).set("allocated", rank.oom->allocated);
    oom.set("reserved", rank.oom->reserved);
    object.add("oom", oom.take());
  }
  if (!rank.snapshot.empty()) object.set("snapshot", rank.snapshot);
  if (rank.history_given_up > 0) object.set("history_given_up", rank.history_given_up);
  if (!rank.error.empty()) object.set("error_type", rank.error_type).set("error", rank.error);
  if (!rank.trouble.empty()) object.set("trouble", rank.trouble);
  return object.take();
}

// One record per pipeline rank, its fullest rank: the others hold the same.
Node records_of(const Run& run, const Prediction& prediction) {
  std::map<std::int64_t, std::size_t> fullest;  // pipeline rank -> row
  for (std::size_t i = 0; i < run.rows.size(); ++i) {
    const RankComparison& row = run.rows[i];
    if (!row.pp_rank) continue;
    const auto [known, is_new] = fullest.try_emplace(*row.pp_rank, i);
    if (!is_new && row.allocated.measured > run.rows[known->second].allocated.measured) known->second = i;
  }
  Node records;
  records.kind = Node::Kind::kArray;
  for (const auto& [pp_rank, index] : fullest) {
    const RankComparison& row = run.rows[index];
    for (const RankRun& rank : run.ranks) {
      if (rank.rank != row.rank || rank.peak_allocated == 0) continue;
      Object measured;
      put_measured(rank, row, measured);
      Object record;
      record.set("id", fmt::format("{}-rank-{}", std::filesystem::path(run.folder).filename().string(), rank.rank));
      record.set("rank", rank.rank).set("pp_rank", pp_rank).set("gpu", prediction.job.cluster.gpu.id);
      record.set("steps", rank.steps_done).set("failed", run.ending.code() != 0);
      record.add("measured", measured.take());
      records.items.push_back(record.take());
      break;
    }
  }
  return records;
}

Node machine_node(const Most& most) {
  Object object;
  object.set("host_most", most.tree).set("processes", most.processes).set("memory", most.machine_last.total);
  object.set("least_available", most.least_available).set("page_cache", most.page_cache).set("shm", most.shm);
  object.set("shm_total", most.machine_last.shm_total).set("samples", most.samples);
  if (most.cgroup_last.version > 0) {
    Object cgroup;
    cgroup.set("version", most.cgroup_last.version).set("limit", most.cgroup_last.limit).set("most", most.cgroup_most);
    cgroup.set("limit_hits", most.cgroup_last.failures - most.cgroup_first.failures);
    cgroup.set("oom_kills", most.oom_kills());
    object.add("cgroup", cgroup.take());
  }
  Node devices;
  devices.kind = Node::Kind::kArray;
  for (const auto& [index, device] : most.devices) {
    Object one;
    one.set("index", index).set("name", device.name).set("total", device.total).set("used_most", device.used);
    one.set("used_before", most.used_first.at(index));
    devices.items.push_back(one.take());
  }
  object.add("devices", std::move(devices));
  return object.take();
}

}  // namespace

std::string run_json(const Run& run, const Prediction* prediction) {
  Object root;
  root.set("schema", kRunSchema).set("kind", "plimsoll-run").set("plimsoll", run.version);
  root.set("note", "A run under plimsoll run: torch's own counters by rank, beside what was predicted.");
  root.add("command", list_of(run.command)).set("started", run.started).set("seconds", run.ending.seconds);
  root.set("exit_code", run.ending.exit_code).set("signal", run.ending.signal);
  root.set("hook", run.hook).set("nvml", run.nvml.empty() ? "on" : run.nvml.c_str());
  root.add("machine", machine_node(run.most));
  Node ranks;
  ranks.kind = Node::Kind::kArray;
  std::size_t next = 0;  // rows are in the order of the ranks, less those without a device
  for (const RankRun& rank : run.ranks) {
    const bool has_row = next < run.rows.size() && rank.device >= 0 && rank.peak_allocated > 0;
    ranks.items.push_back(rank_node(rank, has_row ? &run.rows[next] : nullptr));
    if (has_row) ++next;
  }
  root.add("ranks", std::move(ranks));
  if (!run.earlier.empty()) {
    Node earlier;
    earlier.kind = Node::Kind::kArray;
    for (const RankRun& rank : run.earlier) earlier.items.push_back(rank_node(rank, nullptr));
    root.add("earlier_ranks", std::move(earlier));
  }
  root.add("differences", list_of(run.differences));
  root.add("problems", list_of(run.problems));
  if (prediction != nullptr) {
    root.set("job", prediction->job_file);
    if (!prediction->problem.empty()) root.set("job_problem", prediction->problem);
  }
  if (prediction != nullptr) {
    root.add("records", records_of(run, *prediction));
  } else {
    Node none;
    none.kind = Node::Kind::kArray;
    root.add("records", std::move(none));
  }
  return emit::pretty_json(root.take()) + "\n";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm broken{};
  gmtime_r(&now, &broken);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", broken.tm_year + 1900, broken.tm_mon + 1, broken.tm_mday,
                     broken.tm_hour, broken.tm_min, broken.tm_sec);
}

}  // namespace plimsoll::live

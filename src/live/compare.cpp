// SPDX-License-Identifier: Apache-2.0
#include "live/compare.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "live/growth.h"

namespace plimsoll::live {

namespace {

// What others held on the device before the run began, by the device that the process names (NVML writes GPU- before
// the number). NVML counts what the driver keeps for itself as used, CUDA takes it off the total: on an H200 615 MiB of
// an empty device.
std::int64_t held_before(const RankRun& rank, const Most& most) {
  for (const auto& [index, device] : most.devices) {
    const bool same = !rank.uuid.empty() && device.uuid.find(rank.uuid) != std::string::npos;
    if (!same && most.devices.size() > 1) continue;
    const std::int64_t drivers = std::max<std::int64_t>(0, device.total - rank.total);
    return std::max<std::int64_t>(0, most.used_first.at(index) - drivers);
  }
  return 0;
}

std::map<std::string, int> ranks_by_device(const std::vector<RankRun>& ranks) {
  std::map<std::string, int> count;
  for (const RankRun& rank : ranks)
    if (rank.device >= 0) ++count[rank.host + "/" + (rank.uuid.empty() ? std::to_string(rank.device) : rank.uuid)];
  return count;
}

void take_prediction(const Prediction& prediction, RankComparison& row) {
  const memory::RankAnswer* answer = row.pp_rank ? answer_for(prediction, *row.pp_rank) : nullptr;
  if (answer == nullptr) return;
  row.allocated.predicted = static_cast<double>(answer->peak_allocated);
  row.allocated.half_width = static_cast<double>(answer->spread.allocated);
  row.reserved.predicted = static_cast<double>(answer->peak_reserved);
  row.reserved.half_width = static_cast<double>(answer->spread.reserved);
  row.outside.predicted = static_cast<double>(answer->outside);
  if (answer->host_bytes > 0) row.resident.predicted = static_cast<double>(answer->host_bytes);
  const timing::StepTime& time = prediction.price.time;
  if (time.seconds > 0) {
    row.seconds.predicted = time.seconds;
    row.seconds.half_width = (time.high - time.low) / 2;
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string signed_bytes(double bytes) {
  return (bytes < 0 ? "-" : "+") + format_bytes(static_cast<std::int64_t>(std::abs(bytes)));
}

}  // namespace

std::optional<double> Quantity::difference() const {
  if (!measured || !predicted) return std::nullopt;
  return *measured - *predicted;
}

bool Quantity::is_outside_interval() const {
  const auto off = difference();
  return off && std::abs(*off) > half_width;
}

std::vector<RankComparison> compare(const std::vector<RankRun>& ranks, const Prediction* prediction, const Most& most) {
  std::vector<RankComparison> rows;
  const std::map<std::string, int> sharing = ranks_by_device(ranks);
  for (const RankRun& rank : ranks) {
    if (rank.device < 0 || rank.peak_allocated == 0) continue;
    RankComparison row;
    row.rank = rank.rank;
    row.host = rank.host;
    row.total = rank.total;
    row.lasting = rank.has_lasting_peak() && !rank.oom;
    row.allocated.measured = static_cast<double>(rank.peak_allocated);
    row.reserved.measured = static_cast<double>(rank.peak_reserved);
    const std::string device = rank.host + "/" + (rank.uuid.empty() ? std::to_string(rank.device) : rank.uuid);
    if (rank.outside && sharing.at(device) == 1)
      row.outside.measured = static_cast<double>(std::max<std::int64_t>(0, *rank.outside - held_before(rank, most)));
    if (rank.rss_most > 0) row.resident.measured = static_cast<double>(rank.rss_most);
    row.seconds.measured = rank.step_seconds();
    row.headroom = rank.total - rank.peak_reserved - static_cast<std::int64_t>(row.outside.measured.value_or(0));
    row.fragmentation = 1 - static_cast<double>(rank.peak_allocated) /
                                static_cast<double>(std::max<std::int64_t>(1, rank.peak_reserved));
    if (prediction != nullptr) {
      row.pp_rank = pipeline_rank(prediction->job, rank.rank, rank.world);
      take_prediction(*prediction, row);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::int64_t> outliers(const std::vector<RankComparison>& rows, double share) {
  std::map<std::int64_t, std::vector<double>> peers;
  for (const RankComparison& row : rows) peers[row.pp_rank.value_or(0)].push_back(row.reserved.measured.value_or(0));
  std::vector<std::int64_t> found;
  for (const RankComparison& row : rows) {
    const std::vector<double>& same = peers[row.pp_rank.value_or(0)];
    if (same.size() > 2 && row.reserved.measured.value_or(0) > (1 + share) * median(same)) found.push_back(row.rank);
  }
  return found;
}

std::vector<std::string> differences(const std::vector<RankComparison>& rows, const std::vector<RankRun>& ranks,
                                     const Prediction* prediction) {
  std::vector<std::string> said;
  const auto worst = std::max_element(rows.begin(), rows.end(), [](const RankComparison& a, const RankComparison& b) {
    return std::abs(a.allocated.difference().value_or(0)) < std::abs(b.allocated.difference().value_or(0));
  });
  if (worst != rows.end() && worst->lasting && worst->allocated.is_outside_interval()) {
    const double off = *worst->allocated.difference();
    said.push_back(fmt::format("rank {} allocated {} against the prediction, outside its interval: {}", worst->rank,
                               signed_bytes(off),
                               off > 0 ? "something lives that the job does not say (longer sequences, another batch, "
                                         "buffers of your own); plimsoll read shows what was understood"
                                       : "the run does less than the job says: check batch, sequence length and "
                                         "recomputation in plimsoll read"));
  }
  for (const RankComparison& row : rows)
    if (row.lasting && row.reserved.is_outside_interval() && !row.allocated.is_outside_interval()) {
      said.push_back(
          fmt::format("rank {} reserved {} against the prediction while its tensors were as predicted: "
                      "fragmentation; plimsoll replay of a snapshot says which setting helps",
                      row.rank, signed_bytes(*row.reserved.difference())));
      break;
    }
  for (const RankComparison& row : rows)
    if (row.seconds.is_outside_interval()) {
      said.push_back(
          fmt::format("a step took {:.3f} s, predicted {:.3f} s", *row.seconds.measured, *row.seconds.predicted));
      break;
    }
  for (const RankRun& rank : ranks) {
    const Trend trend = trend_of(rank);
    if (!trend.rising) continue;
    said.push_back(fmt::format("rank {} grows by {} per step after the second: a leak, or ever longer batches",
                               rank.rank, format_bytes(trend.bytes_per_step)));
    break;
  }
  std::int64_t retries = 0;
  for (const RankRun& rank : ranks)
    if (!rank.oom) retries = std::max(retries, rank.retries);  // one that ran out gave it back in vain
  if (retries > 0)
    said.push_back(
        fmt::format("the allocator gave its cache back {} times to go on: steps wait for it, and the next "
                    "larger batch will not fit",
                    retries));
  if (prediction != nullptr && !ranks.empty()) {
    std::int64_t world = 0;
    for (const RankRun& rank : ranks) world = std::max(world, rank.world);
    if (world != prediction->job.cluster.gpus)
      said.push_back(fmt::format("the run had {} ranks, the job says {} GPUs", world, prediction->job.cluster.gpus));
  }
  if (const std::vector<std::int64_t> high = outliers(rows); !high.empty())
    said.push_back(fmt::format("rank {} holds more than its peers{}", high.front(),
                               high.size() > 1 ? fmt::format(", and {} others", high.size() - 1) : ""));
  return said;
}

}  // namespace plimsoll::live

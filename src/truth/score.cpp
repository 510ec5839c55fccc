// SPDX-License-Identifier: Apache-2.0
#include "truth/score.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "memory/answer.h"
#include "timing/step_time.h"

namespace plimsoll::truth {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

bool ScoredRow::is_inside() const { return std::abs(measured - predicted) <= half_width_pct / 100 * predicted; }

namespace {

// What a record measured cannot be: nothing, less than nothing, or less reserved than allocated.
std::string impossible(const Record& record) {
  const auto is_measured = [](double value) { return std::isfinite(value) && value > 0; };
  if (record.peak_allocated && *record.peak_allocated <= 0)
    return fmt::format("its measured peak_allocated is {}; wanted more than 0", *record.peak_allocated);
  if (record.peak_reserved && *record.peak_reserved <= 0)
    return fmt::format("its measured peak_reserved is {}; wanted more than 0", *record.peak_reserved);
  if (record.step_seconds && !is_measured(*record.step_seconds))
    return fmt::format("its measured step_seconds is {}; wanted more than 0", *record.step_seconds);
  if (!is_measured(record.host_speed))
    return fmt::format("its host_speed is {}; wanted more than 0, such as 0.5 for half as fast", record.host_speed);
  if (record.peak_allocated && record.peak_reserved && *record.peak_reserved < *record.peak_allocated)
    return "it contradicts itself: less was reserved than allocated";
  return {};
}

// What the host does, on one that is so much faster.
timing::Calibration on_host(timing::Calibration usual, double speed) {
  const auto set = [speed](timing::Device& device) {
    device.host_speed *= speed;
    device.host_is_measured = true;
  };
  set(usual.fallback);
  for (auto& [name, device] : usual.devices) set(device);
  return usual;
}

// Recordings of one name and rank whose memory differs: at most one is of the job on record. (Published throughputs
// share names between rows of a table.)
void skip_doubles(std::vector<Record>& records) {
  std::map<std::pair<std::string, std::int64_t>, std::size_t> seen;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!records[i].peak_allocated) continue;
    const auto [first, is_new] = seen.try_emplace({records[i].id, records[i].pp_rank}, i);
    if (is_new) continue;
    Record& other = records[first->second];
    if (other.peak_allocated == records[i].peak_allocated && other.peak_reserved == records[i].peak_reserved) continue;
    for (Record* record : {&other, &records[i]})
      if (record->skip.empty()) record->skip = "another record of the same name and rank measured something else";
  }
}

}  // namespace

FileScore score(RecordFile& file, const ScoreOptions& wanted) {
  FileScore result;
  skip_doubles(file.records);
  result.path = file.path;
  result.records = file.records.size();
  for (std::size_t i = 0; i < file.records.size(); ++i) {
    const Record& record = file.records[i];
    if (!record.skip.empty()) {
      result.skipped.push_back({record.id, record.skip});
      continue;
    }
    if (const std::string why = impossible(record); !why.empty()) {
      result.skipped.push_back({record.id, why});
      continue;
    }
    const auto add = [&](const char* quantity, double m, double p, double half_width) {
      if (m > 0) result.rows.push_back({record.id, quantity, m, p, (p - m) / m * 100, i, half_width / p * 100});
    };
    if (wanted.memory && (record.peak_allocated || record.peak_reserved)) {
      memory::AskedRanks asked;
      asked.pp = record.pp_rank;
      asked.alone = true;
      const auto answer = memory::answer(record.job, asked);
      if (!answer) {
        result.skipped.push_back({record.id, to_string(answer.error())});
        continue;
      }
      const memory::RankAnswer& rank = answer->ranks.front();
      add("peak_allocated", static_cast<double>(record.peak_allocated.value_or(0)),
          static_cast<double>(rank.peak_allocated), static_cast<double>(rank.spread.allocated));
      add("peak_reserved", static_cast<double>(record.peak_reserved.value_or(0)),
          static_cast<double>(rank.peak_reserved), static_cast<double>(rank.spread.reserved));
    }
    if (wanted.time && record.step_seconds) {
      timing::Options options;
      options.calibration = wanted.calibration;
      timing::Calibration other_host;
      if (record.host_speed != 1) {
        other_host =
            on_host(wanted.calibration != nullptr ? *wanted.calibration : timing::built_in(), record.host_speed);
        options.calibration = &other_host;
      }
      options.alone = !record.whole_job;
      options.rank = record.pp_rank;
      const auto time = timing::predict(record.job, options);
      if (!time) {
        result.skipped.push_back({record.id, to_string(time.error())});
        continue;
      }
      add("step_seconds", *record.step_seconds, time->seconds, (time->high - time->low) / 2);
    }
    ++result.scored;
  }
  return result;
}

Statistics statistics(const FileScore& score, const RecordFile& file, std::string_view quantity, std::string_view key,
                      std::string_view group) {
  std::vector<double> absolute;
  std::vector<double> with_sign;
  double inside = 0;
  double width = 0;
  for (const ScoredRow& row : score.rows) {
    if (row.quantity != quantity) continue;
    if (!key.empty()) {
      const auto& groups = file.records[row.record].groups;
      const auto found = groups.find(std::string(key));
      if ((found == groups.end() ? std::string_view("none") : std::string_view(found->second)) != group) continue;
    }
    absolute.push_back(std::abs(row.error_pct));
    with_sign.push_back(row.error_pct);
    inside += row.is_inside() ? 1 : 0;
    width += row.half_width_pct;
  }
  Statistics s;
  s.count = absolute.size();
  s.median_pct = quantile(absolute, 0.5);
  s.p90_pct = quantile(absolute, 0.9);
  s.max_pct = quantile(absolute, 1.0);
  s.signed_median_pct = quantile(with_sign, 0.5);
  const double count = std::max<double>(1, static_cast<double>(s.count));
  s.inside = inside / count;
  s.half_width_pct = width / count;
  return s;
}

}  // namespace plimsoll::truth

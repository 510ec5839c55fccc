// SPDX-License-Identifier: Apache-2.0
// How good the predictions are: every record predicted, errors by quantity and group.
#pragma once

#include <string>
#include <vector>

#include "timing/calibration.h"
#include "truth/record.h"

namespace plimsoll::truth {

struct ScoredRow {
  std::string id;
  std::string quantity;  // "peak_allocated", "peak_reserved", "step_seconds"
  double measured = 0;
  double predicted = 0;
  double error_pct = 0;       // signed: (predicted - measured) / measured * 100
  std::size_t record = 0;     // index into RecordFile::records
  double half_width_pct = 0;  // of the interval, of the predicted value
  [[nodiscard]] bool is_inside() const;
};

struct Statistics {
  std::size_t count = 0;
  double median_pct = 0;
  double p90_pct = 0;
  double max_pct = 0;
  double signed_median_pct = 0;
  double inside = 0;          // share of measured values inside their 90 % interval
  double half_width_pct = 0;  // of those intervals, mean
};

struct Skipped {
  std::string id;
  std::string reason;
};

struct FileScore {
  std::string path;
  std::size_t records = 0;
  std::size_t scored = 0;
  std::vector<Skipped> skipped;
  std::vector<ScoredRow> rows;
};

struct ScoreOptions {
  const timing::Calibration* calibration = nullptr;  // null: the built-in one
  bool memory = true;                                // predict peaks
  bool time = true;                                  // predict seconds
};

// Predicts every record that is not skipped.
[[nodiscard]] FileScore score(RecordFile& file, const ScoreOptions& wanted = {});

// Over the rows of one quantity (and, when group is not empty, of records whose groups[key] is group).
[[nodiscard]] Statistics statistics(const FileScore& score, const RecordFile& file, std::string_view quantity,
                                    std::string_view key = {}, std::string_view group = {});

// The q-quantile by nearest rank, 0 for an empty list.
[[nodiscard]] double quantile(std::vector<double> values, double q);

}  // namespace plimsoll::truth

// SPDX-License-Identifier: Apache-2.0
// What this machine reaches, measured, as the file that every verb takes for --calibration.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "measure/derive.h"
#include "measure/survey.h"

namespace plimsoll::answer {

struct CalibrateQuestion {
  int device = 0;
  bool quick = false;
  std::vector<std::string> libraries;  // folders to look into first
  std::string python = "python3";      // whose PyTorch the host is timed with
};

struct Calibrated {
  std::string gpu;  // id of the catalogue
  measure::Survey survey;
  measure::Derived derived;
};

using Fraction = std::function<void(double done, std::string_view what)>;

[[nodiscard]] Result<Calibrated> calibrate(const CalibrateQuestion& question, const Fraction& progress = {});

// The calibration file: values with their sources, then the times behind them.
[[nodiscard]] std::string to_json(const Calibrated& calibrated);

}  // namespace plimsoll::answer

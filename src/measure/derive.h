// SPDX-License-Identifier: Apache-2.0
// From times to the values of a calibration: the formulas that will use a value are fitted to what was measured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster.h"
#include "measure/survey.h"

namespace plimsoll::measure {

struct DerivedValue {
  std::string_view name;  // of timing::named_values() or named_device_values()
  double value = 0;
  double built_in = 0;
  double error_pct = -1;  // median of the formula against the times that it was fitted to; -1: it is such a time
  std::string source;
};

struct Derived {
  std::vector<DerivedValue> device;  // of this kind of GPU
  std::vector<DerivedValue> values;  // of the machine
};

[[nodiscard]] Derived derive(const Survey& survey, const cluster::Gpu& gpu);

// Rate and half depth that the formula of products needs to meet the times, and how far it then is from them.
struct ProductFit {
  double fraction = 0;    // of the peak; 0: nothing to fit to
  double half_depth = 0;  // elements
  double median_pct = 0;
};
// The half depth comes of products on a rested device (the built-in one where there are none, or where it is not
// wanted), the rate of those on a warm one (else of the same).
[[nodiscard]] ProductFit fit_products(const std::vector<ProductTime>& times, Format format, const cluster::Gpu& gpu,
                                      bool wants_depth);

}  // namespace plimsoll::measure

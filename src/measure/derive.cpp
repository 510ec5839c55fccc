// SPDX-License-Identifier: Apache-2.0
#include "measure/derive.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "timing/collectives.h"
#include "timing/kernels.h"

namespace plimsoll::measure {

namespace {

using timing::Calibration;
using timing::Device;
using timing::Machine;
using timing::Number;

Number number_of(Format format) {
  switch (format) {
    case Format::kBf16:
    case Format::kFp16:
      return Number::kBf16;
    case Format::kFp8:
      return Number::kFp8;
    case Format::kTf32:
      return Number::kTf32;
    case Format::kFp32:
      return Number::kFp32;
  }
  return Number::kBf16;
}

double output_bytes(Format format) { return format == Format::kTf32 || format == Format::kFp32 ? 4 : 2; }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Machine machine_of(const cluster::Gpu& gpu) {
  cluster::Cluster cluster;
  cluster.gpu = gpu;
  return {cluster, timing::built_in()};
}

double predicted(const Machine& machine, const ProductTime& time) {
  const Shape& s = time.shape;
  return timing::gemm_seconds(machine, number_of(time.format), static_cast<double>(s.rows),
                              static_cast<double>(s.columns), static_cast<double>(s.depth), output_bytes(time.format));
}

// Sets the rate at which the formula is right in the middle, and says how far off it then is.
double fit_rate(const std::vector<const ProductTime*>& rows, std::size_t at, Machine& machine) {
  const auto logs = [&] {
    std::vector<double> errors;
    for (const ProductTime* row : rows) errors.push_back(std::log(predicted(machine, *row) / row->seconds));
    return errors;
  };
  // Products that memory bounds do not follow the rate, so that the median is corrected more than once.
  for (int round = 0; round < 4; ++round) machine.gemm[at] *= std::exp(median(logs()));
  std::vector<double> sizes;
  for (const double error : logs()) sizes.push_back(std::abs(error));
  return median(sizes);
}

// Of copies on one route: bytes moved per second over the sizes that tensors of a layer have.
double rate_of(const Survey& survey, Route route, double moved_per_byte) {
  constexpr std::size_t kLayer = std::size_t{256} << 20;
  double bytes = 0;
  double seconds = 0;
  for (const CopyTime& copy : survey.copies) {
    if (copy.route != route || copy.bytes > kLayer) continue;
    bytes += moved_per_byte * static_cast<double>(copy.bytes);
    seconds += copy.seconds;
  }
  return seconds > 0 ? bytes / seconds : 0;
}

// What steps on many GPUs reach of products that run alone for long: the fitted rates of timing.json over those of the
// tables of ai-dynamo/aiconfigurator. H100, B200, GB200, B300 and GB300 have 0.858 to 0.874 in bf16. In FP8 Hopper's
// fitted rate over that of a warm H200, at depths of 4k to 8k; no steps in FP8 on one GPU are known.
constexpr double kInStep = 0.865;
constexpr double kInStepFp8 = 0.94;

class Derivation {
 public:
  Derivation(const Survey& survey, const cluster::Gpu& gpu)
      : survey_(survey), gpu_(gpu), machine_(machine_of(gpu)), device_(timing::device_of(timing::built_in(), gpu)) {}

  Derived run() {
    products();
    streams();
    host();
    messages();
    return std::move(derived_);
  }

 private:
  void put_device(std::string_view name, double value, double Device::* field, double error, std::string source) {
    derived_.device.push_back({name, value, device_.*field, error, std::move(source)});
  }
  void put_value(std::string_view name, double value, double Calibration::* field, std::string source) {
    derived_.values.push_back({name, value, timing::built_in().*field, -1, std::move(source)});
  }

  void products() {
    // A GPU whose built-in rates are those of steps on one of them, as its loss to the power limit shows; of others
    // they are those of steps on many.
    const bool is_single = device_.power > 0;
    const auto in_step = [&](double fraction, double share) { return is_single ? fraction : fraction * share; };
    const std::string of = is_single ? "measured on a warm device"
                                     : "measured on a warm device, times what steps on many GPUs reach of it";
    const Format half = half_format(survey_.device);
    if (const ProductFit fit = fit_products(survey_.products, half, gpu_, true); fit.fraction > 0) {
      put_device("gemm_bf16", in_step(fit.fraction, kInStep), &Device::gemm_bf16, fit.median_pct, of);
      put_device("half_depth_bf16", fit.half_depth, &Device::half_depth_bf16, fit.median_pct, "measured");
      if (is_single) put_device("power", 0, &Device::power, -1, "a warm device has lost it already");
    }
    if (const ProductFit fit = fit_products(survey_.products, Format::kFp8, gpu_, true); fit.fraction > 0) {
      const double value = fit.fraction * kInStepFp8;
      put_device("gemm_fp8", value, &Device::gemm_fp8, fit.median_pct,
                 "measured on a warm device, times what steps reach of it");
      put_device("gemm_mxfp8", value * device_.gemm_mxfp8 / device_.gemm_fp8, &Device::gemm_mxfp8, -1,
                 "gemm_fp8 times the built-in ratio of the two");
      put_device("half_depth_fp8", fit.half_depth, &Device::half_depth_fp8, fit.median_pct, "measured");
    }
    if (const ProductFit fit = fit_products(survey_.products, Format::kTf32, gpu_, false); fit.fraction > 0)
      put_device("gemm_tf32", in_step(fit.fraction, kInStep), &Device::gemm_tf32, fit.median_pct, of);
    if (const ProductFit fit = fit_products(survey_.products, Format::kFp32, gpu_, false); fit.fraction > 0)
      put_device("gemm_fp32", fit.fraction, &Device::gemm_fp32, fit.median_pct, "measured");
  }

  void streams() {
    constexpr double kReadAndWrite = 2;
    const double stream = rate_of(survey_, Route::kDevice, kReadAndWrite);
    if (stream > 0 && gpu_.rates.hbm > 0)
      put_device("stream", stream / gpu_.rates.hbm, &Device::stream, -1, "measured: copies of 32 to 128 MiB");
    if (survey_.small_kernel > 0)
      put_value("kernel_floor", survey_.small_kernel, &Calibration::kernel_floor,
                "measured: a copy of 128 KiB among others");
    const double to_device = rate_of(survey_, Route::kToDevice, 1);
    const double to_host = rate_of(survey_, Route::kToHost, 1);
    if (to_device > 0 && to_host > 0 && gpu_.rates.host_link > 0)
      put_value("host_link", std::min(to_device, to_host) / gpu_.rates.host_link, &Calibration::host_link,
                "measured: pinned memory, the slower direction");
  }

  // The built-in costs of a launch and of a module's call are of steps of the Trainer; passes of plain modules are that
  // much cheaper for their number (21 steps on an H200 that waited for their host, each timed beside the passes: 0.85,
  // 0.82 to 0.87 with any seven of them left out; docs/facts/step-time/changes.md 8b).
  void host() {
    constexpr double kPlain = 0.85;
    if (!survey_.host) return;
    const Calibration& built_in = timing::built_in();
    const double expected =
        survey_.host->launches * built_in.host_eager_kernel + survey_.host->weights * built_in.host_eager_module;
    put_device("host_speed", kPlain * expected / survey_.host->seconds(), &Device::host_speed, -1,
               fmt::format("measured: passes of plain modules, Python {}, PyTorch {}", survey_.host->python,
                           survey_.host->torch));
  }

  [[nodiscard]] const MessageTime* message(Collective collective, bool large) const {
    constexpr std::size_t kLarge = std::size_t{1} << 20;
    for (const MessageTime& time : survey_.messages)
      if (time.collective == collective && (time.bytes >= kLarge) == large) return &time;
    return nullptr;
  }

  // The formulas of timing/collectives.cpp, solved for what they divide by.
  void messages() {
    const double link = gpu_.rates.nvlink > 0 ? gpu_.rates.nvlink : gpu_.rates.host_link;
    const double n = survey_.devices;
    if (link <= 0 || n < 2) return;
    double latency = 0;
    if (const MessageTime* small = message(Collective::kAllReduce, false)) {
      latency = small->seconds / 2;
      put_value("latency_nvlink", latency, &Calibration::latency_nvlink, "measured: an all-reduce of 8 KiB");
    }
    const auto rate = [&](const MessageTime& time) {
      return (n - 1) / n * static_cast<double>(time.bytes) / std::max(1e-9, time.seconds - latency) / link;
    };
    if (const MessageTime* gather = message(Collective::kAllGather, true))
      put_value("nvlink", rate(*gather), &Calibration::nvlink, "measured: an all-gather of 256 MiB");
    if (const MessageTime* exchange = message(Collective::kAllToAll, true))
      put_value("all_to_all_nvlink", rate(*exchange), &Calibration::all_to_all_nvlink,
                "measured: an all-to-all of 256 MiB");
  }

  const Survey& survey_;
  const cluster::Gpu& gpu_;
  Machine machine_;
  const Device& device_;
  Derived derived_;
};

}  // namespace

ProductFit fit_products(const std::vector<ProductTime>& times, Format format, const cluster::Gpu& gpu,
                        bool wants_depth) {
  Machine machine = machine_of(gpu);
  const auto at = static_cast<std::size_t>(number_of(format));
  std::vector<const ProductTime*> rested;
  std::vector<const ProductTime*> warm;
  for (const ProductTime& time : times)
    if (time.format == format && time.seconds > 0) (time.warm ? warm : rested).push_back(&time);
  const std::vector<const ProductTime*>& rated = warm.empty() ? rested : warm;
  if (rated.empty()) return {};
  ProductFit best{0, machine.half_depth[at], 0};
  if (wants_depth && !rested.empty()) {
    constexpr double kStep = 10;
    constexpr double kDeepest = 1000;
    double least = 0;
    for (double depth = 0; depth <= kDeepest; depth += kStep) {
      machine.half_depth[at] = depth;
      const double error = fit_rate(rested, at, machine);
      if (depth > 0 && error >= least) continue;
      least = error;
      best.half_depth = depth;
    }
  }
  machine.half_depth[at] = best.half_depth;
  constexpr double kPercent = 100;
  best.median_pct = kPercent * fit_rate(rated, at, machine);
  best.fraction = machine.gemm[at] / machine.peak[at];
  return best;
}

Derived derive(const Survey& survey, const cluster::Gpu& gpu) { return Derivation(survey, gpu).run(); }

}  // namespace plimsoll::measure

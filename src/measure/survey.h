// SPDX-License-Identifier: Apache-2.0
// What a device, its host and its neighbours reach: plain times of products, copies, launches and messages, with the
// conditions under which they were taken. No model of anything is in here.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/cuda.h"
#include "measure/host.h"
#include "measure/management.h"
#include "measure/messages.h"
#include "measure/products.h"

namespace plimsoll::measure {

struct ProductTime {
  Format format = Format::kBf16;
  Pass pass = Pass::kForward;
  Shape shape;
  double seconds = 0;
  bool warm = false;  // after others without a pause, as in a step; else on a device that rested
};

enum class Route : std::uint8_t { kDevice, kFill, kToDevice, kToHost, kToDevicePageable, kToHostPageable };
[[nodiscard]] std::string name_of(Route route);

struct CopyTime {
  Route route = Route::kDevice;
  std::size_t bytes = 0;  // of the source: a copy on the device reads and writes as much
  double seconds = 0;
};

struct MessageTime {
  Collective collective = Collective::kAllReduce;
  std::size_t bytes = 0;
  double seconds = 0;
};

struct Survey {
  DeviceInfo device;
  int devices = 1;  // of this machine, of the same name
  int cuda = 0;     // version of the driver's interface: 13000
  Conditions idle;
  Conditions loaded;  // after seconds of matrix products
  std::string product_library;
  std::string message_library;
  std::vector<ProductTime> products;
  Products::Sustained sustained;  // seconds of one large product: at once, and after some seconds
  std::vector<CopyTime> copies;
  double launch = 0;             // seconds of the host for one launch
  double small_kernel = 0;       // seconds of the device for one small kernel among others
  std::optional<HostTime> host;  // Python and PyTorch on the host; none where they are not here
  std::vector<MessageTime> messages;
  std::vector<std::string> left_out;  // what was not measured, and why
  double took = 0;                    // seconds
};

struct SurveyOptions {
  int device = 0;
  bool quick = false;                                                // fewer shapes and no pauses
  std::vector<std::string> folders;                                  // where libraries lie
  std::string python = "python3";                                    // whose PyTorch the host is timed with; "": none
  std::function<void(double done, std::string_view what)> progress;  // done: 0 to 1
};

[[nodiscard]] Result<Survey> survey(const Cuda& cuda, const SurveyOptions& options);

// bf16 from Ampere on, fp16 before it.
[[nodiscard]] Format half_format(const DeviceInfo& device);

}  // namespace plimsoll::measure

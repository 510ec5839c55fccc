// SPDX-License-Identifier: Apache-2.0
// Any text as a calibration: read with finite values, or an error that says why not.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "timing/calibration.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > (1U << 16)) return 0;
  const std::string_view text{reinterpret_cast<const char*>(data) + 1, size - 1};
  const auto calibration = timing::read_calibration((data[0] & 1) != 0 ? "fuzz.toml" : "fuzz.json", text);
  if (!calibration) {
    if (calibration.error().message.empty()) std::abort();
    return 0;
  }
  for (const timing::NamedValue& value : timing::named_values())
    if (!std::isfinite((*calibration).*value.field)) std::abort();
  return 0;
}

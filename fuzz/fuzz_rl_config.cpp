// SPDX-License-Identifier: Apache-2.0
// Any bytes as the configuration of each post-training framework: keys that exist, or an error; never a crash or a
// hang. The first byte chooses the framework.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rl/frameworks/config.h"
#include "rl/frameworks/tools.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using plimsoll::rl::Framework;
  if (size == 0) return 0;
  constexpr Framework kAll[] = {Framework::kTelescope, Framework::kVerl, Framework::kOpenRlhf, Framework::kNemoRl,
                                Framework::kPrimeRl};
  const Framework framework = kAll[data[0] % 5];
  const std::string_view text{reinterpret_cast<const char*>(data + 1), size - 1};
  static_cast<void>(plimsoll::rl::recognise_config(text));
  if (const auto tool = plimsoll::rl::recognise_tool(text))
    if (const auto read = plimsoll::rl::read_tool_settings(*tool, "run", text, {{"gpus", "8"}}); read && size < 4096)
      static_cast<void>(plimsoll::rl::read_run(std::nullopt, read->settings));
  const auto config = plimsoll::rl::read_config_settings(framework, "run", text);
  if (!config) return 0;
  if (config->settings.empty() || config->settings[0].first != "framework") std::abort();
  // The whole way is slower, and only interesting for inputs that could be real.
  if (size < 4096) static_cast<void>(plimsoll::rl::read_config(framework, "run", text));
  return 0;
}

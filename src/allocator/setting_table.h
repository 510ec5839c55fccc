// SPDX-License-Identifier: Apache-2.0
// Every setting of PYTORCH_CUDA_ALLOC_CONF once: how it is read, written and tried. The parser, the printer, the
// guesses for misspelt names, the recorded settings of a snapshot, what replay tries and the documents read these rows.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "allocator/settings.h"
#include "base/result.h"

namespace plimsoll::allocator {

struct Setting {
  std::string_view name;
  Version since{2, 1};   // the first release that has it; an older one refuses the name
  std::string_view doc;  // what it does, in a line

  // Puts the value into the settings; null: the name is known, and no size depends on it.
  Status (*parse)(std::string_view name, std::string_view value, Settings& settings) = nullptr;
  // The value as one would write it; "" where it is the default.
  std::string (*print)(const Settings& settings) = nullptr;

  // Its key in the allocator_settings of a snapshot, and how the value there is read where it is not as in `parse`.
  std::string_view recorded_as{};
  Status (*parse_recorded)(std::string_view name, std::string_view value, Settings& settings) = nullptr;

  // Values that `replay --what-if` shows, those that `--tune` searches, and the one that is tried beside others;
  // comma-separated.
  std::string_view to_show{};
  std::string_view to_search{};
  std::string_view to_combine{};
  bool needs_fraction = false;    // acts only where a memory fraction is set
  std::string_view not_beside{};  // a setting with which it is never proposed (a defect of PyTorch)
};

[[nodiscard]] std::span<const Setting> setting_table();

// Null where nobody knows the name.
[[nodiscard]] const Setting* find_setting(std::string_view name);

}  // namespace plimsoll::allocator

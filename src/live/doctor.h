// SPDX-License-Identifier: Apache-2.0
// What this machine has, and which verbs would not work on it.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::live {

enum class Health { kGood, kLimited, kMissing };

struct Finding {
  std::string what;   // "NVIDIA driver"
  std::string found;  // "2 x NVIDIA H200, 139.8 GiB"; what was looked for where nothing was
  Health health = Health::kGood;
  std::string means;  // what does not work, and what to do; "" where all is well
};

struct Checkup {
  std::vector<Finding> findings;
  // Nothing is missing that every verb needs; what only some need may be.
  [[nodiscard]] bool sound() const;
};

struct CheckupOptions {
  std::string python = "python3";  // whose PyTorch would be used
  std::string root = "/";          // stands for the machine's root, for tests
};

[[nodiscard]] Checkup examine(const CheckupOptions& options);
[[nodiscard]] std::string to_json(const Checkup& checkup);

}  // namespace plimsoll::live

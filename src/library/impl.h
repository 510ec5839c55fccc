// SPDX-License-Identifier: Apache-2.0
// What stands behind the public types, and the way from our errors to theirs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/plimsoll.h>

#include "answer/input.h"
#include "cli/console.h"

namespace plimsoll::api {

struct Job::Impl {
  job::Request request;
};

struct World::Impl {
  lever::World world;
};

// JSON and text are made when they are asked for: most callers of many answers want figures alone.
struct Answer::Impl {
  bool yes = false;
  std::vector<std::string> warnings;
  std::function<std::string()> json;
  std::function<std::string(const cli::Console&)> text;
};

[[nodiscard]] Error outside(const plimsoll::Error& error);
[[nodiscard]] answer::Input input_of(const std::vector<std::string>& files, const Options& options);

// The answer `value`, with what makes its JSON and what makes its text.
template <class T, class Json, class Report>
[[nodiscard]] std::shared_ptr<const Answer::Impl> hold(bool yes, std::vector<std::string> warnings, T value, Json json,
                                                       const Report& report) {
  auto shared = std::make_shared<const T>(std::move(value));
  return std::make_shared<const Answer::Impl>(
      Answer::Impl{yes, std::move(warnings), [shared, json] { return json(*shared); },
                   [shared, report](const cli::Console& console) { return report(*shared, console); }});
}

}  // namespace plimsoll::api

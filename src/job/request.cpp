// SPDX-License-Identifier: Apache-2.0
#include "job/request.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "job/draft.h"
#include "job/keys.h"
#include "job/readers/resolve.h"

namespace plimsoll::job {

namespace {

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Request::Request()
    : files_(std::make_shared<const std::vector<InputFile>>()), drafts_(std::make_shared<const std::vector<Draft>>()) {}

void Request::name_model(const std::string& name) {
  options_.model = name;
  named_model_ = std::make_shared<const Result<Draft>>(find_model_or_file(name, "."));
}

Request Request::with(const Settings& settings) const {
  Request next = *this;
  for (const auto& [key, value] : settings) {
    const std::string name = canonical_name(key);
    if (name == "model") {
      next.name_model(value);
      continue;
    }
    if (name == "framework") {
      if (const auto framework = from_name<Framework>(value)) {
        next.options_.framework = framework;
        continue;
      }
    }
    std::erase_if(next.options_.overrides, [&name](const auto& given) { return canonical_name(given.first) == name; });
    if (name == "gpu") next.options_.gpu = value;
    if (name == "gpus") next.options_.gpus = whole_number(value);
    const bool is_option = name == "gpu" || (name == "gpus" && next.options_.gpus);
    if (!is_option) next.options_.overrides.emplace_back(key, value);
  }
  return next;
}

bool Request::sets(std::string_view key) const { return decided_by_option(options_, canonical_name(key)); }

}  // namespace plimsoll::job

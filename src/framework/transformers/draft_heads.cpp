// SPDX-License-Identifier: Apache-2.0
// Names as in Medusa, EAGLE, SpecForge and the speculators of fms-fsdp.
#include "framework/transformers/draft_heads.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "job/keys.h"
#include "job/readers/parse.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

bool starts_with_any(std::string_view word, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [word](std::string_view start) { return word.starts_with(start); });
}

// "draft_model_config", "medusa_num_heads", "speculator_width"; "strategy: eagle3".
bool speaks_of_drafts(std::string_view path, const Node& value) {
  const std::string last =
      replace(lower(path.substr(path.rfind('.') == std::string_view::npos ? 0 : path.rfind('.') + 1)), '-', '_');
  if (starts_with_any(last, {"draft_model", "draft_config", "draft_vocab", "medusa_", "speculator_"})) return true;
  const bool chooses = last == "strategy" || last == "method" || last == "algorithm" || last == "training_type";
  return chooses && value.is_string() && starts_with_any(lower(value.text), {"eagle", "medusa"});
}

}  // namespace

Status refuse_draft_heads(const Node& root) {
  std::string found;
  for_each_leaf(root, [&found](const std::string& path, const Node& value) {
    if (found.empty() && !value.is_null() && !is_off(value) && speaks_of_drafts(path, value)) found = path;
  });
  if (found.empty()) return {};
  return bad_input(fmt::format("{}: heads or a small model for speculative decoding are trained beside a frozen model, "
                               "which is not modelled",
                               found),
                   "describe the small model as a job of its own with its config.json, and the large one as a server");
}

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
#include "cli/job_keys.h"

#include <algorithm>

#include "job/read.h"

namespace plimsoll::cli {

namespace {

// Whether a job takes this value under this key.
bool takes(std::string_view key, const document::Node& value) {
  job::Job scratch = job::defaults_for(job::Framework::kMegatronLm);
  return job::set_key(scratch, key, value).has_value();
}

document::Node truth() {
  document::Node node;
  node.kind = document::Node::Kind::kBool;
  node.boolean = true;
  return node;
}

// A switch takes a truth and not just any word; a key that holds free text takes both.
KeyKind kind_of(std::string_view key) {
  const std::vector<std::string>& names = job::key_names();
  if (takes(key, truth()) && !takes(key, document::parse_scalar("some-word"))) return KeyKind::kSwitch;
  if (std::find(names.begin(), names.end(), key) != names.end()) return KeyKind::kValue;
  // Aliases of other frameworks are not among the names; they take one of these.
  for (const std::string_view sample : {"1", "0.5", "some-word", "bf16", "1GiB"})
    if (takes(key, document::parse_scalar(sample))) return KeyKind::kValue;
  return KeyKind::kUnknown;
}

}  // namespace

KeySet job_keys() { return {kind_of, job::key_names()}; }

}  // namespace plimsoll::cli

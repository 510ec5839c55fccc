// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/text.h"
#include "job/read.h"
#include "job/readers/megatron_flags.h"
#include "job/readers/resolve.h"
#include "model/hf_config.h"
#include "model/safetensors_index.h"

namespace plimsoll::job {

using document::Node;

Result<Node> parse_json_or_yaml(std::string_view text) {
  const std::string_view start = trim(text);
  return !start.empty() && start.front() == '{' ? document::parse_json(text) : document::parse_yaml(text);
}

Status resolve_auto(Joined&) { return {}; }

Result<FileKind> recognise(const InputFile& file) {
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  if (const Node* args = root.find("args"); args != nullptr && args->is_object()) return FileKind::kMegatronArgs;
  if (model::looks_like_safetensors_index(root)) return FileKind::kSafetensorsIndex;
  if (model::looks_like_hf_config(root)) return FileKind::kHfConfig;
  return bad_input("not recognised");
}

}  // namespace plimsoll::job

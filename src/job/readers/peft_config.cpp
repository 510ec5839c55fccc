// SPDX-License-Identifier: Apache-2.0
// PEFT's adapter_config.json (facts other-frameworks-memory.md 3.1).
#include <fmt/format.h>

#include "base/text.h"
#include "job/draft.h"
#include "job/keys.h"
#include "job/readers/include.h"
#include "job/readers/parse.h"
#include "job/value.h"
#include "model/catalog.h"

namespace plimsoll::job {

using document::Node;

Status read_targets(const Node& value, std::string_view written_as, Draft& draft) {
  if (value.is_null()) {
    draft.assign("lora_target_modules", text_node("q_proj v_proj"), written_as, true);
    draft.warnings.push_back(
        fmt::format("{}: not given; PEFT's choice for Llama-like models, q_proj and v_proj, is counted", written_as));
    return {};
  }
  if (value.is_string() && value.text.find_first_of("*()|\\^$") != std::string::npos)
    return bad_input(fmt::format("{}: {} is a pattern; name the modules instead", written_as, shown(value)));
  draft.assign("lora_target_modules", value, written_as);
  return {};
}

Result<Draft> read_peft_config(const InputFile& file) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kPeftConfig;
  draft.vocabulary = Framework::kTransformers;
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  if (!root.is_object()) return bad_input("wanted a table of PEFT keys");
  const Node* type = root.find("peft_type");
  if (type == nullptr || !type->is_string() || !equals_ignoring_case(type->text, "LORA"))
    return bad_input(
        fmt::format("peft_type: found {}; only LORA is modelled", type == nullptr ? "nothing" : shown(*type)));
  bool is_dora = false;
  for (const auto& [key, value] : root.members) {
    if (key == "peft_type" || key == "target_modules" || value.is_null()) continue;
    if (key == "use_dora") {
      PLIMSOLL_TRY(on, to_bool(value));
      is_dora = on;
    } else if (key == "base_model_name_or_path") {
      if (!value.is_string()) continue;
      if (auto model = model::find_model(value.text)) draft.model = *std::move(model);
      draft.model_is_weak = true;
    } else {
      draft.assign(key, value);
    }
  }
  draft.assign("peft", text_node(is_dora ? "dora" : "lora"), "peft_type");
  const Node* targets = root.find("target_modules");
  PLIMSOLL_TRY_STATUS(read_targets(targets == nullptr ? Node{} : *targets, "target_modules", draft));
  return draft;
}

}  // namespace plimsoll::job

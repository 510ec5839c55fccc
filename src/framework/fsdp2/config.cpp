// SPDX-License-Identifier: Apache-2.0
// The FSDP section of accelerate and of TrainingArguments (facts other-frameworks-memory.md 6.2, 6.3).
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/transformers/include.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

constexpr std::string_view kFsdp2WithoutEffect[] = {"transformer_layer_cls_to_wrap",
                                                    "transformer_cls_names_to_wrap",
                                                    "cpu_ram_efficient_loading",
                                                    "sync_module_states",
                                                    "use_orig_params",
                                                    "limit_all_gathers",
                                                    "min_num_params",
                                                    "xla",
                                                    "xla_fsdp_v2",
                                                    "xla_fsdp_settings",
                                                    "xla_fsdp_grad_ckpt",
                                                    "ignored_modules",
                                                    "mixed_precision_policy",
                                                    "cpu_efficient_loading"};

std::string_view without_prefix(std::string_view key) {
  constexpr std::string_view kPrefix = "fsdp_";
  return key.substr(0, kPrefix.size()) == kPrefix ? key.substr(kPrefix.size()) : key;
}

// FULL_SHARD, SHARD_GRAD_OP, ... of FSDP1; a number in old files (1 is FULL_SHARD).
Status read_strategy(const Node& value, std::string_view key, bool is_version_2, Draft& draft) {
  PLIMSOLL_TRY(word, to_word(value));
  const std::string name = lower(word);
  const auto reshard = [&](bool on) { draft.assign("reshard_after_forward", bool_node(on), key); };
  if (name == "full_shard" || name == "1" || name == "true") {
    reshard(true);
  } else if (name == "shard_grad_op" || name == "2" || name == "false") {
    reshard(false);
  } else if (name == "no_shard" || name == "3") {
    if (is_version_2) return bad_input(fmt::format("{}: NO_SHARD is only available with FSDP1", key));
    draft.assign("sharding", text_node("ddp"), key);
  } else if (name == "hybrid_shard" || name == "4" || name == "hybrid_shard_zero2" || name == "5") {
    if (is_version_2) return bad_input(fmt::format("{}: hybrid_shard is only available with FSDP1", key));
    reshard(name == "hybrid_shard" || name == "4");
    draft.assign("shard_within_node", bool_node(true), key);
  } else {
    return bad_input(fmt::format("{}: found {}, wanted FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or a boolean",
                                 key, shown(value)));
  }
  return {};
}

}  // namespace

Status read_fsdp_config(const Node& table, const FsdpOptions& options, Draft& draft) {
  const auto find = [&table](std::string_view name) -> const Node* {
    for (const auto& [key, value] : table.members)
      if (without_prefix(key) == name && !value.is_null()) return &value;
    return nullptr;
  };
  int version = options.default_version;
  if (const Node* given = find("version"); given != nullptr) {
    auto number = to_integer(*given, Range{1, 2});
    if (!number) return bad_input(fmt::format("fsdp_version: {}", number.error().message));
    version = static_cast<int>(*number);
  }
  draft.assign("sharding", text_node(version == 2 ? "fsdp2" : "fsdp1"), "fsdp_version");
  draft.assign("fsdp_units", text_node(options.wraps_by_default ? "accelerate" : "whole-model"),
               "fsdp_auto_wrap_policy");
  // accelerate skips gradient synchronisation while it accumulates.
  draft.assign("sync_each_micro_batch", bool_node(false), "fsdp_config", true);
  std::vector<std::string> known = {"version",          "reshard_after_forward", "sharding_strategy",
                                    "auto_wrap_policy", "offload_params",        "activation_checkpointing",
                                    "forward_prefetch", "backward_prefetch",     "state_dict_type"};
  for (const std::string_view name : kFsdp2WithoutEffect) known.emplace_back(name);
  for (const auto& [key, value] : table.members) {
    const std::string_view name = without_prefix(key);
    if (value.is_null() || name == "version") continue;
    if (name == "reshard_after_forward" || name == "sharding_strategy") {
      PLIMSOLL_TRY_STATUS(read_strategy(value, key, version == 2, draft));
    } else if (name == "auto_wrap_policy") {
      PLIMSOLL_TRY(policy, to_word(value));
      const std::string wanted = lower(policy);
      if (wanted != "no_wrap" && wanted != "transformer_based_wrap" && wanted != "size_based_wrap")
        return bad_input(
            fmt::format("{}: found '{}', wanted TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP or NO_WRAP", key, policy));
      if (wanted == "size_based_wrap")
        draft.warnings.push_back(fmt::format("{}: units by size are counted as one unit per layer", key));
      draft.assign("fsdp_units", text_node(wanted == "no_wrap" ? "whole-model" : "accelerate"), key);
    } else if (name == "offload_params" || name == "cpu_offload") {
      draft.assign("fsdp_cpu_offload", value, key);
    } else if (name == "activation_checkpointing") {
      draft.assign("fsdp_activation_checkpointing", value, key);
      draft.assign("gradient_checkpointing", value, key, !value.is_bool() || !value.boolean);
    } else if (name == "state_dict_type") {
      // LOCAL_STATE_DICT is every rank's own part, too; old files have numbers (1 is FULL_STATE_DICT).
      PLIMSOLL_TRY(word, to_word(value));
      const std::string kind = lower(word);
      const bool is_full = kind == "full_state_dict" || kind == "1";
      draft.assign("state_dict_type", text_node(is_full ? "full" : "sharded"), key);
    } else if (name == "forward_prefetch") {
      if (is_off(value)) continue;
      if (version == 2) return bad_input(fmt::format("{}: FSDP2 has no forward prefetch", key));
      draft.warnings.push_back(fmt::format("{}: one more gathered unit is not counted", key));
    } else if (name == "backward_prefetch" || name == "backward_prefetch_policy") {  // accelerate before 0.25
      if (version == 1 && !is_off(value))
        draft.warnings.push_back(fmt::format("{}: units gathered ahead in backward are counted as FSDP2 does", key));
    } else if (std::find(std::begin(kFsdp2WithoutEffect), std::end(kFsdp2WithoutEffect), name) ==
               std::end(kFsdp2WithoutEffect)) {
      const std::string near = nearest(name, known);
      if (!near.empty())
        return bad_input(fmt::format("unknown key '{}' of an FSDP configuration", key),
                         fmt::format("did you mean 'fsdp_{}'?", near));
      draft.assign("fsdp_config." + key, value);
    }
  }
  return {};
}

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's JSON: ZeRO stages, offload, buckets. "auto" is left for TrainingArguments or for the model's
// width (resolve_auto).
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/deepspeed/deepspeed.h"
#include "framework/transformers/include.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

// "${batch_size}": what another file fills in is open in the same way.
bool is_auto(const Node& value) {
  return value.is_string() && (value.text == "auto" || (value.text.starts_with("${") && value.text.ends_with('}')));
}

Status read_optimizer(const Node& table, Draft& draft) {
  const Node* type = table.find("type");
  if (type == nullptr || is_auto(*type)) return {};
  PLIMSOLL_TRY(name, to_word(*type));
  const std::string kind = lower(name);
  if (kind == "adam" || kind == "adamw" || kind == "fusedadam" || kind == "deepspeedcpuadam" || kind == "cpuadam") {
    draft.assign("optimizer", text_node("adam"), "optimizer.type");
  } else if (kind == "lion" || kind == "fusedlion" || kind == "sgd" || kind == "muon" || kind == "adafactor") {
    draft.assign("optimizer", text_node(kind == "fusedlion" ? "lion" : kind), "optimizer.type");
  } else {
    return bad_input(fmt::format("optimizer.type: the optimizer '{}' is not modelled", name),
                     "modelled are Adam, AdamW, Lion, SGD, Muon and Adafactor");
  }
  return {};
}

}  // namespace

Result<Draft> read_deepspeed_tree(const Node& root, const std::string& path) {
  Draft draft;
  draft.path = path;
  draft.kind = FileKind::kDeepSpeedConfig;
  draft.is_filled_in_by_others = true;
  draft.vocabulary = Framework::kDeepSpeed;
  draft.framework = Framework::kDeepSpeed;
  if (!root.is_object()) return bad_input("wanted a table of DeepSpeed keys");
  if (const Node* optimizer = root.find("optimizer"); optimizer != nullptr && optimizer->is_object())
    PLIMSOLL_TRY_STATUS(read_optimizer(*optimizer, draft));
  for_each_leaf(root, [&draft](const std::string& key, const Node& value) {
    if (key == "zero_optimization" && value.is_bool()) {  // the oldest form
      draft.assign("zero_stage", integer_node(value.boolean ? 1 : 0), key);
      return;
    }
    if (key == "zero_optimization.cpu_offload" || key == "zero_optimization.cpu_offload_params") {
      if (!is_off(value))
        draft.assign(key.back() == 's' ? "offload_param_device" : "offload_optimizer_device", text_node("cpu"), key);
      return;
    }
    // Files without offload carry a 0 that nothing reads.
    if (key == "zero_optimization.sub_group_size" && is_off(value)) return;
    draft.assign(key, value, key, is_auto(value));
  });
  return draft;
}

namespace {

// "ds_config_zero2.json", "zero_stage3_offload.json", "ds_z3_config.json": the stage that the name of a file says.
std::optional<int> stage_in_name(std::string_view path) {
  const std::string name = lower(path.substr(path.rfind('/') + 1));
  for (const std::string_view word : {"zero", "stage", "ds_z", "_z"}) {
    std::size_t at = name.find(word);
    if (at == std::string::npos) continue;
    for (at += word.size(); at < name.size() && (name[at] == '_' || name[at] == '-');) ++at;
    if (name.compare(at, 5, "stage") == 0) at += 5;
    const bool ends = at + 1 >= name.size() || name[at + 1] < '0' || name[at + 1] > '9';
    if (at < name.size() && name[at] >= '0' && name[at] <= '3' && ends) return name[at] - '0';
  }
  return std::nullopt;
}

// A file that is not at hand leaves the stage open, unless its name says it.
Draft draft_of_missing_file(const std::string& name, Error error) {
  Draft draft;
  draft.path = name;
  draft.kind = FileKind::kDeepSpeedConfig;
  draft.is_filled_in_by_others = true;
  draft.vocabulary = Framework::kDeepSpeed;
  draft.framework = Framework::kDeepSpeed;
  if (const std::optional<int> stage = stage_in_name(name)) {
    draft.assign("zero_stage", integer_node(*stage), "its name");
    const std::string words = lower(name.substr(name.rfind('/') + 1));
    const bool says_no = words.find("no_offload") != std::string::npos || words.find("no-offload") != std::string::npos;
    const bool offloads = *stage > 0 && !says_no && words.find("offload") != std::string::npos;
    if (offloads) draft.assign("offload_optimizer_device", text_node("cpu"), "its name");
    if (offloads && *stage == 3) draft.assign("offload_param_device", text_node("cpu"), "its name");
    draft.warnings.push_back(
        fmt::format("{}: the file is not here; ZeRO stage {} is taken from its name, {} "
                    "offload and with DeepSpeed's own buckets",
                    name, *stage, offloads ? "with" : "without"));
    return draft;
  }
  draft.assignments.push_back(
      {"zero_stage", Node{}, name, false, fmt::format("{}; give the file, or --zero-stage", error.message)});
  return draft;
}

}  // namespace

Result<Draft> include_deepspeed_file(const std::string& name, const std::string& folder) {
  auto located = locate(name, folder);
  if (!located) return draft_of_missing_file(name, std::move(located.error()));
  const std::string path = *std::move(located);
  PLIMSOLL_TRY(text, read_named_file(path));
  auto root = parse_json_or_yaml(text);
  if (!root) return tl::make_unexpected(std::move(root.error()).with_context(path));
  auto draft = read_deepspeed_tree(*root, path);
  if (!draft) return tl::make_unexpected(std::move(draft.error()).with_context(path));
  return draft;
}

Result<Draft> read_deepspeed_config(const InputFile& file, const ReadOptions& /*options*/) {
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  return read_deepspeed_tree(root, file.path);
}

namespace {

// A value that TrainingArguments would fill in, where none are given: what they have when nobody sets them, and of the
// two 16-bit formats the one that is trained in today. False where the size is the user's to say.
bool assume_for_auto(Assignment& assignment, bool has_bf16, Joined& joined) {
  const auto note = [&](std::string_view what) {
    joined.notes.push_back(fmt::format("{}: \"auto\", and no TrainingArguments are given: {}", assignment.where, what));
  };
  if (assignment.key == "bf16" || (assignment.key == "fp16" && !has_bf16)) {
    note(has_bf16 ? "bf16 is assumed (--fp16 changes that)" : "fp16 is assumed (--bf16 changes that)");
    assignment.value = bool_node(true);
  } else if (assignment.key == "fp16") {
    assignment.value = bool_node(false);
  } else if (assignment.key == "gradient_accumulation_steps") {
    note("no accumulation is assumed (--gradient-accumulation-steps)");
    assignment.value = integer_node(1);
  } else if (assignment.key == "clip_grad") {
    assignment.value = real_node(1.0);
  } else if (assignment.key == "global_batch_size") {
    assignment.key.clear();  // what micro-batch, accumulation and ranks make
  } else {
    return false;
  }
  return true;
}

}  // namespace

// What Transformers fills in (facts other-frameworks-memory.md 5.2): buckets from the hidden size, and
// everything else from its TrainingArguments.
Status resolve_auto(Joined& joined, const ReadOptions& options) {
  const bool has_arguments =
      std::find(joined.kinds.begin(), joined.kinds.end(), FileKind::kTrainingArguments) != joined.kinds.end();
  std::int64_t hidden = joined.model.hidden;
  for (const Assignment& assignment : joined.assignments)
    if (assignment.key == "hidden_size" && assignment.value.is_integer()) hidden = assignment.value.integer;
  const bool has_bf16 = std::any_of(joined.assignments.begin(), joined.assignments.end(),
                                    [](const Assignment& given) { return given.key == "bf16"; });
  std::vector<Assignment> resolved;
  for (Assignment& assignment : joined.assignments) {
    if (!is_auto(assignment.value) || assignment.key == "attention_backend") {
      resolved.push_back(std::move(assignment));
      continue;
    }
    const bool is_bucket = assignment.key == "reduce_bucket_size" || assignment.key == "stage3_prefetch_bucket_size" ||
                           assignment.key == "stage3_param_persistence_threshold";
    if (is_bucket) {
      if (hidden < 1 || hidden > (1 << 20))
        return tl::make_unexpected(Error{Code::kBadInput,
                                         "\"auto\" needs the hidden size of the model, which is not known",
                                         {assignment.where},
                                         "name the model with --model or give its config.json, or give a number"});
      const std::int64_t square = hidden * hidden;
      assignment.value = integer_node(assignment.key == "reduce_bucket_size"            ? square
                                      : assignment.key == "stage3_prefetch_bucket_size" ? square * 9 / 10
                                                                                        : 10 * hidden);
      resolved.push_back(std::move(assignment));
    } else if ((assignment.key == "fp16" || assignment.key == "bf16") &&
               (decided_by_option(options, "bf16") || decided_by_option(options, "fp16"))) {
      // The one that is given turns the other off.
    } else if (!has_arguments && !decided_by_option(options, assignment.key)) {
      if (assume_for_auto(assignment, has_bf16, joined)) {
        if (!assignment.key.empty()) resolved.push_back(std::move(assignment));
        continue;
      }
      return tl::make_unexpected(Error{Code::kBadInput,
                                       "\"auto\" is filled in from TrainingArguments, which are not given",
                                       {assignment.where},
                                       fmt::format("give that file, or --{}", replace(assignment.key, '_', '-'))});
    }
  }
  joined.assignments = std::move(resolved);
  return {};
}

bool is_deepspeed(const Node& root) {
  const Node* half = root.find("bf16");
  if (half == nullptr) half = root.find("fp16");
  return has_any(root, {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size",
                        "zero_allow_untested_optimizer"}) ||
         is_table(half);
}

}  // namespace plimsoll::job

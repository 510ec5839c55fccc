// SPDX-License-Identifier: Apache-2.0
// Sharding in common words: a ZeRO stage, a DeepSpeed file, Lightning's strategies, FSDP and its kinds.
#include "framework/tools/by_names_sayings.h"

namespace plimsoll::job {

namespace {

Node on_host() {
  Node device;
  device.kind = Node::Kind::kObject;
  device.members.emplace_back("device", text_node("cpu"));
  return device;
}

// Lightning's "deepspeed" (stage 2), "deepspeed_stage_3", "deepspeed_stage_3_offload"; nothing for other words.
std::optional<Node> lightning_deepspeed(std::string_view word) {
  constexpr std::string_view kStart = "deepspeed";
  if (!word.starts_with(kStart)) return std::nullopt;
  const std::size_t at = word.find("stage_");
  const char digit = at == std::string_view::npos || at + 6 >= word.size() ? '2' : word[at + 6];
  if (digit < '1' || digit > '3') return std::nullopt;
  Node zero, config;
  zero.kind = config.kind = Node::Kind::kObject;
  zero.members.emplace_back("stage", integer_node(digit - '0'));
  if (word.ends_with("_offload")) {
    zero.members.emplace_back("offload_optimizer", on_host());
    if (digit == '3') zero.members.emplace_back("offload_param", on_host());
  }
  config.members.emplace_back("zero_optimization", std::move(zero));
  return config;
}

}  // namespace

void read_sharding(Sayings& sayings) {
  if (const Said* stage = sayings.find("zero_stage"); stage != nullptr) {
    Node zero, config;
    zero.kind = config.kind = Node::Kind::kObject;
    zero.members.emplace_back("stage", stage->value);
    for (Said& said : sayings.said())
      if (said.path.ends_with("adam_offload") && !is_off(said.value)) {
        zero.members.emplace_back("offload_optimizer", on_host());
        said.done = true;
      }
    config.members.emplace_back("zero_optimization", std::move(zero));
    sayings.put("deepspeed", std::move(config), stage->path);
    sayings.pass("deepspeed");
    return;
  }
  // "--deepspeed --deepspeed_config ds.json": the switch says less than the file.
  for (const Said* named : sayings.all("deepspeed"))
    if (named->value.is_string()) {
      sayings.put("deepspeed", named->value, named->path);
      sayings.pass("fsdp");
      return;
    }
  // "engine: {name: deepspeed, config: zero3.json}": a file that is one of DeepSpeed's by its name.
  for (Said& said : sayings.said()) {
    if (said.done || !said.value.is_string() || !said.value.text.ends_with(".json")) continue;
    const std::string name = lower(said.value.text.substr(said.value.text.rfind('/') + 1));
    const bool is_engine = name.starts_with("ds_") || contains_any(name, {"zero", "deepspeed", "stage_"}) ||
                           contains_any(lower(said.value.text), {"deepspeed/"});
    if (!is_engine || meaning_of(said.path) == "elsewhere") continue;
    said.done = true;
    sayings.put("deepspeed", said.value, said.path);
    sayings.pass("fsdp");
    return;
  }
  for (const Said* said : sayings.all("fsdp"))
    if (auto config = lightning_deepspeed(lower(document::to_text(said->value)))) {
      sayings.put("deepspeed", *std::move(config), said->path);
      return;
    }
  std::string strategy;
  int version = 2;
  bool shards = sayings.any_segment("fsdp");
  for (const Said* said : sayings.all("fsdp")) {
    const std::string word = lower(document::to_text(said->value));
    // A strategy may be one of many things; those of sharding say so.
    const bool names_sharding = contains_any(word, {"fsdp", "sdp", "shard", "ddp", "zero"});
    const bool is_open = said->path.ends_with("strategy") || said->path.ends_with("data_parallel");
    if (is_open && !names_sharding) continue;
    if (is_off(said->value) || word == "ddp" || word == "no_shard") {
      if (meaning_of(said->path) == "fsdp" && word != "") shards = false;
      continue;
    }
    shards = true;
    if (contains_any(word, {"fsdp1"})) version = 1;
    for (const std::string_view known : {"hybrid_shard", "shard_grad_op", "full_shard"})
      if (word == known) strategy = word;
    if (word == "sdp") strategy = "shard_grad_op";  // of optimizer states and gradients alone
  }
  if (const Said* stage = sayings.find("shard_stage"); stage != nullptr) {
    const std::string word = document::to_text(stage->value);
    shards = word == "1" || word == "2" || word == "3";
    if (word == "1" || word == "2") strategy = "shard_grad_op";
    if (word == "1")
      sayings.draft().warnings.push_back(stage->path + ": gradients are counted as split, too, as stage 2 has them");
  }
  const Said* offload = sayings.find("fsdp_offload");
  if (!shards) return;
  Node config;
  config.kind = Node::Kind::kObject;
  config.members.emplace_back("version", integer_node(strategy == "hybrid_shard" ? 1 : version));
  if (!strategy.empty()) config.members.emplace_back("sharding_strategy", text_node(strategy));
  if (offload != nullptr && !is_off(offload->value)) config.members.emplace_back("offload_params", bool_node(true));
  sayings.put("fsdp", bool_node(true), {});
  sayings.put("fsdp_config", std::move(config), {});
}

}  // namespace plimsoll::job

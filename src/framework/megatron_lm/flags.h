// SPDX-License-Identifier: Apache-2.0
// What the readers of Megatron-LM's forms share.
#pragma once

#include <string_view>

#include "job/draft.h"

namespace plimsoll::job {

// Why a training program (pretrain_t5.py) cannot be described here; empty where it can.
[[nodiscard]] std::string_view why_not_modelled(std::string_view program);

// Which model a program trains and its default tokenizer: pretrain_bert.py, pretrain_t5.py.
void take_model_class(std::string_view program, Draft& draft);

// A tower for images or sound beside the language model has flags of its own (a length for each); counted as a decoder
// alone, the answer would be wrong.
[[nodiscard]] Status refuse_towers(const Draft& draft);

// Adds "--foo-bar" or "foo_bar" under its key spelling.
void assign_flag(Draft& draft, std::string_view flag, document::Node value);

// What Megatron-LM's argument parser adds: query groups count only with --group-query-attention, and are
// one where their number is not given.
void add_parser_defaults(Draft& draft);

// Settings that mean something else here: no layers to recompute, PyTorch's FSDP2.
void settle_megatron(Draft& draft);

// What Megatron-LM has in common with what is built on it.
[[nodiscard]] const std::vector<Alias>& megatron_aliases();
[[nodiscard]] Status require_megatron_batch(Job& job);
inline constexpr std::uint8_t kMegatronShardings = bit(ShardingKind::kMegatronFsdp) | bit(ShardingKind::kFsdp2);
inline constexpr std::string_view kMegatronTwoHalves = "R192";

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
// One small record of each format.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "truth/record.h"

namespace plimsoll::truth::test {

inline constexpr std::string_view kMegatron = R"({"id": "small", "framework": "megatron-lm",
  "implementation": "mcore-local-sdpa", "gpu": "h200-sxm-141gb", "world_size": 4,
  "model": {"layers": 4, "hidden": 512, "heads": 8, "kv_heads": 4, "ffn": 1024, "vocab": 1024,
            "tied_embeddings": false},
  "parallel": {"tp": 2, "pp": 2, "vpp": 1, "cp": 1, "ep": 1, "dp": 1, "sequence_parallel": true},
  "train": {"seq": 256, "micro_batch": 1, "num_microbatches": 4, "distributed_optimizer": true,
            "grad_reduce_in_fp32": true, "cross_entropy_loss_fusion": true,
            "recompute": {"granularity": "selective", "modules": ["core_attn"]}},
  "rank": {"pp": 1}, "allocator": "", "measured": {"peak_allocated": 100000000, "peak_reserved": 120000000}})";

inline constexpr std::string_view kTorch = R"({"id": "hf", "framework": "transformers", "gpu": "h200-sxm-141gb",
  "world_size": 1,
  "model": {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8,
            "num_key_value_heads": 4, "intermediate_size": 1024, "vocab_size": 1024},
  "train": {"micro_batch": 2, "seq": 256, "seq_choices": null, "accumulation": 1, "precision": "bf16-autocast",
            "gradient_checkpointing": true, "optimizer": "adamw-fused", "clip_grad_norm": true,
            "attention": "sdpa", "lora_rank": null, "lora_targets": null, "reshard_after_forward": null,
            "eval_every": null},
  "allocator": "expandable_segments:True", "measured": {"peak_allocated": 50000000, "peak_reserved": 60000000}})";

inline constexpr std::string_view kGolden = R"({"test_case": "gpt/small", "golden_file": "golden_dev.json",
  "run": "1st", "environment": "dev", "gpu_type": "H100", "world_size": 8, "test_type": "regular",
  "golden_last_commit_date": "2026-01-01", "mem_max_allocated_bytes": {"max": 1000000000.0},
  "args": {"--num-layers": 4, "--hidden-size": 512, "--num-attention-heads": 8, "--seq-length": 1024,
           "--max-position-embeddings": 1024, "--micro-batch-size": 4, "--global-batch-size": 32, "--bf16": true,
           "--tensor-model-parallel-size": 1, "--pipeline-model-parallel-size": 1, "--vocab-size": 1024,
           "--tokenizer-type": "NullTokenizer"}})";

inline constexpr std::string_view kThroughput = R"({"suite": "megatron-bridge", "model": "LLAMA3_8B",
  "system": "DGX-H100", "gpus": 8, "gbs": 128, "mbs": 1, "seq": 8192, "tp": 2, "precision": "BF16",
  "tokens_per_s_per_gpu": 12000})";

// A run of the Trainer: what `fit` would be given, and what was measured.
inline constexpr std::string_view kTrainer = R"({"id": "run", "gpu": "h200-sxm-141gb", "gpus": 1, "seq_length": 512,
  "attention": "sdpa", "weights": "bfloat16",
  "config": {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
             "num_attention_heads": 4, "vocab_size": 1000, "dtype": "bfloat16"},
  "training_args": {"bf16": true, "per_device_train_batch_size": 3, "gradient_checkpointing": true},
  "measured": {"peak_allocated": 1000, "peak_reserved": 2000, "step_seconds": 0.5,
               "evaluation_peak_allocated": 1500, "evaluation_peak_reserved": 1700}})";

inline const std::vector<std::pair<const char*, std::string_view>>& formats() {
  static const std::vector<std::pair<const char*, std::string_view>> all = {{"megatron", kMegatron},
                                                                            {"torch", kTorch},
                                                                            {"golden", kGolden},
                                                                            {"throughput", kThroughput},
                                                                            {"trainer", kTrainer}};
  return all;
}

inline std::string file_of(std::string_view record) { return "{\"records\": [" + std::string(record) + "]}"; }

// The only record of a file that must be readable.
inline Record only(std::string_view record) {
  auto file = read_records("small.json", file_of(record));
  EXPECT_TRUE(file) << to_string(file.error());
  if (!file || file->records.size() != 1) return {};
  return std::move(file->records.front());
}

// The record with one piece of its text replaced.
inline std::string with(std::string_view record, std::string_view from, std::string_view to) {
  std::string text(record);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

}  // namespace plimsoll::truth::test

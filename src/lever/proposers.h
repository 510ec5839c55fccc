// SPDX-License-Identifier: Apache-2.0
// The proposers behind the rows of table.cpp, one function per lever: what this lever would set on this job, or
// nothing where it has nothing to give. Whether the framework allows it is found out by resolving the request.
#pragma once

#include <string>

#include "lever/lever.h"

namespace plimsoll::lever {

// batch.cpp
void smaller_micro_batch(const job::Job& job, Proposals& proposals);
void much_smaller_micro_batch(const job::Job& job, Proposals& proposals);
void smaller_evaluation_batch(const job::Job& job, Proposals& proposals);
void shorter_sequences(const job::Job& job, Proposals& proposals);

// recompute.cpp
void recompute_attention(const job::Job& job, Proposals& proposals);
void recompute_up_projection(const job::Job& job, Proposals& proposals);
void recompute_moe_act(const job::Job& job, Proposals& proposals);
void recompute_mlp(const job::Job& job, Proposals& proposals);
void recompute_moe(const job::Job& job, Proposals& proposals);
void recompute_some_layers(const job::Job& job, Proposals& proposals);
void recompute_layers(const job::Job& job, Proposals& proposals);

// kernels.cpp
void expandable_segments(const job::Job& job, Proposals& proposals);
void flash_attention(const job::Job& job, Proposals& proposals);
void chunked_loss(const job::Job& job, Proposals& proposals);
void cuda_graphs(const job::Job& job, Proposals& proposals);

// state.cpp
void precision_aware_optimizer(const job::Job& job, Proposals& proposals);
void shard_optimizer(const job::Job& job, Proposals& proposals);
void shard_everything(const job::Job& job, Proposals& proposals);
void reshard_after_forward(const job::Job& job, Proposals& proposals);

// host.cpp
void offload_optimizer(const job::Job& job, Proposals& proposals);
void offload_weights(const job::Job& job, Proposals& proposals);
void offload_activations(const job::Job& job, Proposals& proposals);

// split.cpp
void sequence_parallel(const job::Job& job, Proposals& proposals);
void more_pipeline(const job::Job& job, Proposals& proposals);
void more_tensor(const job::Job& job, Proposals& proposals);
void more_context(const job::Job& job, Proposals& proposals);
void context_messages(const job::Job& job, Proposals& proposals);
void more_expert(const job::Job& job, Proposals& proposals);

// numerics.cpp
void adam_8bit(const job::Job& job, Proposals& proposals);
void adafactor(const job::Job& job, Proposals& proposals);
void bf16(const job::Job& job, Proposals& proposals);
void fp8(const job::Job& job, Proposals& proposals);
void gradients_bf16(const job::Job& job, Proposals& proposals);
void lora(const job::Job& job, Proposals& proposals);
void qlora(const job::Job& job, Proposals& proposals);

// Shared by several.
// What keeps the sequences of a step when micro-batches times data-parallel ranks are divided by `factor`.
void keep_global_batch(const job::Job& job, std::int64_t factor, job::Settings& settings);
[[nodiscard]] bool is_unsharded(const job::Job& job);
[[nodiscard]] bool is_fsdp(const job::Job& job);
// Its moments live on the host: what else shrinks them saves nothing on the device.
[[nodiscard]] bool has_optimizer_on_host(const job::Job& job);
// PyTorch modules of Hugging Face, however they are wrapped.
[[nodiscard]] bool runs_hub_modules(const job::Job& job);

}  // namespace plimsoll::lever

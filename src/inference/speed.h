// SPDX-License-Identifier: Apache-2.0
// Seconds of the two things an inference server does: one decode step of a batch, and the prefill of a prompt
// (facts rl-and-inference.md 7). Made once per server; every call is a few multiplications, so that a simulation can
// ask for each step.
#pragma once

#include <cstdint>

#include "inference/server.h"

namespace plimsoll::inference {

struct DecodeStep {
  double seconds = 0;
  double memory = 0;  // reading weights and KV cache
  double compute = 0;
  double messages = 0;  // all-reduces of tensor parallelism, sends of pipeline parallelism
  double host = 0;
};

class Speed {
 public:
  // `server` must be resolved.
  explicit Speed(const Server& server);

  // One token for each of `batch` requests whose contexts have `mean_context` tokens on average.
  [[nodiscard]] DecodeStep decode(double batch, double mean_context) const;
  // Prefill of `tokens` in one or more forward passes, their contexts `mean_context` long on average.
  [[nodiscard]] double prefill(double tokens, double mean_context) const;

 private:
  double weight_bytes_dense_ = 0;   // of one GPU, read at every step
  double weight_bytes_expert_ = 0;  // of one GPU, all experts
  double experts_ = 0;
  double experts_per_token_ = 0;
  double kv_bytes_per_token_ = 0;
  double flops_per_token_ = 0;              // of one GPU, weights
  double flops_per_token_and_context_ = 0;  // of one GPU, attention
  double stream_ = 0;                       // bytes/s reached
  double flops_ = 0;                        // FLOP/s reached
  double message_bytes_per_token_ = 0;
  double messages_ = 0;  // per step
  double message_latency_ = 0;
  double link_ = 0;  // bytes/s
  double host_ = 0;
};

}  // namespace plimsoll::inference

// SPDX-License-Identifier: Apache-2.0
// Seconds of the two things an inference server does: one decode step of a batch, and the prefill of a prompt
// (facts rl-and-inference.md 7). Made once per server; every call is a few multiplications, so that a simulation can
// ask for each step.
#pragma once

#include <cstdint>
#include <vector>

#include "inference/server.h"

namespace plimsoll::inference {

// Share of HBM bandwidth that a decode step reaches, over weights and cache together: facts rl-and-inference.md 7 give
// 0.6 to 0.85 and advise 0.75. Measured on an H200 (PyTorch 2.11, graphs, 2048 tokens of context): an 8B model 0.74 at
// 64 requests and 0.78 at 256; a 3B model 0.54 and 0.63, since its short kernels are not fused there.
inline constexpr double kStreamShare = 0.75;
// Share of peak FLOP/s of products and attention: the same section gives 0.5 to 0.65.
inline constexpr double kComputeShare = 0.6;

struct DecodeStep {
  double seconds = 0;
  double memory = 0;  // reading weights and KV cache
  double compute = 0;
  double messages = 0;  // all-reduces of tensor parallelism, sends of pipeline parallelism
  double host = 0;
};

// An error where the catalogue does not know the GPU's bandwidth or FLOP/s: there is no speed without them.
[[nodiscard]] Status speed_is_known(const Server& server);

class Speed {
 public:
  // `server` must be resolved and its speed known.
  explicit Speed(const Server& server);

  // One token for each of `batch` requests whose contexts have `mean_context` tokens on average.
  [[nodiscard]] DecodeStep decode(double batch, double mean_context) const;
  // Prefill of `tokens` in one or more forward passes, their contexts `mean_context` long on average.
  [[nodiscard]] double prefill(double tokens, double mean_context) const;

 private:
  // Attention layers that see the same number of tokens; window 0: all of them.
  struct Span {
    double window = 0;
    double bytes_per_token = 0;  // of one GPU, all such layers
    double flops_per_token = 0;
  };

  [[nodiscard]] double weight_bytes(double tokens) const;
  [[nodiscard]] double message_seconds(double tokens) const;

  double weight_bytes_dense_ = 0;   // of one GPU per stage, all stages: read at every step
  double weight_bytes_expert_ = 0;  // the same, all experts
  double experts_ = 0;
  double experts_per_token_ = 0;
  std::vector<Span> spans_;
  double kv_bytes_per_request_ = 0;  // states of linear attention
  double flops_per_token_ = 0;       // of one GPU, weights of the layers
  double flops_per_sample_ = 0;      // of one GPU, the head: prefill asks for one row only
  double stream_ = 0;                // bytes/s reached
  double flops_ = 0;                 // FLOP/s reached
  double attention_flops_ = 0;
  double messages_ = 0;  // per step
  double message_bytes_per_token_ = 0;
  double message_latency_ = 0;
  double link_ = 0;   // bytes/s
  double sends_ = 0;  // between pipeline stages
  double send_latency_ = 0;
  double send_seconds_per_token_ = 0;
  double host_ = 0;
  double stages_ = 1;
  double tokens_per_pass_ = 0;
};

}  // namespace plimsoll::inference

// SPDX-License-Identifier: Apache-2.0
// PyTorch operations as the graph sees them: the output they allocate, the tensors they save and the
// temporaries of their backward, in the order of recorded histories. Saved tensors are listed in the
// order in which backward releases them.
#pragma once

#include "step/transformers/graph.h"

namespace plimsoll::step::transformers {

// Elementwise (ops_elementwise.cpp)
Var cast(Graph& g, const Var& x, std::uint8_t width, Name name);  // x itself where it has that width
Var add(Graph& g, const Var& a, const Var& b, Name name);
Var smaller(Graph& g, const Var& x, Name name);         // of each value and a constant
Var add_bias(Graph& g, const Var& x, const Var& bias);  // in place; the bias is spread over leading dimensions
Var add_number(Graph& g, const Var& x, Name name);
Var scale(Graph& g, const Var& x, Name name);  // times or divided by a number
Var neg(Graph& g, const Var& x, Name name);
Var running_sum(Graph& g, const Var& x, Name name);  // cumsum
Var pow(Graph& g, const Var& x, Name name);
Var keeps_input(Graph& g, const Var& x, Name name);   // SiLU, one-kernel GELU
Var keeps_result(Graph& g, const Var& x, Name name);  // tanh, sigmoid, ReLU
// By a table of complex numbers, whose conjugate backward writes out.
Var mul_complex(Graph& g, const Var& x, const Var& table, Name name);
Var mul(Graph& g, const Var& a, const Var& b, Name name);
// A product of tensors that broadcast against one another to `elements`, and the same summed to `result` at once.
// Each was given dimensions of one, so that what is summed for its gradient is a view.
// kFirst, kSecond: that operand is broadcast along slower dimensions than its own, so that its gradient is a sum over
// leading dimensions.
enum class Leading : std::uint8_t { kNeither, kFirst, kSecond };
Var mul_sized(Graph& g, const Var& a, const Var& b, std::int64_t elements, Name name,
              Leading leading = Leading::kNeither);
// to += x
Var add_onto(Graph& g, const Var& to, const Var& x);
Var sum_along(Graph& g, const Var& x, std::int64_t result, Name name);  // its gradient is spread without a copy
Var mul_sum(Graph& g, const Var& a, const Var& b, std::int64_t elements, std::int64_t result, Name name);
Var dropout(Graph& g, const Var& x, double p, Name name);
Var select(Graph& g, const Var& mask, const Var& a, const Var& b, Name name);  // torch.where; keeps the mask

// Rows and channels (ops_rows.cpp). A value of `rows` rows; channels = elements / rows.
Var mean_rows(Graph& g, const Var& x, std::int64_t rows, Name name);
Var rsqrt(Graph& g, const Var& x, Name name);
Var softmax(Graph& g, const Var& x, Name name);
Var softmax_fp32(Graph& g, const Var& x, Name name);  // through an fp32 copy where x is narrower
Var layer_norm(Graph& g, const Var& x, std::int64_t rows, std::int32_t weight, std::int32_t bias, Name name);
// The same of tensors; the weight plus one, in 16 bits under autocast (Nemotron).
Var layer_norm_of(Graph& g, const Var& input, std::int64_t rows, const Var& w, const Var& b, Name name);
Var shifted_layer_norm(Graph& g, const Var& x, std::int64_t rows, std::int32_t weight, std::int32_t bias, Name name);
Var max_rows(Graph& g, const Var& x, std::int64_t rows, Name name);  // gradients flow to the largest
Var rms_norm(Graph& g, const Var& x, std::int64_t rows, std::int32_t weight, Name name);  // torch's fused kernel
// Sums a gradient to fewer elements: per channel (with scratch in global memory) or per row.
// channels: of a vector along the last dimension; leads: over leading dimensions, whatever it is.
void sum_to(Graph& g, Var& grad, std::int64_t elements, bool channels, bool leads = false);

// Shapes (ops_shape.cpp)
Var to_heads(Graph& g, const Var& x);  // backward copies a head-major gradient
// Both are copied into a new tensor.
Var filled(Graph& g, const Var& first, const Var& second, Name name);
Var reshaped(Graph& g, const Var& x);  // the same storage; its gradient is a view
// Part of the last dimension; backward fills a tensor of the full size in the order of x's dimensions.
Var slice(Graph& g, const Var& x, std::int64_t elements, bool head_major);
Var cat(Graph& g, const Var& a, const Var& b, Name name);
// One tensor of many pieces is made (by copy) when the last is there; until then it has no storage, and the caller
// keeps the pieces.
Var append(Graph& g, const Var& before, const Var& piece);
// A packed tensor cut along its last dimension; backward concatenates.
std::array<Var, 3> split(Graph& g, const Var& x, const std::array<std::int64_t, 3>& elements, bool head_major);
Var copy(Graph& g, const Var& x, Name name);      // clone or contiguous; backward passes the gradient on
Var laid_out(Graph& g, const Var& x, Name name);  // in another order, and so is its gradient
Var by_head(Graph& g, const Var& x, Name name);   // a copy that is stored head by head
Var expand(Graph& g, const Var& x, std::int64_t times, Name name);  // repeat_kv; backward sums groups
Var expand_view(Graph& g, const Var& x, std::int64_t elements);     // broadcast without a copy

// Several residual streams (ops_streams.cpp). In place, through a view of `part` elements of x; x[...] = part of
// itself.
Var add_in_view(Graph& g, const Var& x, const Var& other, std::int64_t part);
Var assign_view(Graph& g, const Var& x, const Var& part);
Var subtract(Graph& g, const Var& a, const Var& b, Name name);
Var divide(Graph& g, const Var& a, const Var& b, Name name);  // by a tensor; keeps both
Var repeat(Graph& g, const Var& x, std::int64_t times, Name name);
Var deviation(Graph& g, const Var& x, std::int64_t rows, Name name);  // of each row

// Tensor parallelism (ops_split.cpp). Collectives over the places of sequences: each is the other's backward.
Var all_gather(Graph& g, const Var& x, std::int64_t ranks, std::int64_t sequences);
Var reduce_scatter(Graph& g, const Var& x, std::int64_t ranks, std::int64_t sequences);
// The loss of fp32 logits of which every rank has a part.
Var split_cross_entropy(Graph& g, const Var& logits, const Var& labels, std::int64_t tokens);

// Matrices (ops_matrix.cpp)
Var linear(Graph& g, const Var& x, std::int32_t w, std::int32_t bias, Name name);
// A depthwise convolution along tokens to `elements` values, through a copy of its input.
Var depthwise_convolution(Graph& g, const Var& x, std::int32_t w, std::int32_t bias, std::int64_t elements);
// A convolution over all of `channels` to `elements` values; 0 channels: cuDNN takes no workspace for it.
Var convolution(Graph& g, const Var& x, std::int32_t w, std::int32_t bias, std::int64_t elements,
                std::int64_t channels);
// A 4-bit weight is dequantised for each product; nothing but the packed weight is kept.
// torchao's Float8Linear.
Var float8_linear(Graph& g, const Var& x, std::int32_t w, std::int32_t bias, Name name);
// bitsandbytes' LLM.int8 (facts other-frameworks-memory.md 3.6).
Var eight_bit_linear(Graph& g, const Var& x, std::int32_t w, std::int32_t bias, bool is_fp16, Name name);
// A product with a matrix of the sizes of the weight `like`, which is not the weight itself.
Var linear_with(Graph& g, const Var& x, const Var& matrix, std::int32_t like, Name name);
Var quantized_linear(Graph& g, const Var& x, std::int32_t w, std::int32_t bias, Name name);
// a [m,k] times b [k,n] in `count` batches; a or b that is not laid out for it is copied first.
struct BatchShape {
  std::int64_t count = 0;
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;
};
Var batched_matmul(Graph& g, const Var& a, const Var& b, const BatchShape& shape, Name name);

// Attention (ops_attention.cpp)
struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t context = 1;  // ranks whose keys and values are gathered
};
// One kernel that never materialises scores; mask may be empty.
Var fused_attention(Graph& g, const AttentionShape& shape, const Var& q, const Var& k, const Var& v, const Var& mask);

// Fused kernels (ops_fused.cpp)
Var liger_norm(Graph& g, const Var& x, std::int64_t rows, std::int32_t weight, Name name);
// One function of autograd whose forward and backward are chains of their own: only the input is kept.
Var bloom_gelu(Graph& g, const Var& x, Name name);
Var liger_swiglu(Graph& g, const Var& gate, const Var& up, Name name);
// Inductor's: the normalised value is kept, its input is not; a sum that no kernel writes keeps what is added.
Var fused_norm(Graph& g, const Var& x, std::int64_t rows, std::int32_t weight, std::int32_t bias, std::uint8_t width);
Var fused_add(Graph& g, const Var& residual, const Var& branch);
// Loss of 16-bit logits, whose gradient overwrites them; `outputs` is what the caller's conversion spreads.
Var fused_cross_entropy(Graph& g, const Var& logits, const Var& labels, std::int64_t rows);
Var in_place(Graph& g, const Var& x, const Var& saved_a, const Var& saved_b);
struct FusedLoss {
  std::int64_t tokens = 0;
  std::int64_t vocabulary = 0;
  std::int64_t chunk = 0;  // tokens at a time
  std::int32_t weight = -1;
  bool unfused = false;        // plain operations within a chunk
  bool wide_gradient = false;  // the hidden state's gradient is collected in fp32
};
[[nodiscard]] std::int64_t liger_chunk(std::int64_t tokens, std::int64_t vocabulary, std::int64_t hidden);
// Head and cross entropy chunk by chunk; gradients are computed in forward.
Var fused_loss(Graph& g, const Var& hidden, const FusedLoss& loss);

// Routed experts (ops_moe.cpp)
Var gather(Graph& g, const Var& x, const Var& index, std::int64_t elements, Name name);
// Rows of `source` in the place of masked ones; the kernel counts the mask along the whole tensor.
Var masked_scatter(Graph& g, const Var& x, const Var& source, const Var& mask, Name name);
Var masked_fill(Graph& g, const Var& x, const Var& mask, bool in_place, Name name);
// x, spread to `elements`, where the mask says so, and a number elsewhere.
Var choose(Graph& g, const Var& x, const Var& mask, std::int64_t elements, Name name);
Var top_k(Graph& g, const Var& scores, std::int64_t elements, Var& indices);
// Adds rows at an index in place.
Var add_rows(Graph& g, const Var& to, const Var& rows, const Var& index);
// Rows sorted by expert times the experts' three-dimensional weight.
Var grouped_matmul(Graph& g, const Var& x, std::int32_t w, std::int64_t rows, std::int64_t out, Name name);
Var average_pool(Graph& g, const Var& x, std::int64_t elements, Name name);  // keeps its input
Var sum_copies(Graph& g, const Var& x, std::int64_t elements, Name name);    // over a token's experts

// Ends (ops_ends.cpp)
Var embedding(Graph& g, const Var& ids, std::int64_t tokens, std::int64_t hidden, std::int32_t weight);
// The same from a table of `rows` that was just made.
Var embedding(Graph& g, const Var& ids, std::int64_t tokens, std::int64_t hidden, const Var& table, std::int64_t rows);
// The log-probability of every token but the first, row by row of the batch (TRL's selective_log_softmax).
Var token_log_probabilities(Graph& g, const Var& logits, std::int64_t batch, std::int64_t sequence);
// A frozen table with some rows replaced by those that are trained (PEFT's trainable_token_indices): a copy of it.
Var with_trained_rows(Graph& g, std::int32_t table, std::int32_t rows);
// Log-softmax and negative log-likelihood of logits of any width; returns the scalar loss.
Var cross_entropy(Graph& g, const Var& logits, const Var& labels);
// The Trainer's label smoothing: logits of all but the last token of each sequence are copied, and their negated
// log-softmax is both gathered and summed.
Var smoothed_cross_entropy(Graph& g, const Var& logits, std::int64_t rows, std::int64_t tokens);

}  // namespace plimsoll::step::transformers

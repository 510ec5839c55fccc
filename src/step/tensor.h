// SPDX-License-Identifier: Apache-2.0
// The vocabulary of a step: what a tensor is for (category), what it is called (name), and where in the
// step an event happens (moment). Names are an enum so that millions of events carry a number, not a text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::step {

enum class Category : std::uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,    // kept from forward to backward
  kTemporaries,    // everything else that operations create and drop
  kWorkspaces,     // cuBLAS, tables, scratch that stays
  kCommunication,  // pipeline messages, gather and reduce buffers inside the torch allocator
};
inline constexpr int kCategories = 7;

// One row per kind of tensor: enumerator, category, text. Kept as a list so that enum and table cannot differ.
#define PLIMSOLL_TENSOR_NAMES(X)                                       \
  X(kWeight, kParameters, "weights")                                   \
  X(kParamBuffer, kParameters, "parameter buffer")                     \
  X(kFp8Weight, kParameters, "FP8/FP4 weight copies")                  \
  X(kFrozenWeight, kParameters, "frozen weights")                      \
  X(kAdapterWeight, kParameters, "adapter weights")                    \
  X(kUnshardedWeight, kParameters, "gathered (unsharded) weights")     \
  X(kGradBuffer, kGradients, "gradient buffer")                        \
  X(kGradient, kGradients, "gradients")                                \
  X(kGradientFp32, kGradients, "fp32 copy of gradients")               \
  X(kMainParam, kOptimizer, "main parameters")                         \
  X(kMoment, kOptimizer, "optimizer moments")                          \
  X(kOptimizerTemp, kTemporaries, "optimizer temporaries")             \
  X(kLayerInput, kActivations, "layer input (residual)")               \
  X(kNormInput, kActivations, "norm input (residual)")                 \
  X(kNormOutput, kActivations, "norm output")                          \
  X(kNormStats, kActivations, "norm statistics")                       \
  X(kNormFp32, kActivations, "fp32 copy in the norm")                  \
  X(kQkv, kActivations, "packed qkv")                                  \
  X(kQuery, kActivations, "query")                                     \
  X(kKey, kActivations, "key")                                         \
  X(kValue, kActivations, "value")                                     \
  X(kRope, kActivations, "rope tables of a layer")                     \
  X(kAttentionOutput, kActivations, "attention output")                \
  X(kLogSumExp, kActivations, "attention log-sum-exp")                 \
  X(kScores, kActivations, "attention scores (unfused)")               \
  X(kMask, kActivations, "attention mask")                             \
  X(kDropoutMask, kActivations, "dropout mask")                        \
  X(kLatent, kActivations, "MLA latents")                              \
  X(kProjectedState, kActivations, "mixer projection")                 \
  X(kScanOutput, kActivations, "mixer scan output")                    \
  X(kFc1, kActivations, "fc1 output")                                  \
  X(kActivation, kActivations, "activation output")                    \
  X(kRoutedTokens, kActivations, "routed tokens")                      \
  X(kExpertFc1, kActivations, "expert fc1 output")                     \
  X(kExpertActivation, kActivations, "expert activation output")       \
  X(kRouter, kActivations, "router maps and probabilities")            \
  X(kSharedExpert, kActivations, "shared expert activations")          \
  X(kQuantizedInput, kActivations, "quantised copy of a linear input") \
  X(kCastInput, kActivations, "cast input of a linear")                \
  X(kCastWeight, kActivations, "16-bit weight casts (autocast)")       \
  X(kAdapterInput, kActivations, "adapter input and hidden")           \
  X(kCheckpoint, kActivations, "checkpointed layer inputs")            \
  X(kLogits, kActivations, "logits")                                   \
  X(kLogitsFp32, kActivations, "fp32 logits and softmax")              \
  X(kTeacherLogits, kActivations, "teacher's logits and softmax")      \
  X(kTokens, kActivations, "token ids and masks")                      \
  X(kHidden, kTemporaries, "hidden state in flight")                   \
  X(kGatheredHidden, kTemporaries, "gathered hidden state")            \
  X(kGrad, kTemporaries, "gradient of an activation")                  \
  X(kResidualGrad, kTemporaries, "gradient of the residual stream")    \
  X(kWeightGrad, kTemporaries, "weight gradient before accumulation")  \
  X(kLogitsGrad, kTemporaries, "gradient of the logits")               \
  X(kLossTemp, kTemporaries, "loss temporaries")                       \
  X(kRopeTemp, kTemporaries, "rope temporaries")                       \
  X(kAttentionTemp, kTemporaries, "attention scratch")                 \
  X(kScanTemp, kTemporaries, "mixer scan scratch")                     \
  X(kMoeTemp, kTemporaries, "dispatch and combine buffers")            \
  X(kConstruction, kTemporaries, "copies while building")              \
  X(kReplayed, kTemporaries, "recomputed output")                      \
  X(kDequantized, kTemporaries, "dequantised weight")                  \
  X(kEvalLogits, kTemporaries, "evaluation logits")                    \
  X(kCublas, kWorkspaces, "cuBLAS workspaces")                         \
  X(kGatherBuffer, kWorkspaces, "sequence-parallel gather buffer")     \
  X(kRopeTable, kWorkspaces, "rope tables")                            \
  X(kAutotune, kWorkspaces, "kernel autotuning buffers")               \
  X(kGraphPool, kWorkspaces, "CUDA graph static buffers")              \
  X(kOtherWorkspace, kWorkspaces, "other workspaces")                  \
  X(kMessage, kCommunication, "pipeline messages")                     \
  X(kReduceBucket, kCommunication, "gradient reduce buckets")          \
  X(kGatherMessage, kCommunication, "parameter gather buffers")        \
  X(kCpBuffer, kCommunication, "context-parallel buffers")

// 32 bits, so that a Tensor has no padding and is copied in two plain moves: with a byte here the copies
// overlap and stall, and the folded answer takes a third longer.
enum class Name : std::uint32_t {
#define X(enumerator, category, text) enumerator,
  PLIMSOLL_TENSOR_NAMES(X)
#undef X
};

[[nodiscard]] Category category_of(Name name);
[[nodiscard]] std::string_view text_of(Name name);
[[nodiscard]] std::string_view text_of(Category category);

enum class Phase : std::uint8_t {
  kModel,      // weights created
  kWrap,       // DDP, FSDP or ZeRO buffers
  kOptimizer,  // optimizer object
  kFirstForward,
  kFirstBackward,
  kFirstUpdate,
  kForward,  // second and later steps
  kBackward,
  kUpdate,
  kEvaluation,
};
[[nodiscard]] std::string_view text_of(Phase phase);

#define PLIMSOLL_OPERATIONS(X)                  \
  X(kNone, "")                                  \
  X(kEmbedding, "embedding")                    \
  X(kNorm1, "first norm")                       \
  X(kQkvLinear, "qkv projection")               \
  X(kRotary, "rope")                            \
  X(kCoreAttention, "core attention")           \
  X(kScan, "state-space scan")                  \
  X(kProjection, "attention output projection") \
  X(kNorm2, "second norm")                      \
  X(kFc1Linear, "fc1")                          \
  X(kActivationFunction, "activation function") \
  X(kFc2Linear, "fc2")                          \
  X(kRouting, "router")                         \
  X(kDispatch, "expert dispatch")               \
  X(kExperts, "experts")                        \
  X(kCombine, "expert combine")                 \
  X(kFinalNorm, "final norm")                   \
  X(kHead, "output layer")                      \
  X(kLoss, "loss")                              \
  X(kReplay, "recomputation")                   \
  X(kSendReceive, "pipeline exchange")          \
  X(kBuild, "construction")                     \
  X(kGather, "parameter gather")                \
  X(kReduce, "gradient reduction")              \
  X(kAdam, "optimizer step")                    \
  X(kAccumulate, "gradient accumulation")       \
  X(kLogitsKept, "kept evaluation logits")

enum class Operation : std::uint8_t {
#define X(enumerator, text) enumerator,
  PLIMSOLL_OPERATIONS(X)
#undef X
};
[[nodiscard]] std::string_view text_of(Operation operation);

// Where an event happens. Layer is the model's depth index, -1 outside the layers.
struct Moment {
  Phase phase = Phase::kModel;
  Operation operation = Operation::kNone;
  std::int16_t chunk = 0;
  std::int16_t layer = -1;
  std::int32_t micro_batch = -1;

  friend bool operator==(const Moment&, const Moment&) = default;
};

}  // namespace plimsoll::step

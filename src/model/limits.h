// SPDX-License-Identifier: Apache-2.0
// Upper bounds on the sizes of a model. Each is many times any model that exists; together they keep
// every product that memory needs (tokens x width x bytes, layers x parameters x bytes) inside int64.
#pragma once

#include <cstdint>

namespace plimsoll::model::limits {

inline constexpr std::int64_t kHidden = 1LL << 20;
inline constexpr std::int64_t kWidth = 1LL << 22;  // FFN and expert widths, heads x head_dim, latent ranks
inline constexpr std::int64_t kHeads = 1LL << 16;
inline constexpr std::int64_t kHeadDim = 1LL << 16;
inline constexpr std::int64_t kDepth = 10'000;
inline constexpr std::int64_t kVocab = 1LL << 27;
inline constexpr std::int64_t kExperts = 1LL << 16;
inline constexpr std::int64_t kPositions = 1LL << 31;     // context length in tokens
inline constexpr std::int64_t kPositionRows = 1LL << 27;  // rows of a learned position table
inline constexpr std::int64_t kMtpLayers = 64;
inline constexpr std::int64_t kConv = 1024;             // taps of a linear-attention convolution
inline constexpr std::int64_t kParameters = 1LL << 50;  // 1.1e15, a thousand times the largest model

}  // namespace plimsoll::model::limits

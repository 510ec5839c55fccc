// SPDX-License-Identifier: Apache-2.0
// What operations of Megatron's own modules cost the host. A launch is not a launch: a rotation is a chain of plain
// operations, a linear is a Python function with a gradient of its own, hooks and regions around it, and a compiled
// function is looked up by its guards first. Times are those of PyTorch's profiler in two steps on an H200
// (facts step-time.md 8a), forward and backward, over the time of an average launch of a dense layer.
#pragma once

#include "step/work.h"

namespace plimsoll::step::work {

struct Calls {
  double forward = 0;
  double backward = 0;
};

// Microseconds of the profiled host per launch that is counted: 2.83 ms of a dense layer with 61 of them.
inline constexpr double kCall = 46;
inline constexpr Calls kPlainCalls{16 / kCall, 24 / kCall};
inline constexpr Calls kLinearCalls{80 / kCall, 165 / kCall};
inline constexpr double kFrozenLinearBackward = 90 / kCall;  // no weight gradient, no hook
inline constexpr Calls kCompiledCalls{150 / kCall, 130 / kCall};
// Megatron's fused loss over a vocabulary: three compiled functions and two messages of one rank to itself around them;
// backward one. In the same profile 4.65 and 1.5 times what a compiled function took.
inline constexpr Calls kFusedLossCalls{700 / kCall, 200 / kCall};
inline constexpr Calls kNormCalls{30 / kCall, 80 / kCall};
inline constexpr Calls kAttentionCalls{90 / kCall, 120 / kCall};
// A product whose rows differ from call to call: cuBLAS chooses its kernel anew (60 us instead of 29).
inline constexpr double kNewShape = 31 / kCall;

inline void set_calls(Work& w, Calls each, double times = 1) {
  w.forward_calls = each.forward * times;
  w.backward_calls = each.backward * times;
}

}  // namespace plimsoll::step::work

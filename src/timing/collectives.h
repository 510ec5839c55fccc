// SPDX-License-Identifier: Apache-2.0
// Seconds of messages: latency plus bytes over the slowest link they must cross (facts step-time.md 6).
#pragma once

#include "timing/machine.h"

namespace plimsoll::timing {

// bytes: of the whole array. Across domains each GPU's own NIC carries its share.
[[nodiscard]] double gather_seconds(const Machine& machine, const Span& span, double bytes);  // also reduce-scatter
[[nodiscard]] double all_reduce_seconds(const Machine& machine, const Span& span, double bytes);
// bytes: what one rank has for all others together, itself included.
[[nodiscard]] double all_to_all_seconds(const Machine& machine, const Span& span, double bytes);
// Dispatch or combine of a mixture of experts: the same pattern by other kernels. merged > 0: `bytes` are the
// tokens once, each sent to `merged` experts but once per reached rank, and once per reached domain over the
// network; the expectation for balanced routing.
[[nodiscard]] double dispatch_seconds(const Machine& machine, const Span& span, double bytes, double merged);
[[nodiscard]] double hop_seconds(const Machine& machine, bool crosses, double bytes);

}  // namespace plimsoll::timing

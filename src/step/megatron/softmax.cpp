// SPDX-License-Identifier: Apache-2.0
#include "step/megatron/softmax.h"

namespace plimsoll::step::megatron {

void softmax_forward(Tape& tape, const ScoreSizes& sizes, KeptScores kept) {
  Tensor raw = tape.alloc(sizes.scores, Name::kScores);
  if (sizes.softmax == 0) {
    kept.softmax = tape.alloc(sizes.scores, Name::kScores);
    tape.free(raw);
    kept.dropped = tape.alloc(sizes.dropped, Name::kScores);
    kept.mask = tape.alloc(sizes.mask, Name::kDropoutMask);
    return;
  }
  Tensor wide = tape.alloc(sizes.softmax, Name::kScores);  // float(), masked in place
  kept.softmax = tape.alloc(sizes.softmax, Name::kScores);
  Tensor narrow = tape.alloc(sizes.scores, Name::kScores);
  tape.free(wide);
  tape.free(raw);
  if (sizes.mask == 0) {
    kept.dropped = narrow;
    return;
  }
  kept.dropped = tape.alloc(sizes.dropped, Name::kScores);
  kept.mask = tape.alloc(sizes.mask, Name::kDropoutMask);
  tape.free(narrow);
}

Tensor softmax_backward(Tape& tape, const ScoreSizes& sizes, KeptScores kept, Tensor& grad) {
  tape.free(kept.dropped);
  if (kept.mask) {
    Tensor undropped = tape.alloc(sizes.scores, Name::kAttentionTemp);
    tape.free(grad);
    tape.free(kept.mask);
    grad = undropped;
  }
  if (sizes.softmax > 0) {
    Tensor wide = tape.alloc(sizes.softmax, Name::kAttentionTemp);
    tape.free(grad);
    grad = wide;
  }
  Tensor of_scores = tape.alloc(sizes.softmax > 0 ? sizes.softmax : sizes.scores, Name::kAttentionTemp);
  tape.free(grad);
  tape.free(kept.softmax);
  if (sizes.softmax == 0) return of_scores;
  Tensor narrow = tape.alloc(sizes.scores, Name::kAttentionTemp);
  tape.free(of_scores);
  return narrow;
}

}  // namespace plimsoll::step::megatron

// SPDX-License-Identifier: Apache-2.0
// The dense MLP: fc1, activation, fc2, and the `mlp` and `layernorm` selective recompute around them.
#include "step/megatron/layer.h"

namespace plimsoll::step::megatron {

Tensor Layer::mlp_forward(Tape& tape, Kept& kept, bool keep, std::int64_t autotune) const {
  tape.at(Operation::kFc1Linear);
  Tensor gathered = c_.gathers && c_.te ? tape.alloc(z_.hf, Name::kGatheredHidden) : Tensor{};
  kept.fc1 = tape.alloc(z_.fc1, Name::kFc1);
  tape.free(gathered);
  tape.at(Operation::kActivationFunction);
  kept.glu = tape.alloc(z_.glu_extra, Name::kActivation);
  kept.act = tape.alloc(z_.act, Name::kActivation);
  tape.touch(autotune, Name::kAutotune);
  const bool drop = !keep || c_.recompute.mlp;
  if (drop) {
    tape.free(kept.glu);
    tape.free(kept.fc1);
  } else if (z_.fc1_saved < z_.fc1) {  // stored in FP8 for the activation's backward
    Tensor saved = tape.alloc(z_.fc1_saved, Name::kFc1);
    tape.free(kept.fc1);
    kept.fc1 = saved;
  }
  tape.at(Operation::kFc2Linear);
  if (!drop && z_.act_saved > 0 && z_.act_saved < z_.act) {  // quantised for the GEMM; the 16-bit one dies
    Tensor saved = tape.alloc(z_.act_saved, Name::kQuantizedInput);
    tape.free(kept.act);
    kept.act = saved;
  }
  Tensor output = row_parallel_output(tape);
  if (drop || z_.act_saved == 0) tape.free(kept.act);
  return output;
}

Tensor Layer::mlp_backward(Tape& tape, Kept& kept, std::int64_t autotune) const {
  Tensor replayed;
  if (recomputes_norm2()) {
    tape.at(Operation::kReplay);
    kept.norm2 = tape.alloc(z_.h, Name::kNormOutput);
    kept.stats2 = tape.alloc(z_.stats, Name::kNormStats);
  }
  if (c_.recompute.mlp) {
    tape.at(Operation::kReplay);
    if (c_.te) norm_forward(tape, kept.norm2, kept.stats2, z_.norm2_saved);
    kept.fc1 = tape.alloc(z_.fc1, Name::kFc1);
    tape.after_product();
    kept.glu = tape.alloc(z_.glu_extra, Name::kActivation);
    kept.act = tape.alloc(z_.act, Name::kActivation);
    replayed = row_parallel_output(tape);
    tape.rename(replayed, Name::kReplayed);
  }
  tape.at(Operation::kFc2Linear);
  Tensor grad_full = c_.gathers ? tape.alloc(z_.hf, Name::kGatheredHidden) : Tensor{};
  Tensor grad_act = tape.alloc(z_.act, Name::kGrad);
  tape.after_product();
  Tensor weight_grad;
  weight_gradient(tape, weight_grad, z_.w_fc2);
  tape.free(grad_full);
  tape.free(kept.act);
  tape.free(weight_grad);

  tape.at(Operation::kActivationFunction);
  Tensor grad_fc1 = tape.alloc(z_.fc1, Name::kGrad);
  tape.touch(autotune, Name::kAutotune);
  tape.free(grad_act);
  tape.free(kept.fc1);
  tape.free(kept.glu);

  tape.at(Operation::kFc1Linear);
  Tensor grad = column_parallel_backward(tape, grad_fc1, kept.norm2, z_.w_fc1);
  tape.free(replayed);
  return grad;
}

}  // namespace plimsoll::step::megatron

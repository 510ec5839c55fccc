// SPDX-License-Identifier: Apache-2.0
// A Mamba-2 mixer as MambaMixer runs it through mamba_ssm's memory-efficient path: convolution and scan are one
// function of autograd that keeps the projection and the scan's output, and makes the rest again in its backward
// (facts megatron-memory.md 4.10).
#include "step/megatron/layer.h"

namespace plimsoll::step::megatron {

Tensor Layer::mixer_forward(Tape& tape, Kept& kept, bool keep) const {
  const MixerSizes& m = z_.mixer;
  tape.at(Operation::kQkvLinear);
  Tensor gathered = c_.gathers ? tape.alloc(z_.hf, Name::kGatheredHidden) : Tensor{};
  tape.before_product();
  kept.mixer.projected = tape.alloc(m.projected, Name::kProjectedState);
  tape.after_product();
  tape.free(gathered);
  // The caller's frame holds the projection as it was until the mixer returns.
  Tensor untransposed;
  if (m.transposes) {
    untransposed = kept.mixer.projected;
    kept.mixer.projected = tape.alloc(m.projected, Name::kProjectedState);
  }

  tape.at(Operation::kScan);
  Tensor convolved = tape.alloc(m.convolved, Name::kScanTemp);
  Tensor decays = tape.alloc(m.steps, Name::kScanTemp);
  Tensor steps = tape.alloc(m.steps, Name::kScanTemp);
  Tensor of_blocks = tape.alloc(m.states, Name::kScanTemp);
  Tensor states = tape.alloc(m.states / 2, Name::kScanTemp);
  Tensor last = tape.alloc(m.last, Name::kScanTemp);
  tape.free(of_blocks);
  Tensor products = tape.alloc(m.products, Name::kScanTemp);
  kept.mixer.gated = tape.alloc(m.channels, Name::kScanOutput);
  kept.mixer.scanned = tape.alloc(m.channels, Name::kScanOutput);
  for (Tensor* t : {&convolved, &decays, &steps, &states, &last, &products}) tape.free(*t);
  if (m.transposes) {
    Tensor back = tape.alloc(m.channels, Name::kScanOutput);
    tape.free(kept.mixer.gated);
    kept.mixer.gated = back;
  }

  tape.at(Operation::kProjection);
  kept.mixer.normed = tape.alloc(m.channels, Name::kNormOutput);
  kept.mixer.stats = tape.alloc(m.stats, Name::kNormStats);
  if (keep && m.normed_saved > 0) {
    Tensor quantised = tape.alloc(m.normed_saved, Name::kQuantizedInput);
    tape.free(kept.mixer.normed);
    kept.mixer.normed = quantised;
  }
  Tensor output = row_parallel_output(tape);
  tape.free(untransposed);
  if (!keep)
    for (Tensor* t :
         {&kept.mixer.projected, &kept.mixer.scanned, &kept.mixer.gated, &kept.mixer.normed, &kept.mixer.stats})
      tape.free(*t);
  return output;
}

// grad_out: of the gated output; consumed. Makes the gradient of the projection.
void Layer::scan_backward(Tape& tape, Tensor& grad_out, Tensor& grad_projected) const {
  const MixerSizes& m = z_.mixer;
  tape.at(Operation::kScan);
  Tensor convolved = tape.alloc(m.convolved, Name::kScanTemp);
  grad_projected = tape.alloc(m.projected, Name::kGrad);
  Tensor grad_convolved = tape.alloc(m.convolved, Name::kGrad);
  Tensor raw_steps = tape.alloc(m.steps / 2, Name::kScanTemp);
  Tensor decays = tape.alloc(m.steps, Name::kScanTemp);
  Tensor steps = tape.alloc(m.steps, Name::kScanTemp);
  Tensor products = tape.alloc(m.products, Name::kScanTemp);
  // States of every block again, in fp32 throughout, and their gradients; then both in 16 bits.
  Tensor of_blocks = tape.alloc(m.states, Name::kScanTemp);
  Tensor states = tape.alloc(m.states, Name::kScanTemp);
  Tensor last = tape.alloc(m.last, Name::kScanTemp);
  tape.free(of_blocks);
  tape.free(last);
  Tensor grad_scanned = tape.alloc(m.channels, Name::kGrad);
  Tensor grad_states = tape.alloc(m.states, Name::kGrad);
  Tensor grad_states_16 = tape.alloc(m.states / 2, Name::kGrad);
  Tensor states_16 = tape.alloc(m.states / 2, Name::kScanTemp);
  tape.free(grad_states);
  tape.free(states);
  Tensor grad_steps = tape.alloc(m.steps, Name::kGrad);
  Tensor grad_b = tape.alloc(m.keys, Name::kGrad);
  Tensor decays_b = tape.alloc(m.steps, Name::kGrad);
  Tensor grad_c = tape.alloc(m.keys, Name::kGrad);
  Tensor decays_c = tape.alloc(m.steps, Name::kGrad);
  Tensor split = tape.alloc(m.products, Name::kGrad);
  Tensor grad_products = tape.alloc(m.products, Name::kGrad);
  tape.free(split);
  tape.touch(2 * m.steps, Name::kScanTemp);
  for (Tensor* t : {&convolved, &grad_convolved, &raw_steps, &decays, &steps, &products, &grad_scanned, &grad_states_16,
                    &states_16, &grad_steps, &grad_b, &decays_b, &grad_c, &decays_c, &grad_products})
    tape.free(*t);
  tape.free(grad_out);
}

Tensor Layer::mixer_backward(Tape& tape, Kept& kept) const {
  const MixerSizes& m = z_.mixer;
  tape.at(Operation::kProjection);
  Tensor grad_full = c_.gathers ? tape.alloc(z_.hf, Name::kGatheredHidden) : Tensor{};
  Tensor grad_normed = tape.alloc(m.channels, Name::kGrad);
  tape.after_product();
  Tensor weight_grad;
  weight_gradient(tape, weight_grad, m.w_out);
  tape.free(grad_full);
  tape.free(kept.mixer.normed);
  tape.free(weight_grad);
  Tensor grad_gated = tape.alloc(m.channels, Name::kGrad);
  tape.free(grad_normed);
  tape.free(kept.mixer.gated);
  tape.free(kept.mixer.stats);

  Tensor grad_projected;
  scan_backward(tape, grad_gated, grad_projected);
  tape.free(kept.mixer.projected);
  tape.free(kept.mixer.scanned);

  tape.at(Operation::kQkvLinear);
  if (m.transposes) {
    Tensor back = tape.alloc(m.projected, Name::kGrad);
    tape.free(grad_projected);
    grad_projected = back;
  }
  return column_parallel_backward(tape, grad_projected, kept.norm1, m.w_in);
}

}  // namespace plimsoll::step::megatron

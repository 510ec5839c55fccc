// SPDX-License-Identifier: Apache-2.0
#include "step/megatron/chunk.h"

#include <algorithm>
#include <utility>

namespace plimsoll::step::megatron {

namespace {

// A tensor that exists before a measured piece begins: bytes, no identity.
Tensor standing(std::int64_t bytes, Name name) { return {(bytes + kBlockUnit - 1) / kBlockUnit * kBlockUnit, 0, name}; }

}  // namespace

const Profile& LayerKind::forward(bool keep, bool held) {
  auto& slot = forward_[(keep ? 2U : 0U) + (held ? 1U : 0U)];
  if (!slot) {
    Kept kept;
    Tape tape;
    slot = measure_forward(tape, keep, held, 0, kept);
    if (keep) kept_[held ? 1 : 0] = kept;
  }
  return *slot;
}

Profile LayerKind::measure_forward(Tape& tape, bool keep, bool held, std::int64_t autotune, Kept& kept) const {
  kept.x_is_held = held;
  (void)layer_.forward(tape, standing(sizes_.h, Name::kLayerInput), kept, keep, autotune);
  return tape.profile();
}

Profile LayerKind::first_forward(Tape& running, bool keep, bool held, std::int64_t autotune) const {
  Kept kept;
  Tape tape;
  tape.take_over_armed(running);
  const Profile profile = measure_forward(tape, keep, held, autotune, kept);
  running.take_over_armed(tape);  // what this layer had no use for
  return profile;
}

Profile LayerKind::first_backward(Tape& running, bool fresh, bool held, bool joins, std::int64_t autotune) {
  (void)forward(true, held);
  Kept kept = kept_[held ? 1 : 0];
  Tape before;
  layer_.reload(before, kept);
  Tape tape;
  tape.take_over_armed(running);
  ResidualGrad grad;
  if (!fresh) grad.tensor = standing(sizes_.h, Name::kResidualGrad);
  if (joins) grad.context = standing(sizes_.cross.context, Name::kGrad);
  layer_.backward(tape, kept, grad, autotune);
  running.take_over_armed(tape);
  return tape.profile();
}

const Profile& LayerKind::backward(bool fresh, bool held, bool joins) {
  auto& slot = backward_[(joins ? 4U : 0U) + (fresh ? 2U : 0U) + (held ? 1U : 0U)];
  Tape nothing_armed;
  if (!slot) slot = first_backward(nothing_armed, fresh, held, joins, 0);
  return *slot;
}

const Profile& LayerKind::reload(bool held) {
  auto& slot = reload_[held ? 1 : 0];
  if (!slot) {
    (void)forward(true, held);
    Kept kept = kept_[held ? 1 : 0];
    Tape tape;
    layer_.reload(tape, kept);
    slot = tape.profile();
  }
  return *slot;
}

std::int64_t LayerKind::offloaded_bytes() {
  (void)forward(true, false);
  return layer_.offloaded_bytes(kept_[0]);
}

std::int64_t ChunkBuilder::offloaded_bytes() const {
  std::int64_t sum = 0;
  for (LayerKind* kind : kinds_) sum += kind->offloaded_bytes();
  return sum;
}

ChunkBuilder::ChunkBuilder(const job::Job& job, const job::Chunk& chunk, const Ends& ends, const Ends* decoder_ends,
                           std::vector<LayerKind*> kinds, std::vector<LayerKind*> mtp_kinds, bool folded)
    : chunk_(chunk),
      ends_(ends),
      decoder_ends_(decoder_ends),
      encoder_depth_(decoder_ends != nullptr ? job.model.encoder_depth() : 0),
      kinds_(std::move(kinds)),
      mtp_kinds_(chunk.mtp_layers > 0 ? std::move(mtp_kinds) : std::vector<LayerKind*>{}),
      folded_(folded),
      offloads_(job.offload.activations || job.offload.fine_grained) {
  groups_.reserve(kinds_.size());
  // Each stack of layers counts its own.
  add_groups(job.recompute, 0, encoder_depth_);
  add_groups(job.recompute, encoder_depth_, static_cast<std::int64_t>(kinds_.size()));
  checkpoint_bytes_ = checkpoint_bytes(job, ends.sizes());
}

std::int64_t ChunkBuilder::checkpoint_bytes(const job::Job& job, const EndSizes& ends) {
  const bool full = job.recompute.granularity == job::RecomputeGranularity::kFull;
  const bool is_cut =
      full && job.recompute.distribute_saved && job.parallel.tensor > 1 && !job.parallel.sequence_parallel;
  return is_cut ? ends.h / job.parallel.tensor : 0;
}

void ChunkBuilder::add_groups(const job::Recompute& recompute, std::int64_t first, std::int64_t last) {
  const bool full = recompute.granularity == job::RecomputeGranularity::kFull;
  const std::int64_t n = std::max<std::int64_t>(1, recompute.num_layers);
  for (std::int64_t i = first; i < last;) {
    std::int64_t count = 1;
    bool checkpointed = false;
    if (full && recompute.method == job::RecomputeMethod::kUniform) {
      count = std::min(n, last - i);
      checkpointed = true;
    } else if (full) {
      checkpointed = i - first < n;
    }
    groups_.push_back({i, count, checkpointed});
    i += count;
  }
}

bool ChunkBuilder::alike(const Group& a, const Group& b) const {
  if (a.checkpointed != b.checkpointed || a.count != b.count) return false;
  for (std::int64_t i = 0; i < a.count; ++i)
    if (kinds_[static_cast<std::size_t>(a.first + i)] != kinds_[static_cast<std::size_t>(b.first + i)]) return false;
  return true;
}

Tensor ChunkBuilder::enter_decoder(Tape& tape, Pass& pass, Tensor x) const {
  tape.layer(-1);
  tape.at(Operation::kFinalNorm);
  pass.encoded_x = x;
  pass.encoded = tape.alloc(ends_.sizes().h, Name::kNormOutput);
  pass.encoded_stats = tape.alloc(ends_.sizes().stats, Name::kNormStats);
  return decoder_ends_->embedding_forward(tape, pass.decoder, true);
}

void ChunkBuilder::leave_decoder(Tape& tape, Pass& pass, ResidualGrad& grad, Tensor& head_weight_grad) const {
  tape.layer(-1);
  if (!grad.tensor) grad.add(tape, decoder_ends_->sizes().h);
  decoder_ends_->embedding_backward(tape, pass.decoder, grad, head_weight_grad, false);
  tape.at(Operation::kFinalNorm);
  grad.tensor = tape.alloc(ends_.sizes().h, Name::kResidualGrad);
  Tensor norm_weight = tape.alloc(ends_.sizes().norm_weight, Name::kWeightGrad);
  for (Tensor* t : {&grad.context, &pass.encoded_x, &pass.encoded, &pass.encoded_stats, &norm_weight}) tape.free(*t);
}

Tensor ChunkBuilder::layer_forward(Tape& tape, std::int64_t i, Tensor x, Pass& pass, bool keep, bool x_is_held) const {
  LayerKind& kind = *kinds_[static_cast<std::size_t>(i)];
  pass.held[static_cast<std::size_t>(i)] = x_is_held ? 1 : 0;
  const std::int64_t autotune = std::exchange(pass.autotune, 0);
  if (folded_) {
    tape.apply(autotune > 0 || tape.has_armed() ? kind.first_forward(tape, keep, x_is_held, autotune)
                                                : kind.forward(keep, x_is_held));
    return standing(kind.sizes().h, Name::kLayerInput);
  }
  tape.layer(chunk_.first_layer + i);
  Kept& kept = pass.layers[static_cast<std::size_t>(i)];
  kept.x_is_held = x_is_held;
  return kind.layer().forward(tape, x, kept, keep, autotune);
}

void ChunkBuilder::prefetch(Tape& tape, std::int64_t i, Pass& pass) const {
  if (i < 0) return;
  LayerKind& kind = *kinds_[static_cast<std::size_t>(i)];
  if (folded_) {
    tape.apply(kind.reload(pass.held[static_cast<std::size_t>(i)] != 0));
  } else {
    kind.layer().reload(tape, pass.layers[static_cast<std::size_t>(i)]);
  }
}

void ChunkBuilder::layer_backward(Tape& tape, std::int64_t i, Pass& pass, ResidualGrad& grad) const {
  if (offloads_) prefetch(tape, i - 1, pass);
  LayerKind& kind = *kinds_[static_cast<std::size_t>(i)];
  const std::int64_t autotune = std::exchange(pass.backward_autotune, 0);
  if (folded_) {
    const bool fresh = !grad.tensor;
    const bool held = pass.held[static_cast<std::size_t>(i)] != 0;
    const bool joins = static_cast<bool>(grad.context);
    tape.apply(autotune > 0 || tape.has_armed() ? kind.first_backward(tape, fresh, held, joins, autotune)
                                                : kind.backward(fresh, held, joins));
    if (kind.sizes().cross.q > 0) grad.context = standing(kind.sizes().cross.context, Name::kGrad);
    if (fresh) grad.tensor = standing(kind.sizes().h, Name::kResidualGrad);
    return;
  }
  tape.layer(chunk_.first_layer + i);
  kind.layer().backward(tape, pass.layers[static_cast<std::size_t>(i)], grad, autotune);
}

Tensor ChunkBuilder::group_forward(Tape& tape, std::size_t g, Tensor x, Pass& pass, bool x_is_held) const {
  const Group& group = groups_[g];
  if (!group.checkpointed) return layer_forward(tape, group.first, x, pass, true, x_is_held);
  Tensor hidden = x;
  for (std::int64_t i = group.first; i < group.first + group.count; ++i) {
    Tensor next = layer_forward(tape, i, hidden, pass, false, true);
    if (i > group.first) tape.free(hidden);  // only the group's input is kept
    hidden = next;
  }
  if (checkpoint_bytes_ > 0 && !x_is_held) {
    Tensor slice = tape.alloc(checkpoint_bytes_, Name::kCheckpoint);
    tape.free(x);
    x = slice;
  }
  tape.rename(x, Name::kCheckpoint);
  pass.inputs[g] = x;
  return hidden;
}

void ChunkBuilder::group_backward(Tape& tape, std::size_t g, Pass& pass, ResidualGrad& grad, bool x_is_held) const {
  const Group& group = groups_[g];
  if (!group.checkpointed) return layer_backward(tape, group.first, pass, grad);
  tape.at(Operation::kReplay);
  Tensor x = pass.inputs[g];
  Tensor regathered = checkpoint_bytes_ > 0 && !x_is_held ? tape.alloc(ends_.sizes().h, Name::kReplayed) : Tensor{};
  for (std::int64_t i = group.first; i < group.first + group.count; ++i) {
    x = layer_forward(tape, i, x, pass, true, i == group.first);
  }
  Tensor replayed = x;
  tape.rename(replayed, Name::kReplayed);
  ResidualGrad inner;  // the incoming gradient is held by the checkpoint's backward
  for (std::int64_t i = group.first + group.count - 1; i >= group.first; --i) layer_backward(tape, i, pass, inner);
  tape.free(replayed);
  tape.free(regathered);
  tape.free(grad.tensor);
  if (!x_is_held) tape.free(pass.inputs[g]);
  if (grad.context) {  // the replayed layers' part is added to what came from above
    tape.free(inner.context);
    inner.context = grad.context;
  }
  grad = inner;
}

void ChunkBuilder::mtp_forward(Tape& tape, Pass& pass) const {
  if (mtp_kinds_.empty()) return;
  const auto depths = static_cast<std::size_t>(chunk_.mtp_layers);
  pass.mtp.assign(depths, MtpKept{});
  pass.mtp_layers.assign(depths * mtp_kinds_.size(), Kept{});
  for (std::size_t d = 0; d < depths; ++d) {
    Tensor x = ends_.mtp_enter(tape, pass.mtp[d]);
    for (std::size_t i = 0; i < mtp_kinds_.size(); ++i) {
      LayerKind& kind = *mtp_kinds_[i];
      if (folded_) {
        tape.apply(kind.forward(true, false));
        x = standing(kind.sizes().h, Name::kLayerInput);
      } else {
        x = kind.layer().forward(tape, x, pass.mtp_layers[d * mtp_kinds_.size() + i], true);
      }
    }
    ends_.mtp_leave(tape, x, pass.mtp[d]);
  }
  for (MtpKept& depth : pass.mtp) ends_.mtp_loss(tape, depth);
}

void ChunkBuilder::mtp_backward(Tape& tape, Pass& pass, ResidualGrad& grad) const {
  if (mtp_kinds_.empty()) return;
  for (std::size_t d = pass.mtp.size(); d-- > 0;) {
    ResidualGrad depth_grad;
    ends_.mtp_loss_backward(tape, pass.mtp[d], depth_grad);
    for (std::size_t i = mtp_kinds_.size(); i-- > 0;) {
      LayerKind& kind = *mtp_kinds_[i];
      if (folded_) {
        if (offloads_) tape.apply(kind.reload(false));
        tape.apply(kind.backward(false, false, false));
      } else {
        Kept& kept = pass.mtp_layers[d * mtp_kinds_.size() + i];
        if (offloads_) kind.layer().reload(tape, kept);
        kind.layer().backward(tape, kept, depth_grad);
      }
    }
    ends_.mtp_enter_backward(tape, pass.mtp[d], depth_grad);
    if (grad.tensor) {
      tape.free(depth_grad.tensor);
    } else {
      grad = depth_grad;
    }
  }
}

Tensor ChunkBuilder::forward(Tape& tape, Pass& pass, bool is_first) const {
  if (!folded_) pass.layers.assign(kinds_.size(), Kept{});
  pass.held.assign(kinds_.size(), 0);
  pass.inputs.assign(groups_.size(), Tensor{});
  Tensor mask = tape.alloc(ends_.sizes().attention_mask, Name::kMask);  // from the data loader, until the pass returns
  Tensor x = chunk_.has_embedding ? ends_.embedding_forward(tape, pass.ends, true) : pass.received;
  if (const std::int64_t table = std::exchange(pass.rope_table, 0); table > 0) {
    Tensor angles = tape.alloc(table / 2, Name::kRopeTemp);
    (void)tape.alloc(table, Name::kRopeTable);
    tape.free(angles);
  }
  bool held = !chunk_.has_embedding;
  for (std::size_t g = 0; g < groups_.size();) {
    if (encoder_depth_ > 0 && groups_[g].first == encoder_depth_) x = enter_decoder(tape, pass, x);
    std::size_t end = g + 1;
    if (!held && repeats(tape, pass))
      while (end < groups_.size() && alike(groups_[end], groups_[g])) ++end;
    if (end == g + 1) {
      x = group_forward(tape, g, x, pass, held);
    } else {
      Tape one;
      x = group_forward(one, g, x, pass, false);
      tape.apply(one.profile().times(static_cast<std::int64_t>(end - g)));
      std::fill(&pass.inputs[g], &pass.inputs[0] + end, pass.inputs[g]);
    }
    held = false;
    g = end;
  }
  tape.layer(-1);
  if (held) x = tape.alloc(ends_.sizes().h, Name::kHidden);  // an empty stage, or one that holds only the loss
  mtp_forward(tape, pass);
  if (chunk_.has_loss) {
    if (decoder_ends_ != nullptr) {
      decoder_ends_->head_forward(tape, x, pass.decoder, is_first);
    } else {
      ends_.head_forward(tape, x, pass.ends, is_first);
    }
    x = {};
  }
  tape.free(mask);
  return x;
}

Tensor ChunkBuilder::backward(Tape& tape, Pass& pass) const {
  ResidualGrad grad;
  Tensor head_weight_grad;
  tape.layer(-1);
  if (chunk_.has_loss && decoder_ends_ != nullptr) {
    decoder_ends_->head_backward(tape, pass.decoder, grad, head_weight_grad);
  } else if (chunk_.has_loss) {
    ends_.head_backward(tape, pass.ends, grad, head_weight_grad);
  }
  mtp_backward(tape, pass, grad);
  if (offloads_) prefetch(tape, static_cast<std::int64_t>(kinds_.size()) - 1, pass);
  const std::size_t lowest = chunk_.has_embedding ? 0 : 1;  // the first layer's input is the schedule's
  for (std::size_t g = groups_.size(); g-- > 0;) {
    std::size_t first = g;
    if (grad.tensor && !offloads_ && repeats(tape, pass))
      while (first > lowest && alike(groups_[first - 1], groups_[g])) --first;
    if (first < g) {
      if (groups_[g].checkpointed) tape.at(Operation::kReplay);
      Tape one;
      group_backward(one, g, pass, grad, false);
      tape.apply(one.profile().times(static_cast<std::int64_t>(g - first + 1)));
      g = first;
      continue;
    }
    group_backward(tape, g, pass, grad, g == 0 && !chunk_.has_embedding);
    if (encoder_depth_ > 0 && groups_[g].first == encoder_depth_) leave_decoder(tape, pass, grad, head_weight_grad);
  }
  tape.layer(-1);
  if (!chunk_.has_embedding) {
    if (!grad.tensor) grad.add(tape, ends_.sizes().h);
    tape.free(head_weight_grad);
    tape.rename(grad.tensor, Name::kMessage);
    return grad.tensor;
  }
  if (!grad.tensor) grad.add(tape, ends_.sizes().h);
  ends_.embedding_backward(tape, pass.ends, grad, head_weight_grad, true);
  return {};
}

}  // namespace plimsoll::step::megatron

// SPDX-License-Identifier: Apache-2.0
#include "live/proof.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "answer/proof.h"
#include "base/usage.h"
#include "emit/emit.h"
#include "emit/model_source.h"
#include "emit/text.h"
#include "live/nodes.h"
#include "live/proof_megatron.h"

namespace plimsoll::catalog {
extern const std::string_view kProvePy;
}

namespace plimsoll::live {

namespace {

using document::Node;

tl::unexpected<Error> not_provable(std::string what) {
  return tl::make_unexpected(Error{Code::kMissing,
                                   "this job cannot be proven here: " + std::move(what),
                                   {},
                                   "prove runs one GPU under Transformers' Trainer, or one rank of FSDP2, of "
                                   "torchtitan or of Megatron's local layers"});
}

const char* torch_name(job::DType type) {
  switch (type) {
    case job::DType::kFp32:
      return "float32";
    case job::DType::kFp16:
      return "float16";
    default:
      return "bfloat16";
  }
}

// A config.json among the files is the user's own; else the model of the catalogue, written out.
Result<Node> config_of(const Prediction& prediction) {
  for (const job::InputFile& file : prediction.request.files()) {
    auto node = document::parse_json(file.text);
    if (node && node->is_object() && node->has("model_type")) return *std::move(node);
  }
  Node config = emit::model_source(prediction.job).config;
  if (!config.is_object() || !config.has("model_type"))
    return not_provable("its model has no config.json of Transformers; give one among the files");
  return config;
}

Status check_common(const job::Job& job) {
  if (job.parallel.tensor > 1 || job.parallel.pipeline > 1 || job.parallel.context > 1 || job.parallel.expert > 1)
    return not_provable("it is split by tensors, stages, context or experts");
  if (job.precision.compute == job::DType::kFp8 || job.precision.fp4) return not_provable("it computes in 8 or 4 bits");
  if (job.reference_model) return not_provable("it keeps a reference model");
  if (job.offload.activations) return not_provable("it keeps activations on the host");
  return {};
}

Result<Node> trainer_spec(const job::Job& job, Object spec) {
  if (job.cluster.gpus > 1) return not_provable("the Trainer on several GPUs; --gpus 1 proves one of them alone");
  PLIMSOLL_TRY(files, emit::emit(job, emit::target_of(job::assumed_framework(job::Assumed::kForOneGpu)), {}));
  for (const emit::File& file : files) {
    if (file.name != "training_args.json") continue;
    PLIMSOLL_TRY(arguments, document::parse_json(file.text));
    const std::string weights = text_in(arguments, "dtype");
    const std::string attention = text_in(arguments, "attn_implementation");
    spec.set("program", "trainer").set("weights", weights.empty() ? "bfloat16" : weights.c_str());
    spec.set("attention", attention.empty() ? "sdpa" : attention.c_str());
    spec.add("training_args", std::move(arguments));
    return spec.take();
  }
  return not_provable("its arguments cannot be written");
}

Result<Node> fsdp2_spec(const job::Job& job, Object spec) {
  if (job.adapter.kind != job::AdapterKind::kNone) return not_provable("adapters under FSDP2");
  if (job.optimizer.kind != job::OptimizerKind::kAdam && job.optimizer.kind != job::OptimizerKind::kSgd)
    return not_provable("an optimizer other than AdamW and SGD");
  if (job.sharding.kind != job::ShardingKind::kFsdp2) return not_provable("another sharding than FSDP2's");
  if (job.sharding.replicas > 1 || job.sharding.reshard_to > 0) return not_provable("hybrid sharding");
  if (job.sharding.units != job::FsdpUnits::kLayersAndRoot) return not_provable("other units than layers and root");
  spec.set("program", "fsdp2").set("weights", torch_name(job.sharding.stored));
  spec.set("compute", torch_name(job.precision.compute)).set("reduce", torch_name(job.sharding.reduce));
  spec.set("attention", job.kernels.attention == job::AttentionBackend::kUnfused ? "eager" : "sdpa");
  spec.set("reshard_after_forward", job.sharding.reshard_after_forward).set("cpu_offload", job.sharding.cpu_offload);
  spec.set("optimizer", job.optimizer.kind == job::OptimizerKind::kSgd ? "sgd" : "adamw");
  spec.set("momentum", job.optimizer.momentum);
  spec.set("implementation", std::string(job::name_of(job.optimizer.impl)));
  spec.set("clip", job.clip_grad);
  return spec.take();
}

// torchtitan trains what its own file says: the file is written as plan --emit writes it.
Result<Node> titan_spec(const job::Job& job, std::int64_t pp_rank, Object spec) {
  if (job.parallel.context > 1 || job.parallel.expert > 1) return not_provable("it is split by context or experts");
  if (job.precision.compute == job::DType::kFp8 || job.precision.fp4) return not_provable("it computes in 8 or 4 bits");
  if (job.kernels.torch_compile)
    return not_provable("it is compiled; --torch-compile false proves it as it is written");
  PLIMSOLL_TRY(files, emit::emit(job, emit::target_of(job.framework), {}));
  for (const emit::File& file : files) {
    if (file.name != "train.toml") continue;
    spec.set("program", "torchtitan").set("toml", file.text).set("vocabulary", job.model.vocab);
    spec.set("rank", pp_rank * (job.cluster.gpus / job.parallel.pipeline));
    return spec.take();
  }
  return not_provable("its file cannot be written");
}

Node pair_of(const Quantity& quantity) {
  Object object;
  object.set_if("measured", quantity.measured).set_if("predicted", quantity.predicted);
  return object.take();
}

bool is_near(const Quantity& quantity, double share) {
  const auto off = quantity.difference();
  return off && std::abs(*off) <= share * *quantity.predicted;
}

}  // namespace

std::string_view proof_program() { return catalog::kProvePy; }

Result<std::string> proof_spec(const Prediction& prediction, std::int64_t pp_rank, std::int64_t steps,
                               const std::string& scratch) {
  const job::Job& job = prediction.job;
  if (prediction.job_file.empty()) return not_provable(prediction.problem);
  if (pp_rank >= job.parallel.pipeline)
    return usage_error(
        fmt::format("--rank is pp={}; the job has {} pipeline ranks, from 0", pp_rank, job.parallel.pipeline));
  Object spec;
  spec.set("schema", 1).set("steps", steps).set("scratch", scratch).set("gpus", job.cluster.gpus);
  spec.set("seq_length", job.batch.seq_length).set("micro_batch", job.batch.micro_batch);
  spec.set("accumulation", job.micro_batches);
  if (job.facts().prover == job::Prover::kMegatron) {
    if (const std::string why = why_megatron_is_not_provable(job); !why.empty()) return not_provable(why);
    spec.set("vocabulary", job.vocab_rows);
    add_megatron(job, pp_rank, spec);
    return document::to_json(spec.take());
  }
  if (job.kernels.implementation == job::Implementation::kTorchtitan) {
    PLIMSOLL_TRY(node, titan_spec(job, pp_rank, std::move(spec)));
    return document::to_json(node);
  }
  PLIMSOLL_TRY_STATUS(check_common(job));
  PLIMSOLL_TRY(config, config_of(prediction));
  spec.set("vocabulary", job.model.vocab);
  spec.set("checkpointing", job.recompute.granularity == job::RecomputeGranularity::kFull);
  if (job.adapter.kind == job::AdapterKind::kLora) {
    Node targets;
    targets.kind = Node::Kind::kArray;
    for (const std::string& target : emit::lora_targets(job))
      targets.items.push_back(node_of(std::string_view(target)));
    spec.set("lora_rank", job.adapter.rank).add("lora_targets", std::move(targets));
  }
  const job::Adapter& a = job.adapter;
  if (a.kind == job::AdapterKind::kDora || a.has_quantized_base())
    return not_provable("its adapter is DoRA, or stands over a quantised model");
  if (!a.saved_modules.empty() || !a.excluded.empty() || !a.layers.empty() || !a.ranks.empty() || a.own_bias ||
      a.bias != job::AdapterBias::kNone || a.trained_tokens > 0)
    return not_provable("it trains more or less than one rank of adapters on every target");
  spec.add("config", std::move(config));
  const job::Prover prover = job.facts().prover;
  if (prover != job::Prover::kTrainer && prover != job::Prover::kFsdp)
    return not_provable(fmt::format("it is a job of {}", job::name_of(job.framework)));
  PLIMSOLL_TRY(node,
               prover == job::Prover::kTrainer ? trainer_spec(job, std::move(spec)) : fsdp2_spec(job, std::move(spec)));
  return document::to_json(node);
}

bool Proof::holds(double share) const {
  return out_of_memory.empty() && is_near(allocated, share) && is_near(reserved, share);
}

Result<Proof> read_proof_result(const std::string& text, const Prediction& prediction, std::int64_t pp_rank) {
  PLIMSOLL_TRY(node, document::parse_json(text));
  const auto allocated = integer_in(node, "peak_allocated");
  const auto reserved = integer_in(node, "peak_reserved");
  if (!allocated || !reserved) return bad_input("the program wrote no peaks");
  Proof proof;
  proof.pp_rank = pp_rank;
  proof.device = text_in(node, "device");
  proof.torch = text_in(node, "torch");
  proof.transformers = text_in(node, "transformers");
  proof.total = integer_in(node, "total").value_or(0);
  proof.out_of_memory = text_in(node, "out_of_memory");
  proof.allocated.measured = static_cast<double>(*allocated);
  proof.reserved.measured = static_cast<double>(*reserved);
  if (const auto outside = integer_in(node, "outside")) proof.outside.measured = static_cast<double>(*outside);
  std::vector<double> seconds;
  if (const Node* steps = node.find("steps"); steps != nullptr)
    for (const Node& step : steps->items) seconds.push_back(real_in(step, "seconds").value_or(0));
  proof.steps = static_cast<std::int64_t>(seconds.size());
  if (seconds.size() > 2) {
    std::sort(seconds.begin() + 1, seconds.end());
    proof.seconds.measured = seconds[1 + (seconds.size() - 1) / 2];
  }
  const memory::RankAnswer* answer = answer_for(prediction, pp_rank);
  if (answer == nullptr) return bad_input(fmt::format("the prediction has no rank {}", pp_rank));
  proof.allocated.predicted = static_cast<double>(answer->peak_allocated);
  proof.allocated.half_width = static_cast<double>(answer->spread.allocated);
  proof.reserved.predicted = static_cast<double>(answer->peak_reserved);
  proof.reserved.half_width = static_cast<double>(answer->spread.reserved);
  proof.outside.predicted = static_cast<double>(answer->outside);
  timing::Options alone;
  alone.alone = prediction.job.cluster.gpus > 1;
  if (const auto time = timing::predict(prediction.job, alone)) proof.seconds.predicted = time->seconds;
  return proof;
}

std::string proof_json(const Proof& proof, const Prediction& prediction) {
  Object root;
  root.set("schema", answer::kProofSchema).set("kind", answer::kProofKind).set("pp_rank", proof.pp_rank);
  root.set("device", proof.device).set("torch", proof.torch).set("transformers", proof.transformers);
  root.set("total", proof.total).set("steps", proof.steps).set("holds", proof.holds());
  root.add("peak_allocated", pair_of(proof.allocated)).add("peak_reserved", pair_of(proof.reserved));
  root.add("outside", pair_of(proof.outside)).add("step_seconds", pair_of(proof.seconds));
  if (!proof.out_of_memory.empty()) root.set("out_of_memory", proof.out_of_memory);
  root.set("job", prediction.job_file);
  return emit::pretty_json(root.take()) + "\n";
}

}  // namespace plimsoll::live

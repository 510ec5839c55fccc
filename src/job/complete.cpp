// SPDX-License-Identifier: Apache-2.0
// From given to complete: ranks per group, micro-batches per step, rows of the padded vocabulary.
#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"
#include "job/derive.h"
#include "job/job.h"
#include "job/keys.h"
#include "job/refusal.h"
#include "model/vision.h"

namespace plimsoll::job {

Job::Job() = default;
Job::Job(const Job&) = default;
Job::Job(Job&&) noexcept = default;
Job& Job::operator=(const Job&) = default;
Job& Job::operator=(Job&&) noexcept = default;
Job::~Job() = default;

namespace {

constexpr std::int64_t kMaxRanks = 1 << 24;

Status require_positive(const Job& job) {
  const Parallel& parallel = job.parallel;
  const std::pair<std::string_view, std::int64_t> sizes[] = {
      {"gpus", job.cluster.gpus},
      {"tensor_model_parallel_size", parallel.tensor},
      {"pipeline_model_parallel_size", parallel.pipeline},
      {"virtual_pipeline_model_parallel_size", parallel.virtual_pipeline},
      {"context_parallel_size", parallel.context},
      {"expert_model_parallel_size", parallel.expert},
      {"expert_tensor_parallel_size", job.expert_tensor()},
      {"num_layers_per_virtual_pipeline_stage", parallel.layers_per_virtual_stage.value_or(1)},
      {"num_distributed_optimizer_instances", job.optimizer.instances},
      {"dp_replicate", job.sharding.replicas},
      {"micro_batch_size", job.batch.micro_batch},
      {"global_batch_size", std::min(job.batch.global_batch.value_or(1), kMaxRanks)},
      {"gradient_accumulation_steps", std::min(job.batch.accumulation.value_or(1), kMaxRanks)},
      {"make_vocab_size_divisible_by", job.make_vocab_size_divisible_by},
  };
  for (const auto& [name, size] : sizes)
    if (size < 1 || size > kMaxRanks) return bad_input(fmt::format("{} = {}: wanted 1 to {}", name, size, kMaxRanks));
  return {};
}

// Data-parallel sizes (facts megatron-memory.md 1; rules.md R001, R003, R291).
Status split_ranks(Job& job) {
  const Parallel& parallel = job.parallel;
  const std::int64_t gpus = job.cluster.gpus;
  const auto shared = checked_mul(parallel.tensor * parallel.pipeline, parallel.context);
  if (!shared || *shared > gpus || gpus % *shared != 0)
    return job.is_megatron() ? refused("R001")
                             : bad_input(fmt::format("{} GPUs cannot be split into groups of TP {} * PP {} * CP {}",
                                                     gpus, parallel.tensor, parallel.pipeline, parallel.context),
                                         "change the number of GPUs or a parallel size");
  job.data_parallel = gpus / *shared;
  if (!job.model.has_moe()) {
    if (parallel.expert > 1)
      return bad_input(
          fmt::format("num_moe_experts must be non None to use expert-parallel: EP is {} and {} has no "
                      "experts",
                      parallel.expert, job.model.name));
    job.expert_data_parallel = job.data_parallel * parallel.context;
    return {};
  }
  const auto expert_shared = checked_mul(job.expert_tensor() * parallel.expert, parallel.pipeline);
  if (!expert_shared || *expert_shared > gpus || gpus % *expert_shared != 0)
    return refused(job.facts().expert_split_rule);
  job.expert_data_parallel = gpus / *expert_shared;
  return {};
}

// Micro-batches per step and rank (rules.md R004, R269).
Status count_micro_batches(Job& job) {
  Batch& batch = job.batch;
  if (job.derives && job.facts().derives_micro_batch && batch.global_batch && !job.has("micro_batch_size")) {
    // DeepSpeed takes the micro-batch from the whole batch where only that is given.
    const std::int64_t passes = job.data_parallel * batch.accumulation.value_or(1);
    if (*batch.global_batch % passes != 0)
      return bad_input(
          fmt::format("train_batch_size {} is not divisible by {} data-parallel ranks * {} accumulation steps",
                      *batch.global_batch, job.data_parallel, batch.accumulation.value_or(1)));
    batch.micro_batch = *batch.global_batch / passes;
  }
  const std::int64_t at_once = batch.micro_batch * job.data_parallel;
  if (batch.global_batch) {
    const bool divides = *batch.global_batch % at_once == 0;
    job.micro_batches = *batch.global_batch / at_once;
    if (batch.accumulation && !(divides && *batch.accumulation == job.micro_batches)) return refused("R269");
    return divides ? Status{} : refused("R004");
  }
  job.micro_batches = batch.accumulation.value_or(1);
  return {};
}

// Rows of embedding and head (facts megatron-memory.md 2.5).
Status pad_vocabulary(Job& job) {
  const std::int64_t tensor = job.parallel.tensor;
  const std::int64_t unit = job.make_vocab_size_divisible_by * tensor;
  if (job.padded_vocab) {
    job.vocab_rows = *job.padded_vocab;
    if (job.vocab_rows < job.model.vocab)
      return bad_input(
          fmt::format("padded_vocab_size {} is smaller than the vocabulary ({})", job.vocab_rows, job.model.vocab));
  } else {
    job.vocab_rows = job.is_megatron() && job.pad_vocab ? round_up(job.model.vocab, unit) : job.model.vocab;
  }
  if (job.is_megatron() && job.vocab_rows % tensor != 0)
    return bad_input(
        fmt::format("{} vocabulary rows are not divisible by tensor_model_parallel_size {}", job.vocab_rows, tensor),
        "should_pad_vocab = true pads them");
  return {};
}

// What the batch does not say of its images, and whether their tokens have room in a sequence.
Status settle_images(Job& job) {
  if (job.model.vision == nullptr) {
    if (!job.batch.images.freeze_language || job.adapter.kind != AdapterKind::kNone) return {};
    return bad_input(fmt::format("freeze_language_model: {} has no tower for images beside it, so nothing is trained",
                                 job.model.name),
                     "name the whole model with --model");
  }
  const model::Vision& vision = *job.model.vision;
  Images& images = job.batch.images;
  constexpr std::int64_t kUsualSide = 448;  // where the tower takes any size and nobody says one
  const std::int64_t unit = vision.patch_size * vision.merge;
  if (images.height == 0) images.height = vision.image_size > 0 ? vision.image_size : kUsualSide / unit * unit;
  if (images.width == 0) images.width = images.height;
  constexpr std::int64_t kUsualTiles = 5;  // two by two and the whole, LLaVA-NeXT's square
  if (images.tiles == 0) images.tiles = vision.newline ? kUsualTiles : 1;
  if (vision.largest_side > 0 && std::max(images.height, images.width) > vision.largest_side)
    return bad_input(
        fmt::format("image_height {} x image_width {}: the tower of {} has positions for {} pixels of a side",
                    images.height, images.width, vision.model_type, vision.largest_side));
  if (vision.image_size > 0 && (images.height != vision.image_size || images.width != vision.image_size))
    return bad_input(fmt::format("image_height {} x image_width {}: the tower of {} takes {} x {} pixels",
                                 images.height, images.width, vision.model_type, vision.image_size, vision.image_size),
                     "leave both out; image_tiles says how many such crops an image has");
  if (vision.image_size == 0 && (images.height % unit != 0 || images.width % unit != 0))
    return bad_input(
        fmt::format("image_height {} x image_width {}: {} merges {} x {} patches of {} pixels", images.height,
                    images.width, vision.model_type, vision.merge, vision.merge, vision.patch_size),
        fmt::format("give multiples of {}", unit));
  if (!job.has("images_per_sample") || (vision.image_size == 0 && !job.has("image_height"))) {
    std::string note = fmt::format(
        "images: {} of {} x {} pixels in every sequence ({} tokens each), unless images_per_sample, image_height, "
        "image_width or image_tiles say otherwise",
        images.per_sample, images.height, images.width, vision.tokens(images.height, images.width));
    if (std::find(job.notes.begin(), job.notes.end(), note) == job.notes.end()) job.notes.push_back(std::move(note));
  }
  // What does not fit is cut off by the program that put the tower there.
  const std::int64_t room =
      job.batch.seq_length / std::max<std::int64_t>(1, images.per_sample * vision.tokens(images.height, images.width));
  if (vision.apart && room >= 1 && images.tiles > room) {
    images.tiles = room;
    std::string note = fmt::format("image_tiles: {} crops of an image fit into a sequence of {}; no more are counted",
                                   room, job.batch.seq_length);
    if (std::find(job.notes.begin(), job.notes.end(), note) == job.notes.end()) job.notes.push_back(std::move(note));
  }
  const std::int64_t tokens =
      images.per_sample * std::max<std::int64_t>(1, images.tiles) * vision.tokens(images.height, images.width);
  if (tokens > job.batch.seq_length)
    return bad_input(fmt::format("{} tokens of images do not fit into a sequence of {}", tokens, job.batch.seq_length),
                     "seq_length counts images and text together; give more, or fewer or smaller images");
  return {};
}

bool names_rule(std::string_view text) {
  return text.size() == 4 && text.front() == 'R' && text.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

// What the catalogue says, with what the framework prints.
std::string worded(const RuleText& text, std::string_view rule) {
  return fmt::format("{} ({}{})", text.wrong, rule, text.printed.empty() ? "" : fmt::format(": \"{}\"", text.printed));
}

Status completed(Job& job, ModelOfJob model) {
  PLIMSOLL_TRY_STATUS(require_positive(job));
  PLIMSOLL_TRY_STATUS(derive(job, model));
  if (job.model.patches > 0) job.batch.seq_length = job.model.patches + 1;  // an image is its patches and a class token
  PLIMSOLL_TRY_STATUS(require_positive(job));
  PLIMSOLL_TRY_STATUS(settle_images(job));
  PLIMSOLL_TRY_STATUS(split_ranks(job));
  if (job.sharding.within_node)
    job.sharding.replicas =
        std::max<std::int64_t>(1, job.cluster.gpus / std::max<std::int64_t>(1, job.cluster.gpus_per_node));
  // torchtitan's policy "default": a stage would gather again for every micro-batch (facts
  // other-frameworks-memory.md 6.4).
  if (job.derives && job.sharding.units == FsdpUnits::kTorchtitan && !job.has("reshard_after_forward"))
    job.sharding.reshard_after_forward = job.parallel.pipeline == 1;
  PLIMSOLL_TRY_STATUS(count_micro_batches(job));
  PLIMSOLL_TRY_STATUS(pad_vocabulary(job));
  if (job.derives && job.facts().replicates && !job.has("sharding"))
    job.sharding.kind = job.data_parallel > 1 ? ShardingKind::kDdp : ShardingKind::kNone;
  return check(job);
}

}  // namespace

Status explained(Status done, Job& job) {
  for (std::string& warning : std::exchange(job.warnings, {}))
    warn(job, names_rule(warning) ? worded(text_of_rule(job, warning), warning) : std::move(warning));
  if (done || !names_rule(done.error().message)) return done;
  const RuleText text = text_of_rule(job, done.error().message);
  done.error().message = worded(text, done.error().message);
  done.error().hint = text.fix;
  return done;
}

Status complete(Job& job) { return explained(complete_tersely(job), job); }

Status complete_tersely(Job& job) { return completed(job, ModelOfJob::kGiven); }

Status complete_again_tersely(Job& job) { return completed(job, ModelOfJob::kDerived); }

}  // namespace plimsoll::job

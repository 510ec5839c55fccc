// SPDX-License-Identifier: Apache-2.0
// Keys of the cluster, of parallelism and of the batch.
#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "job/keys/table.h"

namespace plimsoll::job {

namespace {

using enum Moves;

using document::Node;

constexpr std::int64_t kTiB = 1024 * kGiB;

Status set_gpu(Job& job, const Node& value) {
  PLIMSOLL_TRY(name, to_word(value));
  PLIMSOLL_TRY(gpu, cluster::find_gpu(name));
  const std::int64_t gpus = job.cluster.gpus;
  const cluster::Cluster before = job.cluster;
  job.cluster.gpu = std::move(gpu);
  cluster::use_typical_node(job.cluster);
  job.cluster.gpus = gpus;
  if (job.has("gpus_per_node")) job.cluster.gpus_per_node = before.gpus_per_node;
  if (job.has("host_memory")) job.cluster.host_memory = before.host_memory;
  if (job.has("nvme")) job.cluster.nvme = before.nvme;
  return {};
}

// A number without its unit is in bytes; one that no machine has is a number whose unit was forgotten.
Status check_memory(std::int64_t bytes, std::int64_t most, const char* of_what) {
  constexpr std::int64_t kLeast = 64 * kMiB;
  if (bytes >= kLeast && bytes <= most) return {};
  return bad_input(fmt::format("found {} ({}), wanted {} to {} for {}", bytes, format_bytes(bytes),
                               format_bytes(kLeast), format_bytes(most), of_what),
                   "write the unit: \"80GiB\"; a bare number is in bytes");
}

Status set_gpu_memory(Job& job, const Node& value) {
  PLIMSOLL_TRY(bytes, to_bytes(value));
  PLIMSOLL_TRY_STATUS(check_memory(bytes, 16 * kTiB, "the memory of a GPU"));
  job.cluster.gpu.capacity = bytes;
  return {};
}

Status set_host_memory(Job& job, const Node& value) {
  PLIMSOLL_TRY(bytes, to_bytes(value));
  if (bytes != 0) PLIMSOLL_TRY_STATUS(check_memory(bytes, 1024 * kTiB, "the memory of a node"));
  job.cluster.host_memory = bytes;
  return {};
}

Status set_nvme(Job& job, const Node& value) {
  PLIMSOLL_TRY(bytes, to_bytes(value));
  if (bytes != 0) PLIMSOLL_TRY_STATUS(check_memory(bytes, 1024 * kTiB, "the NVMe of a node"));
  job.cluster.nvme = bytes;
  return {};
}

Status set_cp_comm_type(Job& job, const Node& value) {
  PLIMSOLL_TRY(words, to_words(value));
  std::vector<CpCommType> types;
  for (const std::string& word : words) {
    const auto type = from_name<CpCommType>(word);
    if (!type) return bad_input(fmt::format("found '{}', wanted {}", word, choices<CpCommType>()));
    types.push_back(*type);
  }
  if (types.empty()) return {};
  job.parallel.cp_comm_type = std::move(types);
  return {};
}

// A string "Et|tt|L", or the list of lists that Bridge writes: [[embedding, decoder], [decoder, loss]].
Status set_layout(Job& job, const Node& value) {
  if (value.is_null()) {
    job.parallel.layout.clear();
    return {};
  }
  if (!value.is_array()) {
    PLIMSOLL_TRY(text, to_word(value));
    job.parallel.layout = std::move(text);
    return {};
  }
  std::string text;
  for (const Node& stage : value.items) {
    if (!text.empty()) text += '|';
    PLIMSOLL_TRY(symbols, to_words(stage));
    for (const std::string& symbol : symbols) {
      constexpr std::pair<std::string_view, char> kSymbols[] = {
          {"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}};
      const auto* const found = std::find_if(std::begin(kSymbols), std::end(kSymbols),
                                             [&symbol](const auto& row) { return row.first == symbol; });
      if (found == std::end(kSymbols))
        return bad_input(fmt::format("found '{}', wanted embedding, decoder, mtp or loss", symbol));
      text += found->second;
    }
  }
  job.parallel.layout = std::move(text);
  return {};
}

const Key kClusterKeys[] = {
    {"gpu", kBoth, Custom{set_gpu, "catalogue name"}, "the GPU: h100, a100-80-sxm, ..."},
    {"gpus", kBoth, PLIMSOLL_FIELD(cluster.gpus), "number of GPUs of the job (world size)", kRanks},
    {"gpus_per_node", kBoth, PLIMSOLL_FIELD(cluster.gpus_per_node), "GPUs of one node", Range{1, 4096}},
    {"gpu_memory", kBytes, Custom{set_gpu_memory, "bytes"}, "capacity of one GPU, instead of the catalogue's"},
    {"host_memory", kBytes, Custom{set_host_memory, "bytes"}, "host memory of one node; 0 is unknown"},
    {"nvme", kBytes, Custom{set_nvme, "bytes"}, "NVMe of one node; 0 is unknown"},
};

const Key kParallelKeys[] = {
    {"tensor_model_parallel_size", kBoth, PLIMSOLL_FIELD(parallel.tensor), "TP: ranks that share each layer", kRanks},
    {"pipeline_model_parallel_size", kBoth, PLIMSOLL_FIELD(parallel.pipeline), "PP: ranks that share the depth",
     kRanks},
    {"virtual_pipeline_model_parallel_size", kBoth, PLIMSOLL_FIELD(parallel.virtual_pipeline),
     "VPP: model chunks per pipeline rank", Range{1, 100'000}},
    {"context_parallel_size", kBoth, PLIMSOLL_FIELD(parallel.context), "CP: ranks that share a sequence", kRanks},
    {"expert_model_parallel_size", kBoth, PLIMSOLL_FIELD(parallel.expert), "EP: ranks that share the experts", kRanks},
    {"expert_tensor_parallel_size", kBoth, PLIMSOLL_FIELD(parallel.expert_tensor),
     "ETP: ranks that share one expert; Megatron uses TP where it is not given", kRanks},
    {"sequence_parallel", kBoth, PLIMSOLL_FIELD(asked.sequence_parallel), "norms and residuals are split over TP"},
    {"cp_comm_type", kBoth, Custom{set_cp_comm_type, "p2p, all_gather, a2a, a2a+p2p"},
     "how CP exchanges; one or one per layer"},
    {"use_tp_pp_dp_mapping", kSeconds, PLIMSOLL_FIELD(parallel.dp_outermost), "DP is the outermost rank dimension"},
    {"num_layers_in_first_pipeline_stage", kBoth, PLIMSOLL_FIELD(parallel.layers_in_first_stage),
     "layers of the first pipeline rank", kSizeOrZero},
    {"num_layers_in_last_pipeline_stage", kBoth, PLIMSOLL_FIELD(parallel.layers_in_last_stage),
     "layers of the last pipeline rank", kSizeOrZero},
    {"num_layers_per_virtual_pipeline_stage", kBoth, PLIMSOLL_FIELD(parallel.layers_per_virtual_stage),
     "layers of one chunk, instead of the number of chunks"},
    {"account_for_embedding_in_pipeline_split", kBoth, PLIMSOLL_FIELD(parallel.account_for_embedding),
     "the embedding counts as a layer"},
    {"account_for_loss_in_pipeline_split", kBoth, PLIMSOLL_FIELD(parallel.account_for_loss),
     "the loss counts as a layer"},
    {"pipeline_model_parallel_layout", kBoth, Custom{set_layout, "text such as Et*3|(tt|)*29,m|L"},
     "every stage, spelled out"},
    {"microbatch_group_size_per_vp_stage", kBoth, PLIMSOLL_FIELD(parallel.microbatch_group_size),
     "micro-batches that pass one chunk before the next"},
    {"pipeline_schedule", kBoth, PLIMSOLL_FIELD(parallel.schedule), "order of forward and backward passes"},
    {"overlap_p2p_comm", kBoth, PLIMSOLL_FIELD(parallel.overlap_p2p), "pipeline messages overlap with compute"},
    {"overlap_p2p_comm_warmup_flush", kBytes, PLIMSOLL_FIELD(parallel.overlap_p2p_warmup_flush),
     "also in warm-up and flush, with one message more; those are timed as overlapped without it, too"},
    {"deallocate_pipeline_outputs", kBytes, PLIMSOLL_FIELD(parallel.deallocate_outputs), "sent outputs are freed"},
    {"defer_embedding_wgrad_compute", kBytes, PLIMSOLL_FIELD(parallel.defer_embedding_wgrad),
     "weight gradients of the head wait for the flush"},
    {"wgrad_deferral_limit", kBytes, PLIMSOLL_FIELD(parallel.wgrad_deferral_limit),
     "how many micro-batches wait; 0 is all", kSizeOrZero},
    {"overlap_moe_expert_parallel_comm", kBoth, PLIMSOLL_FIELD(parallel.overlap_moe_expert_comm),
     "expert messages of one micro-batch overlap with another's compute"},
    {"delay_wgrad_compute", kNeither, PLIMSOLL_FIELD(parallel.delay_wgrad),
     "weight gradients are computed later; not modelled: a warning and a wider interval"},
    {"tp_comm_overlap", kBoth, PLIMSOLL_FIELD(parallel.tp_comm_overlap), "TP messages overlap through userbuffers"},
};

const Key kBatchKeys[] = {
    {"seq_length", kBoth, PLIMSOLL_FIELD(batch.seq_length), "tokens of one sequence", Range{1, 1 << 27}},
    {"inference_only", kBytes, PLIMSOLL_FIELD(batch.inference_only),
     "forward passes without gradients (Transformers on one stage): no optimizer, no backward; seconds stay a "
     "training step's"},
    {"images_per_sample", kBoth, PLIMSOLL_FIELD(batch.images.per_sample),
     "images of one sequence of a vision-language model", Range{1, 1 << 16}},
    {"image_height", kBoth, PLIMSOLL_FIELD(batch.images.height),
     "pixels of an image as the processor hands it on; 0: what the tower was made for", Range{0, 1 << 16}},
    {"image_width", kBoth, PLIMSOLL_FIELD(batch.images.width), "the same across; 0: image_height", Range{0, 1 << 16}},
    {"image_tiles", kBoth, PLIMSOLL_FIELD(batch.images.tiles),
     "crops that an image is cut into, each as large as the tower's images; 0: one", Range{0, 1 << 12}},
    {"freeze_vision_tower", kBoth, PLIMSOLL_FIELD(batch.images.freeze_tower), "the tower is not trained"},
    {"freeze_multi_modal_projector", kBoth, PLIMSOLL_FIELD(batch.images.freeze_projector),
     "the projector is not trained"},
    {"freeze_language_model", kBoth, PLIMSOLL_FIELD(batch.images.freeze_language),
     "the text's weights are not trained"},
    {"decoder_seq_length", kBoth, PLIMSOLL_FIELD(batch.decoder_length),
     "tokens of the decoder of an encoder-decoder model; 0: seq_length", Range{0, 1 << 27}},
    {"micro_batch_size", kBoth, PLIMSOLL_FIELD(batch.micro_batch), "sequences of one forward pass", Range{1, 1 << 20}},
    {"global_batch_size", kBoth, PLIMSOLL_FIELD(batch.global_batch), "sequences of one optimizer step"},
    {"gradient_accumulation_steps", kBoth, PLIMSOLL_FIELD(batch.accumulation),
     "micro-batches per step, instead of the global batch"},
    {"packed_sequences", kNeither, PLIMSOLL_FIELD(batch.packed),
     "short sequences are packed to seq_length; timed as one sequence: a warning and a wider interval"},
    {"sample_mean", kNeither, PLIMSOLL_FIELD(batch.sample_mean),
     "mean tokens of the data set's samples, cut ones counted as cut; with it fit says what padding and packing make "
     "of them; 0: not known",
     Range{0, 1 << 27}},
    {"sample_cv", kNeither, PLIMSOLL_FIELD(batch.sample_cv), "their standard deviation over their mean, before the cut",
     Range{0, 100}},
    {"sample_max", kNeither, PLIMSOLL_FIELD(batch.sample_max), "the longest of them; 0: they are cut at seq_length",
     Range{0, 1 << 27}},
    {"sample_lengths", kNeither, PLIMSOLL_FIELD(batch.sample_lengths),
     "in place of these three: a file with a length or \"length count\" in a line, or the lengths themselves"},
    {"padding_mask", kBoth, PLIMSOLL_FIELD(batch.padding_mask), "batches hold padding, so attention gets a mask"},
    {"eval_micro_batch_size", kBytes, PLIMSOLL_FIELD(batch.eval_micro_batch),
     "sequences of an evaluation pass; 0: none is run", Range{0, 1 << 20}},
    {"eval_seq_length", kBytes, PLIMSOLL_FIELD(batch.eval_seq_length),
     "tokens of an evaluation sequence; 0: seq_length", Range{0, 1 << 27}},
    {"eval_batches_kept", kBytes, PLIMSOLL_FIELD(batch.eval_batches_kept),
     "evaluation batches whose logits stay on the GPU", Range{0, 1 << 30}},
    {"eval_generated_tokens", kBytes, PLIMSOLL_FIELD(batch.eval_generated),
     "tokens that evaluation writes for every sequence (predict_with_generate); 0: none", Range{0, 1 << 24}},
    {"eval_beams", kBytes, PLIMSOLL_FIELD(batch.eval_beams), "sequences that are followed at once to write them",
     Range{1, 1 << 12}},
    {"eval_logits_fp32", kBytes, PLIMSOLL_FIELD(batch.eval_logits_fp32), "kept evaluation logits are fp32"},
    {"eval_accumulation_steps", kBytes, PLIMSOLL_FIELD(batch.eval_accumulation),
     "evaluation batches after which kept logits go to the host; 0: at the end", Range{0, 1 << 30}},
};

}  // namespace

std::span<const Key> cluster_key_rows() { return kClusterKeys; }
std::span<const Key> parallel_key_rows() { return kParallelKeys; }
std::span<const Key> batch_key_rows() { return kBatchKeys; }

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
// The answer of `fit` on a small Megatron job: books, limits, ranks, and what stands beside torch.
#include "memory/answer.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "job/read.h"
#include "memory/interval.h"
#include "memory/outside.h"

namespace plimsoll::memory {
namespace {

job::Job small_job() {
  job::Job job = job::defaults_for(job::Framework::kMegatronLm);
  model::Architecture& m = job.model;
  m = {};
  m.model_type = "gpt";
  m.hidden = 1024;
  m.vocab = 32000;
  model::Layer layer;
  layer.attention.heads = layer.attention.kv_heads = 16;
  layer.attention.head_dim = 64;
  layer.ffn.width = 4096;
  m.kinds = {layer};
  m.layers.assign(8, 0);
  job.cluster.gpu = cluster::find_gpu("h100").value();
  job.cluster.gpus = 8;
  job.parallel.pipeline = 2;
  job.batch.seq_length = 2048;
  job.batch.global_batch = 16;
  job.precision.params = job.precision.compute = job::DType::kBf16;
  job.kernels.logits = job::DType::kBf16;
  job.kernels.mask_in_dataloader = false;
  job.optimizer.distributed = true;
  return job;
}

job::Job completed(job::Job job) {
  const auto status = job::complete(job);
  EXPECT_TRUE(status) << to_string(status.error());
  return job;
}

Answer answer_of(const job::Job& job, const AskedRanks& asked = {}) {
  auto result = answer(completed(job), asked);
  EXPECT_TRUE(result) << to_string(result.error());
  return *std::move(result);
}

std::int64_t sum_of(const std::vector<Row>& table) {
  std::int64_t sum = 0;
  for (const Row& row : table) sum += row.bytes;
  return sum;
}

const Row* row(const RankAnswer& rank, std::string_view name) {
  for (const Row& r : rank.table)
    if (r.name == name) return &r;
  return nullptr;
}

TEST(Answer, the_table_sums_to_the_device) {
  for (const std::int64_t capacity : {80 * kGiB, 4 * kGiB, kGiB}) {
    job::Job job = small_job();
    job.cluster.gpu.capacity = capacity;
    const Answer a = answer_of(job, {true, {}});
    ASSERT_EQ(a.ranks.size(), 2U);
    for (const RankAnswer& rank : a.ranks) EXPECT_EQ(sum_of(rank.table), capacity);
  }
}

TEST(Answer, the_last_row_is_what_is_free_and_equals_the_headroom) {
  const RankAnswer rank = answer_of(small_job()).ranks.front();
  EXPECT_EQ(rank.table.back().name, "free");
  EXPECT_EQ(rank.table.back().bytes, rank.headroom);
  EXPECT_EQ(rank.headroom, rank.capacity - rank.peak_reserved - rank.outside);
  EXPECT_EQ(rank.device_used, rank.peak_reserved + rank.outside);
}

TEST(Answer, named_tensors_rounding_and_cache_make_up_the_reserved_bytes) {
  const RankAnswer rank = answer_of(small_job()).ranks.front();
  std::int64_t named = 0;
  for (const Alive& alive : rank.alive) named += alive.bytes;
  EXPECT_EQ(named, rank.peak_requested);
  EXPECT_EQ(row(rank, "allocator rounding")->bytes, rank.peak_allocated - named);
  EXPECT_EQ(row(rank, "cached, unused")->bytes, rank.peak_reserved - rank.peak_allocated);
  EXPECT_GE(rank.peak_allocated, rank.peak_requested);
  EXPECT_GE(rank.peak_reserved, rank.peak_allocated);
}

TEST(Answer, only_what_stands_beside_torch_is_marked_as_estimated) {
  const RankAnswer rank = answer_of(small_job()).ranks.front();
  std::int64_t estimated = 0;
  for (const Row& r : rank.table)
    if (r.estimated) estimated += r.bytes;
  EXPECT_EQ(estimated, rank.outside);
  EXPECT_TRUE(row(rank, "CUDA context")->estimated);
  EXPECT_TRUE(row(rank, "NCCL")->estimated);
}

TEST(Answer, the_second_peak_is_of_another_kind_of_moment) {
  const RankAnswer rank = answer_of(small_job()).ranks.front();
  ASSERT_TRUE(rank.second);
  EXPECT_NE(group_of(rank.second->moment), group_of(rank.peak.moment));
  EXPECT_LE(rank.second->allocated, rank.peak.allocated);
  EXPECT_EQ(rank.peak.allocated, rank.peak_allocated);
}

TEST(Answer, a_job_fits_on_exactly_the_bytes_it_uses) {
  job::Job job = small_job();
  const RankAnswer roomy = answer_of(job).ranks.front();
  ASSERT_TRUE(roomy.fits);
  job.cluster.gpu.capacity = roomy.device_used;
  const RankAnswer exact = answer_of(job).ranks.front();
  EXPECT_TRUE(exact.fits);
  EXPECT_EQ(exact.headroom, 0);
  EXPECT_FALSE(exact.out_of_memory);
}

TEST(Answer, a_job_that_does_not_fit_says_where_it_runs_out_and_what_it_would_need) {
  job::Job job = small_job();
  const RankAnswer roomy = answer_of(job).ranks.front();
  job.cluster.gpu.capacity = roomy.outside + roomy.peak_requested - 2 * kMiB;
  const Answer a = answer_of(job);
  const RankAnswer& rank = a.ranks.front();
  EXPECT_FALSE(a.fits);
  EXPECT_FALSE(rank.fits);
  ASSERT_TRUE(rank.out_of_memory);
  EXPECT_GT(rank.out_of_memory->requested, 0);
  EXPECT_EQ(group_of(rank.out_of_memory->moment), group_of(roomy.peak.moment)) << "short by little: at the peak itself";
  EXPECT_EQ(rank.peak_reserved, roomy.peak_reserved) << "what it would need does not depend on the device";
  EXPECT_LT(rank.headroom, 0);
  EXPECT_EQ(rank.table.back().bytes, rank.headroom);
}

// The rank with the highest sum of tensors is pp=1; the allocator's gaps make pp=0 the fuller one.
job::Job gaps_decide() {
  job::ReadOptions options;
  options.framework = job::Framework::kTorchtitan;
  options.model = "smollm2-1.7b";
  options.gpu = "a100-pcie-80gb";
  options.gpus = 4;
  options.overrides = {{"seq_length", "1024"},
                       {"micro_batch_size", "4"},
                       {"global_batch_size", "32"},
                       {"pipeline_model_parallel_size", "2"}};
  auto job = job::read_job({}, options);
  EXPECT_TRUE(job) << to_string(job.error());
  return *std::move(job);
}

TEST(Answer, every_rank_is_walked_before_a_job_is_said_to_fit) {
  job::Job job = gaps_decide();
  const Answer all = *answer(job, {true, {}});
  const RankAnswer& first = all.ranks[0];
  const RankAnswer& second = all.ranks[1];
  ASSERT_GT(all.peak_by_stage[1], all.peak_by_stage[0]) << "tensors point at the second rank";
  ASSERT_GT(first.device_used, second.device_used) << "reserved bytes at the first";
  // Under pressure the allocator gives cached memory back, so the verdict turns somewhere below what it would like.
  for (std::int64_t capacity = first.device_used; capacity > 14 * kGiB; capacity -= 64 * kMiB) {
    job.cluster.gpu.capacity = capacity;
    const Answer shown = *answer(job, {true, {}});
    EXPECT_EQ(answer(job, {})->fits, shown.fits) << capacity;
  }
}

TEST(Answer, the_verdict_does_not_depend_on_the_ranks_that_are_shown) {
  job::Job job = gaps_decide();
  const Answer all = *answer(job, {true, {}});
  for (const std::int64_t capacity : {all.ranks[0].device_used, all.ranks[1].device_used, 80 * kGiB, 8 * kGiB}) {
    job.cluster.gpu.capacity = capacity;
    const Answer worst = *answer(job, {});
    for (const AskedRanks& asked : {AskedRanks{true, {}}, AskedRanks{false, 0}, AskedRanks{false, 1}}) {
      const Answer other = *answer(job, asked);
      EXPECT_EQ(other.fits, worst.fits) << capacity;
      EXPECT_EQ(other.worst_of_all.pp_rank, worst.ranks[0].pp_rank) << capacity;
      EXPECT_EQ(other.host.bytes_per_node, worst.host.bytes_per_node);
    }
    EXPECT_EQ(answer(job, {false, {}, true})->fits, worst.fits) << capacity;
  }
}

TEST(Answer, a_device_smaller_than_its_context_runs_out_while_building) {
  job::Job job = small_job();
  job.cluster.gpu.capacity = kMiB;
  const RankAnswer rank = answer_of(job).ranks.front();
  ASSERT_TRUE(rank.out_of_memory);
  EXPECT_EQ(rank.out_of_memory->moment.phase, step::Phase::kModel);
  EXPECT_EQ(rank.out_of_memory->name, step::Name::kWeight);
}

TEST(Answer, the_allocator_setting_of_the_job_is_used) {
  job::Job job = small_job();
  const AskedRanks first{false, 0};
  const RankAnswer normal = answer_of(job, first).ranks.front();
  job.environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True";
  const RankAnswer expandable = answer_of(job, first).ranks.front();
  EXPECT_EQ(expandable.peak_allocated, expandable.peak_requested) << "no unsplit rests";
  EXPECT_LE(expandable.peak_allocated, normal.peak_allocated);
  job.environment["PYTORCH_ALLOC_CONF"] = "";
  EXPECT_EQ(answer_of(job, first).ranks.front().peak_reserved, normal.peak_reserved) << "the newer name wins";
}

TEST(Answer, a_broken_allocator_setting_is_an_error) {
  job::Job job = small_job();
  job.environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segment:True";
  const auto result = answer(completed(job), {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "unknown allocator setting 'expandable_segment'");
}

TEST(Ranks, the_worst_is_answered_when_none_is_asked_for) {
  const Answer all = answer_of(small_job(), {true, {}});
  const Answer worst = answer_of(small_job());
  ASSERT_EQ(worst.ranks.size(), 1U);
  EXPECT_EQ(worst.ranks.front().device_used, all.ranks[all.worst].device_used);
  EXPECT_EQ(worst.ranks.front().pp_rank, all.ranks[all.worst].pp_rank);
  ASSERT_EQ(worst.peak_by_stage.size(), 2U);
  for (const RankAnswer& rank : all.ranks) {
    EXPECT_EQ(rank.peak_requested, worst.peak_by_stage[static_cast<std::size_t>(rank.pp_rank)]);
    EXPECT_EQ(folded_peak(completed(small_job()), rank.pp_rank).value(), rank.peak_requested);
  }
}

TEST(Ranks, a_given_rank_is_answered) {
  const Answer a = answer_of(small_job(), {false, 1});
  ASSERT_EQ(a.ranks.size(), 1U);
  EXPECT_EQ(a.ranks.front().pp_rank, 1);
}

TEST(Ranks, a_rank_outside_the_pipeline_is_a_usage_error_that_says_which_there_are) {
  for (const std::int64_t rank : {-1, 2}) {
    const auto result = answer(completed(small_job()), {false, rank});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kUsage);
    EXPECT_NE(result.error().message.find("pipeline ranks 0 to 1"), std::string::npos) << result.error().message;
  }
}

TEST(Host, offloaded_state_is_judged_per_node_only_where_the_host_is_known) {
  job::Job job = small_job();
  job.optimizer.precision_aware = true;
  job.optimizer.cpu_offload_fraction = 1;
  job.cluster.gpus_per_node = 8;
  job.cluster.host_memory = 0;
  const Answer unknown = answer_of(job);
  EXPECT_GT(unknown.host.bytes_per_node, 0);
  EXPECT_EQ(unknown.host.bytes_per_node, 8 * unknown.ranks.front().host_bytes);
  EXPECT_TRUE(unknown.host.fits);
  job.cluster.host_memory = unknown.host.bytes_per_node;
  EXPECT_TRUE(answer_of(job).fits) << "exactly enough";
  job.cluster.host_memory -= 1;
  EXPECT_FALSE(answer_of(job).host.fits);
  EXPECT_FALSE(answer_of(job).fits);
}

constexpr std::int64_t kAllocated = 10'000'000'000;

TEST(Interval, surrounds_the_prediction_and_widens_with_what_is_not_modelled) {
  job::Job job = completed(small_job());
  const auto allocated = [&job] { return spread_of(job, 0, kAllocated, kAllocated).allocated; };
  const std::int64_t plain = allocated();
  EXPECT_GT(plain, 0);
  const RankAnswer rank = answer_of(job).ranks.front();
  EXPECT_LT(rank.low, rank.device_used);
  EXPECT_GT(rank.high, rank.device_used);
  job.warnings = {"a: not modelled"};
  EXPECT_NEAR(static_cast<double>(allocated()), static_cast<double>(plain) + 0.05 * kAllocated, 1);
  job.warnings.assign(10, "a: not modelled");
  EXPECT_NEAR(static_cast<double>(allocated()), static_cast<double>(plain) + 0.15 * kAllocated, 1) << "three at most";
}

TEST(Interval, of_reserved_memory_widens_with_what_the_allocator_holds_unused) {
  const job::Job job = completed(small_job());
  const Spread tidy = spread_of(job, 0, kAllocated, kAllocated);
  const Spread torn = spread_of(job, 0, kAllocated, 2 * kAllocated);
  EXPECT_EQ(tidy.allocated, torn.allocated);
  EXPECT_GT(torn.reserved, tidy.reserved + kAllocated / 5);
}

TEST(Interval, of_recorded_modules_is_narrower_than_of_those_known_by_golden_values) {
  job::Job job = completed(small_job());
  job.warnings.clear();
  const auto width = [&job] { return spread_of(job, 0, kAllocated, kAllocated).allocated; };
  job.kernels.implementation = job::Implementation::kLocal;
  const std::int64_t local = width();
  job.kernels.implementation = job::Implementation::kTransformerEngine;
  EXPECT_GT(width(), 10 * local);
}

std::int64_t outside(const job::Job& job, std::string_view name) {
  for (const OutsideItem& item : outside_torch(job)) {
    EXPECT_LE(item.low, item.bytes) << item.name;
    EXPECT_GE(item.high, item.bytes) << item.name;
    if (item.name == name) return item.bytes;
  }
  return 0;
}

TEST(Outside, one_gpu_has_a_context_and_no_communicators) {
  job::Job job = small_job();
  job.parallel = {};
  job.cluster.gpus = 1;
  job = completed(job);
  EXPECT_EQ(outside(job, "CUDA context"), 512 * kMiB);
  EXPECT_EQ(outside(job, "NCCL"), 0);
  job.cluster.gpu = cluster::find_gpu("b200").value();
  EXPECT_EQ(outside(job, "CUDA context"), 768 * kMiB);
}

TEST(Outside, every_parallel_group_of_more_than_one_rank_has_a_communicator) {
  job::Job job = small_job();  // PP 2, DP 4
  job.environment["NCCL_NVLS_ENABLE"] = "0";
  EXPECT_EQ(outside(completed(job), "NCCL"), 2 * 256 * kMiB);
  job.environment.clear();
  EXPECT_EQ(outside(completed(job), "NCCL"), 2 * 384 * kMiB) << "NVLink SHARP buffers on Hopper";
  job.parallel.tensor = 2;
  EXPECT_EQ(outside(completed(job), "NCCL"), 3 * 384 * kMiB);
  job.parallel.context = 2;  // DP 1 now
  EXPECT_EQ(outside(completed(job), "NCCL"), 3 * 384 * kMiB);
}

TEST(Outside, userbuffers_are_nine_hidden_states) {
  job::Job job = small_job();
  job.parallel.tensor = 2;
  job.parallel.sequence_parallel = true;
  job.parallel.tp_comm_overlap = true;
  EXPECT_EQ(outside(completed(job), "TP userbuffers"), 9 * 2 * 2048 * 1024);
}

TEST(Answer, figures_alone_are_those_of_the_whole_answer) {
  for (const std::int64_t pipeline : {1, 2, 4}) {
    for (const bool recomputes : {false, true}) {
      job::Job job = small_job();
      job.parallel.pipeline = pipeline;
      if (recomputes) job.recompute.granularity = job::RecomputeGranularity::kFull;
      AskedRanks asked;
      asked.all = true;
      const Answer whole = answer_of(job, asked);
      asked.figures_only = true;
      const Answer figures = answer_of(job, asked);
      ASSERT_EQ(figures.ranks.size(), whole.ranks.size());
      EXPECT_EQ(figures.fits, whole.fits);
      EXPECT_EQ(figures.worst_of_all.pp_rank, whole.worst_of_all.pp_rank);
      for (std::size_t r = 0; r < whole.ranks.size(); ++r) {
        EXPECT_EQ(figures.ranks[r].peak_requested, whole.ranks[r].peak_requested) << r;
        EXPECT_EQ(figures.ranks[r].peak_allocated, whole.ranks[r].peak_allocated) << r;
        EXPECT_EQ(figures.ranks[r].peak_reserved, whole.ranks[r].peak_reserved) << r;
        EXPECT_EQ(figures.ranks[r].device_used, whole.ranks[r].device_used) << r;
        EXPECT_EQ(figures.ranks[r].high, whole.ranks[r].high) << r;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::memory

// SPDX-License-Identifier: Apache-2.0
// The accuracy of step times that the project promises, held against the measurements it has. A bar is loosened
// only with the reason in the commit.
#include <map>

#include <gtest/gtest.h>

#include "base/file.h"
#include "model/catalog.h"
#include "timing/step_time.h"
#include "truth/score.h"

namespace plimsoll::truth {
namespace {

struct Scored {
  RecordFile file;
  FileScore score;
};

Scored scored(const std::string& name) {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/truth/" + name;
  Scored result;
  result.file = read_records(path, read_file(path).value()).value();
  result.score = score(result.file);
  return result;
}

TEST(TimingTruth, recorded_ranks_take_as_long_as_predicted) {
  const Scored s = scored("megatron-h200.json");
  const Statistics errors = statistics(s.score, s.file, "step_seconds");
  EXPECT_EQ(errors.count, 9U);
  EXPECT_LE(errors.median_pct, 5);
  EXPECT_LE(errors.max_pct, 12);
}

// The median and 90th percentile that hold for a file of so many timed steps, and that most lie inside their interval.
void expect_seconds(const char* name, std::size_t count, double median, double p90) {
  const Scored s = scored(name);
  const Statistics errors = statistics(s.score, s.file, "step_seconds");
  EXPECT_EQ(errors.count, count);
  EXPECT_LE(errors.median_pct, median);
  EXPECT_LE(errors.p90_pct, p90);
  EXPECT_GE(errors.inside, 0.85);
}

// Ranks of which most were never timed before, half of them bound by a host whose own speed halved within a minute.
TEST(TimingTruth, ranks_of_mixtures_and_small_widths_take_about_as_long_as_predicted) {
  expect_seconds("megatron-h200-timed.json", 16, 8, 25);
}

// Recorded and scored after the code that predicts them; the tail is six steps that wait for their host.
TEST(TimingTruth, steps_of_the_trainer_that_no_code_was_written_for) {
  expect_seconds("trainer-h200-fresh.json", 24, 8, 26);
}

// Dense ranks and mixtures, half of them bound by a host that was timed beside them and changed within their steps.
TEST(TimingTruth, ranks_beside_which_the_host_was_measured) { expect_seconds("megatron-h200-beside.json", 20, 5, 20); }

// Of 21 families, on hosts between the speed that the values are of and twice that, each measured beside its step. What
// is left are hosts whose speed changes within a step.
TEST(TimingTruth, steps_of_the_trainer_beside_which_the_host_was_measured) {
  expect_seconds("trainer-h200-beside.json", 34, 8, 20);
}

// With the speed of the host that plimsoll calibrate measures; the tail is checkpointed steps.
TEST(TimingTruth, steps_that_wait_for_a_measured_host_are_predicted) {
  expect_seconds("trainer-h200-probed.json", 21, 8, 25);
}

// Published rows of configurations that no value was fitted to, collected and scored after the code. Dense rows in
// NVFP4 at TP 4 on GB200 are up to 23 % too slow; hybrids are up to 31 % too fast, which their intervals say.
TEST(TimingTruth, published_configurations_that_were_never_seen) {
  const Scored s = scored("throughput-published-blind.json");
  struct Bar {
    const char* kind;
    std::size_t count;
    double median, p90;
  };
  for (const Bar& bar : {Bar{"dense", 34, 3.5, 12}, Bar{"moe", 34, 6, 15}, Bar{"hybrid", 27, 18, 31}}) {
    const Statistics errors = statistics(s.score, s.file, "step_seconds", "kind", bar.kind);
    EXPECT_EQ(errors.count, bar.count) << bar.kind;
    EXPECT_LE(errors.median_pct, bar.median) << bar.kind;
    EXPECT_LE(errors.p90_pct, bar.p90) << bar.kind;
    EXPECT_GE(errors.inside, 0.85) << bar.kind;
  }
}

// Models whose attention is written out (BLOOM, Falcon, gpt-oss) are the worst ones.
TEST(TimingTruth, steps_of_the_trainer_take_as_long_as_predicted) {
  const Scored known = scored("trainer-h200.json");
  const Statistics errors = statistics(known.score, known.file, "step_seconds");
  EXPECT_EQ(errors.count, 25U);
  EXPECT_LE(errors.median_pct, 5);
  EXPECT_LE(errors.p90_pct, 10);
  const Scored more = scored("trainer-h200-steps.json");
  const Statistics others = statistics(more.score, more.file, "step_seconds");
  EXPECT_EQ(others.count, 32U);
  EXPECT_LE(others.median_pct, 8);
  EXPECT_LE(others.p90_pct, 20);
  const Scored blind = scored("trainer-h200-blind.json");
  const Statistics unseen = statistics(blind.score, blind.file, "step_seconds");
  EXPECT_EQ(unseen.count, 18U);
  EXPECT_LE(unseen.median_pct, 8);
  EXPECT_LE(unseen.p90_pct, 20);
}

// Small models that wait for their host: the same step takes up to twice as long a minute later.
TEST(TimingTruth, steps_that_wait_for_their_host_are_predicted_without_a_bias) {
  const Scored s = scored("trainer-h200-host.json");
  const Statistics errors = statistics(s.score, s.file, "step_seconds");
  EXPECT_EQ(errors.count, 26U);
  EXPECT_NEAR(errors.signed_median_pct, 0, 5);
  EXPECT_LE(errors.median_pct, 15);
  EXPECT_GE(errors.inside, 0.85);
}

TEST(TimingTruth, published_dense_throughput_is_predicted) {
  const Scored s = scored("throughput-published.json");
  const Statistics errors = statistics(s.score, s.file, "step_seconds", "kind", "dense");
  EXPECT_GE(errors.count, 73U);
  EXPECT_LE(errors.median_pct, 3.5);
  EXPECT_LE(errors.p90_pct, 9);
  const Statistics others = statistics(s.score, s.file, "step_seconds", "kind", "not Megatron");
  EXPECT_GE(others.count, 12U);
  EXPECT_LE(others.median_pct, 8);
  EXPECT_LE(others.p90_pct, 18);
}

TEST(TimingTruth, published_moe_throughput_is_predicted) {
  const Scored s = scored("throughput-published.json");
  const Statistics errors = statistics(s.score, s.file, "step_seconds", "kind", "moe");
  EXPECT_GE(errors.count, 110U);
  EXPECT_LE(errors.median_pct, 6);
  EXPECT_LE(errors.p90_pct, 15);
}

// Nemotron 3: Mamba-2 mixers and experts. Its rows in NVFP4 (Super) are some 30 % too fast, which is not understood.
TEST(TimingTruth, published_throughput_of_hybrid_models_is_predicted) {
  const Scored s = scored("throughput-published.json");
  const Statistics errors = statistics(s.score, s.file, "step_seconds", "kind", "hybrid");
  EXPECT_EQ(errors.count, 26U);
  EXPECT_LE(errors.median_pct, 10);
  EXPECT_LE(errors.p90_pct, 32);
}

// Rows of one model, machine, release and task whose configuration differs. Measured differences below 2 % are
// within the noise of a run.
TEST(TimingTruth, the_faster_of_two_configurations_is_named) {
  const Scored s = scored("throughput-published.json");
  const auto per_token = [&](const ScoredRow& row, double seconds) {
    const job::Job& job = s.file.records[row.record].job;
    return seconds * static_cast<double>(job.cluster.gpus) /
           (static_cast<double>(*job.batch.global_batch) * static_cast<double>(job.batch.seq_length));
  };
  std::size_t pairs = 0;
  std::size_t right = 0;
  for (const ScoredRow& a : s.score.rows)
    for (const ScoredRow& b : s.score.rows) {
      if (a.record >= b.record) continue;
      auto groups_a = s.file.records[a.record].groups;
      auto groups_b = s.file.records[b.record].groups;
      groups_a.erase("precision");
      groups_b.erase("precision");
      if (groups_a != groups_b || a.id == b.id) continue;
      const double measured = per_token(a, a.measured) / per_token(b, b.measured);
      if (measured > 0.98 && measured < 1.02) continue;
      const double predicted = per_token(a, a.predicted) / per_token(b, b.predicted);
      ++pairs;
      if ((measured < 1) == (predicted < 1)) {
        ++right;
      } else {
        std::printf("wrong way: %s and %s, measured ratio %.3f, predicted %.3f\n", a.id.c_str(), b.id.c_str(), measured,
                    predicted);
      }
    }
  std::printf("%zu of %zu pairs the right way\n", right, pairs);
  EXPECT_GE(pairs, 20U);
  EXPECT_GE(static_cast<double>(right), 0.85 * static_cast<double>(pairs)) << right << " of " << pairs;
}

job::Job llama_70b_on_32_h100(std::int64_t tp, std::int64_t pp) {
  job::Job job = job::defaults_for(job::Framework::kMegatronBridge);
  job.model = model::find_model("llama3-70b").value();
  job.cluster.gpu = cluster::find_gpu("h100-sxm-80gb").value();
  job.cluster.gpus = 32;
  job.parallel.tensor = tp;
  job.parallel.pipeline = pp;
  job.parallel.virtual_pipeline = 5;
  job.parallel.overlap_p2p = job.parallel.sequence_parallel = true;
  job.batch.seq_length = 4096;
  job.batch.global_batch = 32;
  job.precision.params = job.precision.compute = job::DType::kBf16;
  job.precision.fp8 = job::Fp8Recipe::kTensorwise;
  job.recompute.granularity = job::RecomputeGranularity::kSelective;
  job.recompute.modules.core_attn = true;
  return job;
}

double tflops(job::Job job) {
  EXPECT_TRUE(job::complete(job));
  return timing::predict(job).value().tflops_per_gpu;
}

// Llama-3 70B, 32 H100, FP8: 704 TFLOP/s, and what memory-saving changes cost of them. The table does not say so, but
// it is one of userbuffers: with them all five rows come out. Without them the changes that leave TP alone cost the
// same; what TP 8 costs in the table are products in eight pieces and their launches, which NCCL's messages do not
// have.
TEST(TimingTruth, memory_saving_changes_cost_what_was_published) {
  for (const bool userbuffers : {true, false}) {
    job::Job base = llama_70b_on_32_h100(4, 4);
    job::Job more_pp = llama_70b_on_32_h100(4, 8);
    job::Job more_tp = llama_70b_on_32_h100(8, 4);
    job::Job mlp = base;
    mlp.recompute.modules.core_attn = false;
    mlp.recompute.modules.mlp = true;
    job::Job both = mlp;
    both.recompute.modules.core_attn = true;
    for (job::Job* job : {&base, &more_pp, &more_tp, &mlp, &both}) job->parallel.tp_comm_overlap = userbuffers;
    const double reference = tflops(base);
    constexpr double kOff = 0.05;
    if (userbuffers) {
      EXPECT_NEAR(reference, 704, kOff * 704);
      EXPECT_NEAR(tflops(more_tp) / reference, 508.7 / 704, kOff * 508.7 / 704);
    } else {
      EXPECT_LT(reference, 0.95 * 704);
    }
    EXPECT_NEAR(tflops(more_pp) / reference, 668.0 / 704, kOff * 668.0 / 704);
    EXPECT_NEAR(tflops(mlp) / reference, 593.6 / 704, kOff * 593.6 / 704);
    EXPECT_NEAR(tflops(both) / reference, 586.8 / 704, kOff * 586.8 / 704);
    EXPECT_GT(reference, tflops(more_pp));
    EXPECT_GT(tflops(more_pp), tflops(mlp));
    EXPECT_GT(tflops(mlp), tflops(more_tp));
  }
}

// Rows of one configuration in FP8 with one scale per tensor and in MXFP8: the second is slower.
TEST(TimingTruth, fp8_recipes_come_out_in_the_order_that_was_measured) {
  const Scored all = scored("throughput-published.json");
  const auto other = [](std::string id) { return id.replace(id.find("FP8-CS"), 6, "FP8-MX"); };
  std::size_t pairs = 0;
  for (const ScoredRow& cs : all.score.rows) {
    if (cs.id.find("FP8-CS") == std::string::npos) continue;
    for (const ScoredRow& mx : all.score.rows) {
      if (mx.id != other(cs.id)) continue;
      ++pairs;
      EXPECT_GT(mx.measured, cs.measured);
      EXPECT_GT(mx.predicted, cs.predicted) << cs.id;
      EXPECT_NEAR(mx.predicted / cs.predicted, mx.measured / cs.measured, 0.04) << cs.id;
    }
  }
  EXPECT_GE(pairs, 6U);
}

}  // namespace
}  // namespace plimsoll::truth

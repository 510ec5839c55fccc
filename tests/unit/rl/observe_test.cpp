// SPDX-License-Identifier: Apache-2.0
#include "rl/observe/observe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/text.h"
#include "rl/observe/observer.h"

namespace plimsoll::rl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::string data(const std::string& name) {
  return read_file(std::string{PLIMSOLL_SOURCE_DIR} + "/tests/data/rl/observe/" + name).value();
}

Observation observed(const std::string& name, const ObserveOptions& options = {}) {
  const std::string text = data(name);
  return observe({{name, text}}, options);
}

std::vector<Bottleneck> bottlenecks(const Observation& observation) {
  std::vector<Bottleneck> found;
  for (const Finding& finding : observation.findings) found.push_back(finding.bottleneck);
  return found;
}

TEST(Observe, verl_with_an_idle_rollouter_is_trainer_bound) {
  const Observation o = observed("verl_async.jsonl");
  EXPECT_EQ(o.framework, Framework::kVerl);
  EXPECT_THAT(bottlenecks(o), ElementsAre(Bottleneck::kTrainer));
  const Evidence& evidence = o.findings[0].evidence.at(0);
  EXPECT_EQ(evidence.file, "verl_async.jsonl");
  EXPECT_EQ(evidence.line, 8) << "the step with the largest share";
  EXPECT_NEAR(evidence.value, 0.445, 1e-9);
  EXPECT_EQ(evidence.threshold, 0.1);
  EXPECT_THAT(o.findings[0].advice, Contains(Field(&Advice::knob, "trainer.nnodes, trainer.n_gpus_per_node")));
  EXPECT_THAT(o.findings[0].notes, Contains(HasSubstr("async_training.staleness_threshold")))
      << "staleness cannot lift a limit of the trainer";
}

TEST(Observe, a_synchronous_step_is_bound_by_its_larger_phase) {
  const Observation o = observed("verl_console.txt");
  EXPECT_EQ(o.framework, Framework::kVerl);
  EXPECT_THAT(bottlenecks(o), ElementsAre(Bottleneck::kRollout));
  EXPECT_THAT(o.findings[0].evidence[0].text, HasSubstr("of a synchronous step"));
}

TEST(Observe, tools_that_take_longer_than_generation_are_named_before_the_waiting) {
  const Observation o = observed("verl_tools.jsonl");
  EXPECT_THAT(bottlenecks(o), ElementsAre(Bottleneck::kEnvironment, Bottleneck::kRollout));
  EXPECT_THAT(o.findings[0].advice, Contains(Field(&Advice::knob, "actor_rollout_ref.rollout.agent.num_workers")));
}

TEST(Observe, exposed_generation_of_nemo_rl_is_waiting) {
  const Observation o = observed("nemo_rl.jsonl");
  EXPECT_EQ(o.framework, Framework::kNemoRl);
  EXPECT_THAT(bottlenecks(o), ElementsAre(Bottleneck::kRollout));
  EXPECT_NEAR(o.findings[0].evidence[0].value, 64.0 / 152, 1e-9);
}

TEST(Observe, a_tenth_of_a_step_in_weight_updates_is_sync_bound) {
  const Observation o = observed("nemo_rl_console.txt");
  EXPECT_THAT(bottlenecks(o), ElementsAre(Bottleneck::kWeightSync));
  EXPECT_NEAR(o.findings[0].evidence[0].value, 0.2325, 1e-9);
}

TEST(Observe, a_full_cache_with_a_queue_is_the_cause_of_waiting) {
  const Observation o = observed("prime_rl.jsonl");
  EXPECT_EQ(o.framework, Framework::kPrimeRl);
  EXPECT_THAT(bottlenecks(o), ElementsAre(Bottleneck::kKvCache, Bottleneck::kRollout));
  EXPECT_THAT(o.findings[0].advice.at(0), Field(&Advice::knob, "orchestrator.concurrency.max_inflight"));
  EXPECT_THAT(o.findings[0].notes, Contains(HasSubstr("inference.vllm.max_model_len frees no cache")));
}

TEST(Observe, an_asynchronous_step_that_its_work_does_not_fill_is_waiting) {
  const Observation o = observed("openrlhf.jsonl");
  EXPECT_EQ(o.framework, Framework::kOpenRlhf);
  EXPECT_THAT(bottlenecks(o), ElementsAre(Bottleneck::kRollout));
  EXPECT_NEAR(o.findings[0].evidence[0].value, 1 - 66.0 / 122.5, 0.01);
}

TEST(Observe, pauses_of_telescope_are_measured_in_time) {
  const Observation o = observed("telescope_events.jsonl");
  EXPECT_EQ(o.framework, Framework::kTelescope);
  EXPECT_THAT(bottlenecks(o), ElementsAre(Bottleneck::kTrainer));
  EXPECT_NEAR(o.findings[0].evidence[0].value, 4 * 37.0 / 200, 0.005);
  EXPECT_THAT(o.findings[0].advice.at(0), Field(&Advice::knob, "trainer_num_workers"));
  EXPECT_THAT(o.seen, Contains(Field(&Evidence::text, "groups dropped for their age: 2")));
}

TEST(Observe, busy_lanes_beside_a_roomy_cache_are_lane_bound) {
  const Observation o = observed("telescope_vllm.jsonl");
  EXPECT_THAT(bottlenecks(o), ElementsAre(Bottleneck::kLanes));
  EXPECT_THAT(o.findings[0].advice.at(0), Field(&Advice::knob, "max_concurrent_prompts_per_server"));
  EXPECT_THAT(bottlenecks(observed("telescope_vllm.jsonl", {.framework = {}, .lanes = 512})), IsEmpty())
      << "half of the lanes are idle";
}

TEST(Observe, preemptions_in_a_server_log_are_kv_bound) {
  const Observation o = observed("vllm_preempting.log");
  EXPECT_EQ(o.framework, std::nullopt);
  EXPECT_THAT(bottlenecks(o), ElementsAre(Bottleneck::kKvCache));
  EXPECT_THAT(o.findings[0].evidence, SizeIs(2));
  EXPECT_EQ(o.findings[0].evidence[0].line, 9);
  EXPECT_EQ(o.findings[0].evidence[0].value, 4 + 5 + 6 + 7);
  EXPECT_THAT(o.seen, Contains(Field(&Evidence::text, "tokens of KV cache: 340992")));
  EXPECT_THAT(o.missing, Contains(HasSubstr("how long the trainer waits")));
}

TEST(Observe, counters_of_prometheus_are_counted_between_scrapes) {
  const Observation o = observed("vllm_metrics.prom");
  EXPECT_THAT(bottlenecks(o), ElementsAre(Bottleneck::kKvCache));
  EXPECT_EQ(o.findings[0].evidence[0].value, 47);
  EXPECT_THAT(o.findings[0].evidence, SizeIs(2)) << "and 97 % of the cache with 40 waiting";
}

TEST(Observe, retracted_requests_of_sglang_are_preemptions) {
  const Observation o = observed("sglang.log");
  EXPECT_THAT(bottlenecks(o), ElementsAre(Bottleneck::kKvCache));
  EXPECT_EQ(o.findings[0].evidence[0].value, 4);
}

TEST(Observe, a_server_that_did_not_start_comes_first_and_once) {
  const std::string start = data("vllm_start_up.log");
  const std::string metrics = data("verl_async.jsonl");
  const Observation o = observe({{"m.jsonl", metrics}, {"server.log", start}});
  ASSERT_THAT(bottlenecks(o), ElementsAre(Bottleneck::kStartUp, Bottleneck::kTrainer));
  EXPECT_EQ(o.findings[0].evidence[0].file, "server.log");
  EXPECT_EQ(o.findings[0].evidence[0].line, 5);
  EXPECT_THAT(o.findings[0].evidence[0].text, HasSubstr("estimated maximum model length is 34816"));
  EXPECT_EQ(o.findings[0].advice[0].knob, "actor_rollout_ref.rollout.max_model_len");
}

TEST(Observe, neither_side_waiting_is_balanced_and_nothing_seen_is_unknown) {
  EXPECT_EQ(observed("balanced.jsonl").verdict, Verdict::kBalanced);
  const Observation nothing = observed("nothing.log");
  EXPECT_EQ(nothing.verdict, Verdict::kUnknown);
  EXPECT_THAT(nothing.findings, IsEmpty());
  EXPECT_THAT(nothing.missing, SizeIs(3));
  EXPECT_EQ(observe({}).verdict, Verdict::kUnknown);
}

TEST(Observe, one_side_alone_below_its_threshold_stays_unknown) {
  const Observation o = observe({{"a", R"({"time/step": 10, "time/wait_for_batch": 0.1})"}});
  EXPECT_EQ(o.verdict, Verdict::kUnknown);
  EXPECT_THAT(o.missing, Contains(HasSubstr("generation stands still")));
}

TEST(Observe, numbers_that_cannot_be_are_left_out) {
  const Observation o = observe({{"a",
                                  "{\"trainer/idle_ratio\": 1e300, \"rollouter/idle_ratio\": -4}\n"
                                  "{\"trainer/idle_ratio\": null, \"timing_s/step\": 0, \"timing_s/gen\": 5}\n"
                                  "vllm:num_preemptions_total{a=\"b} 12\n"
                                  "vllm:kv_cache_usage_perc NaN\n"
                                  "Avg generation throughput: x tokens/s, Running: reqs\n"}});
  EXPECT_EQ(o.verdict, Verdict::kUnknown);
}

TEST(Observe, broken_and_endless_lines_are_counted_not_fatal) {
  const std::string text = "{\"time/step\": 10,\n" + std::string(3U << 20, 'x') + "\n{]\n";
  const Observation o = observe({{"a.jsonl", text}});
  EXPECT_THAT(o.warnings, SizeIs(2));
  EXPECT_THAT(o.warnings[0], HasSubstr("2 lines"));
  EXPECT_THAT(o.warnings[0], HasSubstr("a.jsonl:1"));
}

TEST(Observe, a_file_cut_at_every_byte_is_read_as_far_as_it_goes) {
  for (const char* name : {"prime_rl.jsonl", "telescope_events.jsonl", "vllm_preempting.log", "vllm_metrics.prom",
                           "verl_console.txt", "nemo_rl_console.txt", "vllm_start_up.log"}) {
    const std::string text = data(name);
    for (std::size_t size = 0; size <= text.size(); ++size) {
      const Observation o = observe({{name, std::string_view{text}.substr(0, size)}});
      ASSERT_EQ(o.verdict == Verdict::kBottleneck, !o.findings.empty()) << name << " at " << size;
      for (const Finding& finding : o.findings)
        for (const Evidence& evidence : finding.evidence) ASSERT_LE(evidence.line, o.lines) << name << " at " << size;
    }
  }
}

TEST(Observe, pieces_of_any_size_give_the_same_judgement) {
  for (const char* name : {"prime_rl.jsonl", "vllm_preempting.log"}) {
    const std::string text = data(name);
    const Observation whole = observe({{name, text}});
    for (const std::size_t piece : {1U, 3U, 100U}) {
      Observer observer;
      observer.begin_file(name);
      for (std::size_t at = 0; at < text.size(); at += piece) observer.feed(std::string_view{text}.substr(at, piece));
      observer.end_file();
      const Observation pieces = judge(observer.take(), {});
      EXPECT_EQ(bottlenecks(pieces), bottlenecks(whole));
      EXPECT_EQ(pieces.understood, whole.understood);
    }
  }
}

TEST(Observe, files_that_cannot_be_read_are_errors) {
  EXPECT_THAT(observe_files({"no-such-file.jsonl"}).error().message, HasSubstr("cannot open no-such-file.jsonl"));
  EXPECT_THAT(observe_files({"."}).error().message, HasSubstr("is a folder"));
  const std::string path = std::string{PLIMSOLL_SOURCE_DIR} + "/tests/data/rl/observe/prime_rl.jsonl";
  EXPECT_EQ(observe_files({path})->findings.size(), 2U);
}

TEST(Observe, every_bottleneck_has_advice_in_every_framework) {
  for (const Framework framework : {Framework::kTelescope, Framework::kVerl, Framework::kOpenRlhf, Framework::kNemoRl,
                                    Framework::kPrimeRl, Framework::kGeneric})
    for (const Bottleneck bottleneck : {Bottleneck::kRollout, Bottleneck::kTrainer, Bottleneck::kKvCache,
                                        Bottleneck::kLanes, Bottleneck::kEnvironment, Bottleneck::kWeightSync})
      EXPECT_THAT(advice_for(bottleneck, framework), Not(IsEmpty()))
          << name_of(framework) << " " << text_of(bottleneck);
}

TEST(Observe, a_large_file_is_read_at_a_steady_size) {
  Observer observer;
  observer.begin_file("big.log");
  const std::string text = data("vllm_preempting.log");
  for (int i = 0; i < 2000; ++i) observer.feed(text);
  observer.end_file();
  const Measures measures = observer.take();
  EXPECT_EQ(measures.lines, 2000 * 12);
  EXPECT_LE(measures.preemptions.series.size(), 1U);
}

}  // namespace
}  // namespace plimsoll::rl

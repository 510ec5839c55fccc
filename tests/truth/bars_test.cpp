// SPDX-License-Identifier: Apache-2.0
// The accuracy that the project promises, held against every measurement it has. A bar is loosened only
// with the reason in the commit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "job/pipeline_layout.h"
#include "model/parameters.h"
#include "step/program.h"
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

void expect_within(const Statistics& s, double median, double p90, double worst) {
  EXPECT_GT(s.count, 0U);
  EXPECT_LE(s.median_pct, median);
  EXPECT_LE(s.p90_pct, p90);
  EXPECT_LE(s.max_pct, worst);
}

TEST(Truth, recorded_megatron_ranks_are_predicted_to_a_tenth_of_a_percent) {
  const Scored s = scored("megatron-h200.json");

  EXPECT_EQ(s.score.scored, s.score.records);
  expect_within(statistics(s.score, s.file, "peak_allocated"), 0.01, 0.1, 0.3);
}

// Random jobs recorded after the prediction code was finished.
TEST(Truth, megatron_ranks_recorded_afterwards_are_predicted_as_well) {
  const Scored s = scored("megatron-h200-blind.json");

  EXPECT_EQ(s.score.scored, s.score.records);
  expect_within(statistics(s.score, s.file, "peak_allocated"), 0.15, 0.6, 1.5);
}

// One checkpointed mixture keeps 64 MiB for each layer between steps that nothing explains yet (1.6 % of its peak).
TEST(Truth, timed_megatron_ranks_are_predicted_as_well) {
  const Scored s = scored("megatron-h200-timed.json");

  const Statistics errors = statistics(s.score, s.file, "peak_allocated");
  EXPECT_EQ(errors.count, 14U);
  expect_within(errors, 0.01, 0.5, 1.6);
}

TEST(Truth, steps_of_the_trainer_that_no_code_was_written_for_are_predicted) {
  const Scored s = scored("trainer-h200-fresh.json");

  EXPECT_EQ(s.score.scored, s.score.records);
  expect_within(statistics(s.score, s.file, "peak_allocated"), 0.01, 0.05, 0.1);
  expect_within(statistics(s.score, s.file, "peak_reserved"), 0.1, 0.5, 2);
}

TEST(Truth, reserved_memory_of_recorded_megatron_ranks_is_close) {
  const Scored s = scored("megatron-h200.json");

  expect_within(statistics(s.score, s.file, "peak_reserved"), 0.3, 2, 13);
}

TEST(Truth, reserved_memory_of_transformers_and_fsdp2_runs_is_close) {
  for (const char* name : {"transformers-h200.json", "transformers-h200-more.json", "transformers-h200-blind.json"}) {
    const Scored s = scored(name);
    expect_within(statistics(s.score, s.file, "peak_reserved"), 0.1, 2, 4);
  }
}

TEST(Truth, reserved_memory_under_expandable_segments_is_predicted) {
  for (const char* name : {"megatron-h200.json", "megatron-h200-blind.json", "transformers-h200.json"}) {
    const Scored s = scored(name);
    expect_within(statistics(s.score, s.file, "peak_reserved", "allocator", "expandable_segments:True"), 0.5, 0.5, 0.5);
  }
}

TEST(Truth, recorded_transformers_and_fsdp2_runs_are_predicted) {
  const Scored s = scored("transformers-h200.json");

  EXPECT_EQ(s.score.scored, s.score.records);
  expect_within(statistics(s.score, s.file, "peak_allocated"), 0.1, 0.6, 1.5);
}

TEST(Truth, transformers_runs_of_other_families_are_predicted_as_well) {
  for (const char* name : {"transformers-h200-more.json", "transformers-h200-blind.json"}) {
    const Scored s = scored(name);

    EXPECT_EQ(s.score.scored, s.score.records) << name;
    expect_within(statistics(s.score, s.file, "peak_allocated"), 0.1, 0.6, 1.5);
  }
}

// What `fit` answers to a config.json and TrainingArguments. The compiled run has a bar of its own.
TEST(Truth, recorded_runs_of_the_trainer_are_predicted) {
  const Scored s = scored("trainer-h200.json");

  EXPECT_EQ(s.score.scored, s.score.records);
  const Statistics plain = statistics(s.score, s.file, "peak_allocated", "compiled", "no");
  expect_within(plain, 0.01, 0.02, 0.1);
  const Statistics compiled = statistics(s.score, s.file, "peak_allocated", "compiled", "yes");
  expect_within(compiled, 5, 5, 5);
  expect_within(statistics(s.score, s.file, "peak_reserved"), 0.1, 2, 4);
}

TEST(Truth, families_of_transformers_are_predicted) {
  const Scored s = scored("trainer-families-h200.json");

  EXPECT_EQ(s.score.scored, s.score.records);
  expect_within(statistics(s.score, s.file, "peak_allocated"), 0.05, 0.3, 0.8);
  expect_within(statistics(s.score, s.file, "peak_reserved"), 0.3, 2, 8);
}

// Recorded after the code that predicts them; the blind third was opened to be scored.
TEST(Truth, further_steps_of_encoders_and_decoders_are_predicted) {
  constexpr double kNoBar = 1e9;
  for (const char* name : {"further-h200.json", "further-h200-blind.json"}) {
    const Scored s = scored(name);

    EXPECT_EQ(s.score.scored, s.score.records) << name;
    expect_within(statistics(s.score, s.file, "peak_allocated"), 0.1, 0.2, 0.3);
    expect_within(statistics(s.score, s.file, "peak_reserved"), 0.2, kNoBar, kNoBar);
  }
}

// Recorded before their families were written, and steps of several micro-batches; the blind third was opened once.
// Steps that came to another figure when they were run again, the same requests being made: the driver had put segments
// elsewhere. Told by the two measured figures alone.
std::set<std::string> not_repeatable() {
  constexpr double kAlike = 0.002;
  std::map<std::string, double> again;
  for (const ScoredRow& row : scored("trainer-h200-again.json").score.rows)
    if (row.quantity == "peak_allocated") again[row.id.substr(std::string_view("again-").size())] = row.measured;
  std::set<std::string> found;
  for (const char* name : {"trainer-families-h200.json", "models-h200.json", "late-h200.json"})
    for (const ScoredRow& row : scored(name).score.rows) {
      const auto other = again.find(row.id);
      if (row.quantity != "peak_allocated" || other == again.end()) continue;
      if (std::abs(other->second / row.measured - 1) > kAlike) found.insert(row.id);
    }
  return found;
}

TEST(Truth, late_families_and_accumulated_gradients_are_predicted) {
  constexpr double kNoBar = 1e9;
  const std::set<std::string> left_out = not_repeatable();
  EXPECT_LE(left_out.size(), 3U);
  for (const char* name : {"late-h200.json", "late-h200-blind.json"}) {
    Scored s = scored(name);

    EXPECT_EQ(s.score.scored, s.score.records) << name;
    expect_within(statistics(s.score, s.file, "peak_allocated"), 0.2, kNoBar, 3);
    expect_within(statistics(s.score, s.file, "peak_reserved"), 0.4, kNoBar, kNoBar);
    std::erase_if(s.score.rows, [&left_out](const ScoredRow& row) { return left_out.contains(row.id); });
    expect_within(statistics(s.score, s.file, "peak_allocated"), 0.2, 0.5, 1);
  }
}

// What issue 14 asks of every step of the Trainer.
TEST(Truth, steps_of_the_trainer_are_predicted_to_a_hundredth_of_a_percent) {
  for (const char* quantity : {"peak_allocated", "peak_reserved"}) {
    SCOPED_TRACE(quantity);
    std::vector<double> errors;
    for (const char* name :
         {"trainer-h200.json", "trainer-h200-blind.json", "trainer-h200-fresh.json", "trainer-h200-steps.json",
          "trainer-families-h200.json", "trainer-h200-again.json", "models-h200.json", "models-h200-blind.json",
          "further-h200.json", "further-h200-blind.json", "late-h200.json", "late-h200-blind.json"})
      for (const ScoredRow& row : scored(name).score.rows)
        if (row.quantity == quantity) errors.push_back(std::abs(100 * (row.predicted / row.measured - 1)));
    std::ranges::sort(errors);
    const auto at = [&errors](double share) {
      return errors.at(static_cast<std::size_t>(share * static_cast<double>(errors.size() - 1)));
    };
    const bool allocated = std::string_view(quantity) == "peak_allocated";
    fmt::print("{}: {} peaks, median {:.4f}, p90 {:.3f}, worst {:.2f} %\n", quantity, errors.size(), at(0.5), at(0.9),
               errors.back());
    EXPECT_LE(at(0.5), allocated ? 0.01 : 0.05);
    EXPECT_LE(at(0.9), allocated ? 0.25 : 1);
    EXPECT_LE(errors.back(), allocated ? 3 : 7);
  }
}

TEST(Truth, parameters_of_every_recorded_family_are_exact) {
  for (const char* name : {"trainer-h200.json", "trainer-families-h200.json"}) {
    const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/truth/" + name;
    const std::string text = read_file(path).value();
    const RecordFile file = read_records(path, text).value();
    const document::Node root = document::parse_json(text).value();
    for (std::size_t i = 0; i < file.records.size(); ++i)
      EXPECT_EQ(model::count_parameters(file.records[i].job.model).total,
                integer_or(root.find("records")->items[i], "parameters", 0))
          << file.records[i].id;
  }
}

// Searches add measured layers instead of walking them; they must see the same peak in every family.
TEST(Truth, folded_steps_of_every_recorded_family_reach_the_walked_peak) {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/truth/trainer-families-h200.json";
  const RecordFile file = read_records(path, read_file(path).value()).value();
  for (const Record& record : file.records) {
    const auto layout = job::pipeline_layout(record.job);
    ASSERT_TRUE(layout) << record.id;
    step::Tape walked(true);
    (void)step::run_rank(record.job, *layout, 0, walked, false);
    step::Tape folded;
    (void)step::run_rank(record.job, *layout, 0, folded, true);
    EXPECT_EQ(folded.peak(), walked.peak()) << record.id;
  }
}

TEST(Truth, runs_under_other_allocator_settings_are_predicted) {
  const Scored s = scored("allocator-h200.json");

  expect_within(statistics(s.score, s.file, "peak_allocated"), 0.1, 0.6, 1.5);
}

TEST(Truth, vision_language_speech_and_state_space_models_are_predicted) {
  constexpr double kNoBar = 1e9;
  for (const char* name : {"models-h200.json", "models-h200-blind.json"}) {
    const Scored s = scored(name);

    EXPECT_GE(static_cast<double>(s.score.scored), 0.85 * static_cast<double>(s.score.records)) << name;
    expect_within(statistics(s.score, s.file, "peak_allocated"), 0.2, 0.5, 1.5);
    expect_within(statistics(s.score, s.file, "peak_reserved"), 0.5, 5, kNoBar);
  }
}

TEST(Truth, golden_values_of_megatron_are_predicted) {
  const Scored s = scored("megatron-golden.json");

  EXPECT_GE(static_cast<double>(s.score.scored), 0.97 * static_cast<double>(s.score.records));
  for (const Skipped& skipped : s.score.skipped) EXPECT_FALSE(skipped.reason.empty()) << skipped.id;
  constexpr double kNoBar = 1e9;
  expect_within(statistics(s.score, s.file, "peak_allocated"), 0.5, 3, kNoBar);
  expect_within(statistics(s.score, s.file, "peak_allocated", "gpu", "H100"), 1.5, 5, kNoBar);
  expect_within(statistics(s.score, s.file, "peak_allocated", "gpu", "GB200"), 1.5, 5, kNoBar);
  expect_within(statistics(s.score, s.file, "peak_allocated", "gpu", "A100"), 3, 9, kNoBar);
}

// Tests of which no mechanism was settled on a figure, collected after the code: at first 0.26 and 3.7 %. PyTorch's
// larger workspaces on Blackwell, those of userbuffers and losses of fp32 logits were corrected with them in view.
TEST(Truth, golden_values_of_other_tests_are_predicted_as_well) {
  const Scored s = scored("megatron-golden-blind.json");

  EXPECT_EQ(s.score.records, 445U);
  EXPECT_GE(static_cast<double>(s.score.scored), 0.95 * static_cast<double>(s.score.records));
  constexpr double kNoBar = 1e9;
  const Statistics errors = statistics(s.score, s.file, "peak_allocated");
  expect_within(errors, 0.5, 3, kNoBar);
  EXPECT_GE(errors.inside, 0.85);
}

// Two records that differ in one knob: the sign of the change must be right.
std::string without_knob(const document::Node& node, const std::string& knob) {
  document::Node copy = node;
  std::string key;
  for (const char* table : {"model", "parallel", "train", "rank"})
    for (const auto& [name, value] : table_of(copy, table).members)
      if (name != knob) key += name + "=" + document::to_json(value) + ";";
  if (knob != "allocator") key += text_of(copy, "allocator");
  return key + std::to_string(integer_or(copy, "world_size", 0));
}

struct Coverage {
  double inside = 0;
  double half_width_pct = 0;
};

// Of the 90 % intervals of all records of these files together.
Coverage coverage_of(std::initializer_list<const char*> names, std::string_view quantity) {
  double inside = 0;
  double width = 0;
  double count = 0;
  for (const char* name : names) {
    const Scored s = scored(name);
    const Statistics stats = statistics(s.score, s.file, quantity);
    const auto records = static_cast<double>(stats.count);
    inside += stats.inside * records;
    width += stats.half_width_pct * records;
    count += records;
  }
  return {inside / count, width / count};
}

// An interval that holds less is a promise broken, one that holds everything says nothing.
void expect_calibrated(const Coverage& coverage, double most_half_width_pct) {
  EXPECT_GE(coverage.inside, 0.85);
  EXPECT_LE(coverage.inside, 0.97);
  EXPECT_LE(coverage.half_width_pct, most_half_width_pct);
}

TEST(Truth, nine_in_ten_measured_peaks_lie_in_their_interval) {
  for (const char* quantity : {"peak_allocated", "peak_reserved"}) {
    SCOPED_TRACE(quantity);
    expect_calibrated(coverage_of({"megatron-h200.json", "megatron-h200-blind.json"}, quantity), 1.5);
    expect_calibrated(
        coverage_of({"transformers-h200.json", "transformers-h200-more.json", "transformers-h200-blind.json",
                     "trainer-h200-fresh.json", "trainer-h200-beside.json"},
                    quantity),
        1.5);
  }
  expect_calibrated(coverage_of({"megatron-golden.json"}, "peak_allocated"), 5);
}

// Records that the prediction was not written with. (The widths had them in sight.)
TEST(Truth, intervals_hold_on_ranks_and_runs_recorded_afterwards) {
  EXPECT_GE(coverage_of({"megatron-h200-blind.json"}, "peak_reserved").inside, 0.85);
  EXPECT_GE(coverage_of({"transformers-h200-blind.json"}, "peak_reserved").inside, 0.85);
}

TEST(Truth, the_sign_of_every_one_knob_difference_is_right) {
  const Scored s = scored("megatron-h200.json");
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/truth/megatron-h200.json";
  const document::Node root = document::parse_json(read_file(path).value()).value();
  const auto& nodes = root.find("records")->items;
  std::vector<const ScoredRow*> row_of(nodes.size(), nullptr);
  for (const ScoredRow& row : s.score.rows)
    if (row.quantity == "peak_allocated") row_of[row.record] = &row;

  std::size_t pairs = 0;
  for (const char* knob : {"recompute", "allocator", "grad_reduce_in_fp32", "pp", "tp", "vpp", "seq", "micro_batch",
                           "distributed_optimizer", "cross_entropy_loss_fusion", "sequence_parallel"}) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (std::size_t j = i + 1; j < nodes.size(); ++j) {
        if (without_knob(nodes[i], knob) != without_knob(nodes[j], knob)) continue;
        const double measured = row_of[j]->measured - row_of[i]->measured;
        const double predicted = row_of[j]->predicted - row_of[i]->predicted;
        ++pairs;
        EXPECT_GE(measured * predicted, 0) << knob << ": " << row_of[i]->id << " and " << row_of[j]->id << " measured "
                                           << measured << " predicted " << predicted;
      }
    }
  }
  EXPECT_GT(pairs, 5U);
}

}  // namespace
}  // namespace plimsoll::truth

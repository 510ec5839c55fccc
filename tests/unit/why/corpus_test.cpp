// SPDX-License-Identifier: Apache-2.0
// The labelled logs: the share of right answers, no confident wrong one, and every figure read.
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "why/support.h"

namespace plimsoll::why {
namespace {

std::vector<Case> all() {
  std::vector<Case> cases = corpus();
  for (Case& one : failures()) cases.push_back(std::move(one));
  return cases;
}

TEST(Corpus, ninety_five_of_a_hundred_are_right_and_ninety_nine_among_the_first_two) {
  std::size_t first = 0;
  std::size_t two = 0;
  const std::vector<Case> cases = all();
  for (const Case& one : cases) {
    const Answer answer = answer_for(one.text);
    first += answer.cause() == one.cause ? 1 : 0;
    two += answer.cause() == one.cause || answer.second() == one.cause ? 1 : 0;
    if (answer.cause() != one.cause)
      std::printf("%s: wanted %s, got %s (%.2f), then %s\n", one.name.c_str(), one.cause.c_str(),
                  answer.cause().c_str(), answer.diagnosis.confidence, answer.second().c_str());
  }
  EXPECT_GE(first * 100, cases.size() * 95) << first << " of " << cases.size();
  // One recording is labelled by the name of the program that made it; its traceback ends in forward.
  EXPECT_GE((two + 1) * 100, cases.size() * 99) << two << " of " << cases.size();
}

TEST(Corpus, no_wrong_answer_is_given_with_confidence) {
  for (const Case& one : all()) {
    const Answer answer = answer_for(one.text);
    if (answer.cause() != one.cause) {
      EXPECT_LE(answer.diagnosis.confidence, 0.9) << one.name;
    }
  }
}

TEST(Corpus, probabilities_are_a_distribution_and_ordered) {
  for (const Case& one : all()) {
    const Answer answer = answer_for(one.text);
    double sum = 0;
    double before = 1;
    for (const Candidate& candidate : answer.diagnosis.candidates) {
      EXPECT_LE(candidate.probability, before) << one.name;
      before = candidate.probability;
      sum += candidate.probability;
      EXPECT_FALSE(candidate.because.empty()) << one.name;
    }
    EXPECT_LE(sum, 1.0) << one.name;
  }
}

// The figures of a record are printed as text with a unit.
void expect_figure(const Case& one, const char* key, const std::optional<std::int64_t>& read) {
  const document::Node* numbers = one.record.find("numbers");
  const document::Node* value = numbers == nullptr ? nullptr : numbers->find(key);
  if (value == nullptr || !value->is_string()) return;
  std::string text = value->text;
  const auto bytes = parse_bytes(text == "0 bytes" ? "0" : text);
  if (!bytes) return;
  ASSERT_TRUE(read.has_value()) << one.name << " " << key;
  EXPECT_EQ(*read, *bytes) << one.name << " " << key;
}

TEST(Corpus, every_figure_of_every_allocator_message_is_read) {
  for (const Case& one : corpus()) {
    const std::string kind = one.record.find("message_kind")->text;
    if (!kind.starts_with("torch_oom") && !kind.starts_with("npu_oom") && kind != "fsdp_clone_warning") continue;
    const Answer answer = answer_for(one.text);
    const OomNumbers& oom = answer.diagnosis.numbers;
    expect_figure(one, "request", oom.request);
    expect_figure(one, "total", oom.total);
    expect_figure(one, "free", oom.free);
    expect_figure(one, "allocated", oom.allocated);
    expect_figure(one, "reserved", oom.reserved);
    expect_figure(one, "reserved_unallocated", oom.reserved_unallocated);
    expect_figure(one, "this_process", oom.this_process);
    if (const document::Node* others = one.record.find("numbers")->find("other_processes")) {
      EXPECT_EQ(oom.processes.size(), others->items.size()) << one.name;
    }
  }
}

TEST(Corpus, recordings_give_all_figures_of_the_newest_message) {
  for (const Case& one : failures()) {
    if (one.text.find("Tried to allocate") == std::string::npos) continue;
    const Answer answer = answer_for(one.text);
    const OomNumbers& oom = answer.diagnosis.numbers;
    EXPECT_TRUE(oom.request && oom.gpu && oom.total && oom.free && oom.this_process && oom.allocated &&
                oom.reserved_unallocated)
        << one.name;
    EXPECT_EQ(oom.allowed.has_value(), one.text.find("allowed;") != std::string::npos) << one.name;
    EXPECT_EQ(oom.private_pools.has_value(), one.text.find("private pools") != std::string::npos) << one.name;
  }
}

TEST(Corpus, evidence_quotes_lines_that_are_in_the_log) {
  for (const Case& one : all()) {
    const Answer answer = answer_for(one.text);
    if (!answer.diagnosis.failure) continue;
    ASSERT_FALSE(answer.diagnosis.evidence.empty()) << one.name;
    const std::vector<std::string> lines = lines_of(one.text);
    for (const Evidence& evidence : answer.diagnosis.evidence) {
      EXPECT_GE(evidence.line, 1) << one.name;
      EXPECT_LE(static_cast<std::size_t>(evidence.line), lines.size()) << one.name;
    }
  }
}

// Logs written for these tests, in the words of other frameworks and versions; the folder is the cause.
TEST(Stories, every_cause_is_named_first) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data_folder() / "stories")) {
    if (!entry.is_regular_file()) continue;
    const Answer answer = answer_for(read_data(entry.path()));
    EXPECT_EQ(answer.cause(), entry.path().parent_path().filename().string()) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 60U);
}

TEST(Corpus, the_failing_rank_is_named) {
  std::size_t named = 0;
  std::size_t known = 0;
  for (const Case& one : corpus()) {
    const document::Node* failing = one.record.find("ranks")->find("failing");
    if (failing == nullptr || !failing->is_array()) continue;
    ++known;
    const Answer answer = answer_for(one.text);
    for (const document::Node& rank : failing->items)
      if (answer.diagnosis.rank && rank.integer == *answer.diagnosis.rank) {
        ++named;
        break;
      }
  }
  EXPECT_GE(named * 100, known * 80) << named << " of " << known;
}

}  // namespace
}  // namespace plimsoll::why

// SPDX-License-Identifier: Apache-2.0
// Evidence from beside the log: what a snapshot and a job do to the causes that the log leaves open.
#include <gtest/gtest.h>

#include "answer/ballot.h"
#include "answer/why_snapshot.h"
#include "base/bytes.h"

namespace plimsoll::answer {
namespace {

using why::Cause;

why::Diagnosis open_question() {
  why::Diagnosis diagnosis;
  diagnosis.resource = why::Resource::kDevice;
  diagnosis.cause = Cause::kGenuineCapacity;
  diagnosis.confidence = 0.6;
  diagnosis.candidates = {{Cause::kGenuineCapacity, 3, 0.6, "full", ""},
                          {Cause::kFragmentation, 2, 0.3, "cached", "weaker evidence"},
                          {Cause::kMemoryLeak, 1, 0.1, "rises", "weaker evidence"}};
  diagnosis.numbers.request = 4 * kGiB;
  return diagnosis;
}

double sum_of(const why::Diagnosis& diagnosis) {
  double sum = 0;
  for (const why::Candidate& one : diagnosis.candidates) sum += one.probability;
  return sum;
}

SnapshotEvidence evidence(std::int64_t cached, std::int64_t largest) {
  SnapshotEvidence found;
  found.reserved = 70 * kGiB;
  found.in_use = found.reserved - cached;
  found.cached = cached;
  found.largest_free = largest;
  return found;
}

TEST(SnapshotEvidence, pieces_confirm_fragmentation_and_name_who_pins_them) {
  why::Diagnosis diagnosis = open_question();
  SnapshotEvidence found = evidence(9 * kGiB, kGiB);
  found.pinned = 8 * kGiB;
  found.pinned_by = {{8 * kGiB, "model.py:21 keep_mask"}};
  settle_by_snapshot(found, diagnosis);
  EXPECT_EQ(diagnosis.cause, Cause::kFragmentation);
  EXPECT_GE(diagnosis.confidence, 0.9);
  EXPECT_NE(diagnosis.candidates.front().because.find("model.py:21 keep_mask"), std::string::npos);
  EXPECT_LE(sum_of(diagnosis), 1.0001);
}

TEST(SnapshotEvidence, too_little_in_all_pieces_rules_fragmentation_out) {
  why::Diagnosis diagnosis = open_question();
  settle_by_snapshot(evidence(kGiB, kGiB), diagnosis);
  EXPECT_EQ(diagnosis.cause, Cause::kGenuineCapacity);
  EXPECT_GT(diagnosis.confidence, 0.8);
  for (const why::Candidate& one : diagnosis.candidates)
    if (one.cause == Cause::kFragmentation) {
      EXPECT_LE(one.probability, 0.01);
      EXPECT_NE(one.against.find("1.00 GiB"), std::string::npos);
    }
}

TEST(SnapshotEvidence, what_grows_is_the_reason) {
  why::Diagnosis diagnosis = open_question();
  SnapshotEvidence found = evidence(kGiB, kGiB);
  found.steps = 12;
  found.by_optimizer = true;
  found.leaks = {{512 * kMiB, 6 * kGiB, "loop.py:14 log_loss"}};
  settle_by_snapshot(found, diagnosis);
  EXPECT_EQ(diagnosis.cause, Cause::kMemoryLeak);
  EXPECT_NE(diagnosis.candidates.front().because.find("512.00 MiB more after each step, made at loop.py:14 log_loss"),
            std::string::npos);
}

TEST(SnapshotEvidence, growth_that_is_nothing_beside_the_rest_is_no_leak) {
  why::Diagnosis diagnosis = open_question();
  SnapshotEvidence found = evidence(kGiB, kGiB);
  found.steps = 12;
  found.leaks = {{kMiB, 12 * kMiB, "loop.py:14 log_loss"}};
  settle_by_snapshot(found, diagnosis);
  EXPECT_NE(diagnosis.cause, Cause::kMemoryLeak);
}

TEST(SnapshotEvidence, a_steady_history_rules_a_leak_out) {
  why::Diagnosis diagnosis = open_question();
  put_first(diagnosis, Cause::kMemoryLeak, 0.7, "rises");
  SnapshotEvidence found = evidence(kGiB, kGiB);
  found.steps = 12;
  settle_by_snapshot(found, diagnosis);
  EXPECT_NE(diagnosis.cause, Cause::kMemoryLeak);
}

TEST(SnapshotEvidence, says_nothing_about_other_resources_and_phases) {
  why::Diagnosis host = open_question();
  host.resource = why::Resource::kHost;
  settle_by_snapshot(evidence(9 * kGiB, kGiB), host);
  EXPECT_EQ(host.cause, Cause::kGenuineCapacity);
  why::Diagnosis saving = open_question();
  saving.cause = Cause::kCheckpointSpike;
  saving.candidates.front().cause = Cause::kCheckpointSpike;
  settle_by_snapshot(evidence(9 * kGiB, kGiB), saving);
  EXPECT_EQ(saving.cause, Cause::kCheckpointSpike);
}

TEST(Ballot, the_only_cause_is_never_ruled_out) {
  why::Diagnosis diagnosis = open_question();
  diagnosis.candidates.resize(1);
  rule_out(diagnosis, Cause::kGenuineCapacity, "no");
  EXPECT_EQ(diagnosis.confidence, 0.6);
}

}  // namespace
}  // namespace plimsoll::answer

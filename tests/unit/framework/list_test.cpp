// SPDX-License-Identifier: Apache-2.0
// What every row of framework/list.h must hold, so that a new one cannot be half there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "emit/emit.h"
#include "job/format.h"
#include "why/rungs.h"

namespace plimsoll {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(FrameworkList, every_framework_stands_at_its_own_row) {
  for (const job::Framework framework : job::all_frameworks()) {
    const job::FrameworkFacts& facts = job::facts_of(framework);
    EXPECT_EQ(facts.id, framework) << facts.name;
    EXPECT_NE(facts.set_defaults, nullptr) << facts.name;
    EXPECT_FALSE(facts.aliases().empty()) << facts.name;
    EXPECT_FALSE(facts.two_halves.empty()) << facts.name;
  }
}

TEST(FrameworkList, a_name_or_word_means_one_framework) {
  for (const job::Framework framework : job::all_frameworks()) {
    EXPECT_EQ(job::from_name<job::Framework>(job::name_of(framework)), framework);
    EXPECT_EQ(emit::target_from(job::name_of(framework)), emit::target_of(framework));
  }
  std::set<std::string_view> names;
  for (const job::FrameworkFacts* facts : job::kFrameworkFacts) EXPECT_TRUE(names.insert(facts->name).second);
}

TEST(FrameworkList, each_assumption_is_of_one_framework) {
  std::map<job::Assumed, int> times;
  for (const job::FrameworkFacts* facts : job::kFrameworkFacts) ++times[facts->assumed];
  for (const job::Assumed where : {job::Assumed::kForOneGpu, job::Assumed::kForManyGpus, job::Assumed::kForPlans})
    EXPECT_EQ(times[where], 1) << static_cast<int>(where);
}

// A framework that shards in its own way knows that way, and starts with it.
TEST(FrameworkList, defaults_agree_with_what_a_framework_says_of_itself) {
  for (const job::FrameworkFacts* facts : job::kFrameworkFacts) {
    const job::Job job = job::defaults_for(facts->id);
    EXPECT_EQ(job.sharding.kind, facts->own_sharding) << facts->name;
    if (facts->own_sharding != job::ShardingKind::kNone) {
      EXPECT_NE(facts->shardings & job::bit(facts->own_sharding), 0) << facts->name;
    }
    EXPECT_EQ(facts->runs_hub_models, job.kernels.implementation == job::Implementation::kTransformers) << facts->name;
    EXPECT_TRUE(facts->has_pipeline || !facts->splits_model) << facts->name;
  }
}

TEST(FrameworkList, every_kind_of_file_has_one_reader) {
  std::map<job::FileKind, int> readers;
  for (const job::Format& format : job::formats()) ++readers[format.kind];
  for (const auto& [kind, count] : readers) EXPECT_EQ(count, 1) << static_cast<int>(kind);
  const std::set<job::FileKind> own = {job::FileKind::kJob, job::FileKind::kSafetensorsIndex};
  for (const job::TextSign& sign : job::text_signs()) EXPECT_TRUE(readers.contains(sign.kind));
  for (const job::TableSign& sign : job::table_signs())
    EXPECT_TRUE(readers.contains(sign.kind) || own.contains(sign.kind)) << static_cast<int>(sign.kind);
}

TEST(FrameworkList, logs_tell_frameworks_apart_by_their_marks) {
  std::set<int> precedences;
  for (const why::Framework framework : why::all_speakers()) {
    const why::Speaker* speaker = why::speaker_of(framework);
    ASSERT_NE(speaker, nullptr);
    EXPECT_THAT(speaker->marks, Not(IsEmpty())) << speaker->name;
    EXPECT_THAT(speaker->marks, Each(Not(IsEmpty()))) << speaker->name;
    EXPECT_EQ(why::framework_marked_in(speaker->marks.front()), framework) << speaker->name;
    EXPECT_TRUE(precedences.insert(speaker->precedence).second) << speaker->name;
  }
  EXPECT_EQ(why::framework_marked_in("a line of nobody"), why::Framework::kUnknown);
}

TEST(FrameworkList, a_framework_has_lines_for_rungs_that_exist_and_once_each) {
  for (const why::Framework framework : why::all_speakers()) {
    const why::Speaker* speaker = why::speaker_of(framework);
    std::set<std::string_view> rungs;
    for (const why::RungLine& line : speaker->lines) {
      EXPECT_TRUE(rungs.insert(line.rung).second) << speaker->name << " says " << line.rung << " twice";
      EXPECT_EQ(why::line_for(line.rung, framework), line.line);
      const bool exists = std::any_of(why::all_rungs().begin(), why::all_rungs().end(),
                                      [&line](const why::Rung& rung) { return rung.id == line.rung; }) ||
                          std::any_of(why::limit_rungs().begin(), why::limit_rungs().end(),
                                      [&line](const why::Rung& rung) { return rung.id == line.rung; });
      EXPECT_TRUE(exists) << speaker->name << ": " << line.rung;
    }
  }
}

}  // namespace
}  // namespace plimsoll

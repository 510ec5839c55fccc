// SPDX-License-Identifier: Apache-2.0
// A log that is told in other words, cut, mixed, wrapped or robbed of a figure keeps its answer or loses it, but is
// never given another with confidence; and more evidence never makes an answer worse.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "why/mutations.h"
#include "why/next_evidence.h"
#include "why/support.h"

namespace plimsoll::why {
namespace {

struct Tally {
  int tried = 0;
  int kept = 0;
  int flipped = 0;

  Tally() = default;
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;
  ~Tally() { std::printf("%d tried, %d kept, %d flipped\n", tried, kept, flipped); }
};

// What is left of a cause when the lines that make it special are gone: a rollout engine is another holder, a leak or
// a second copy is too much on the device.
bool is_kind_of(const std::string& cause, const std::string& wider) {
  static const std::set<std::pair<std::string, std::string>> kWider = {
      {"rl-colocation", "other-process"},       {"model-load-spike", "host-ram-kill"},
      {"model-load-spike", "genuine-capacity"}, {"memory-leak", "genuine-capacity"},
      {"checkpoint-spike", "genuine-capacity"}, {"xla-padding", "genuine-capacity"},
      {"activation-bound", "genuine-capacity"}, {"first-backward", "activation-bound"}};
  return kWider.contains({cause, wider});
}

// Whether the mutated log is answered otherwise, with confidence, and in a way that its label does not accept.
void judge(const Labelled& one, const Answer& before, const std::string& mutated, const std::string& how,
           Tally& tally) {
  const Answer after = answer_for(mutated);
  ++tally.tried;
  const std::string got = after.diagnosis.failure ? after.cause() : "clean";
  if (got == before.cause()) {
    ++tally.kept;
    return;
  }
  const bool accepted = is_kind_of(one.cause, got) || got == one.cause ||
                        std::find(one.also.begin(), one.also.end(), got) != one.also.end();
  if (std::getenv("PLIMSOLL_MISSES") != nullptr && !one.blind)
    std::printf("  %s, %s: %s became %s (%.2f)\n", one.name.c_str(), how.c_str(), before.cause().c_str(), got.c_str(),
                after.diagnosis.confidence);
  if (accepted || !after.diagnosis.failure || after.diagnosis.confidence < kSureEnough || got == "unknown") return;
  ++tally.flipped;
  if (tally.flipped <= 12 && !one.blind)
    std::printf("%s, %s: %s became %s (%.2f)\n", one.name.c_str(), how.c_str(), before.cause().c_str(), got.c_str(),
                after.diagnosis.confidence);
}

// The logs whose answer is the label's: others have nothing to keep.
struct Sound {
  Labelled log;
  Answer answer;
};
std::vector<Sound> sound() {
  std::vector<Sound> kept;
  for (Labelled& one : everything()) {
    Answer answer = answer_for(one.text);
    if (answer.diagnosis.failure && answer.cause() == one.cause) kept.push_back({std::move(one), std::move(answer)});
  }
  return kept;
}

TEST(Mutation, other_words_for_the_same_thing) {
  Tally tally;
  for (const Sound& one : sound())
    for (const auto& [from, to] : other_words())
      if (one.log.text.find(from) != std::string::npos)
        judge(one.log, one.answer, replaced(one.log.text, from, to), from + " -> " + to, tally);
  EXPECT_GE(tally.tried, 100);
  EXPECT_EQ(tally.flipped, 0) << "of " << tally.tried;
  EXPECT_GE(tally.kept * 100, tally.tried * 80) << tally.kept << " of " << tally.tried;
}

TEST(Mutation, cut_anywhere) {
  Tally tally;
  for (const Sound& one : sound()) {
    const std::vector<std::string> lines = lines_of(one.log.text);
    for (std::size_t cut = 1; cut < lines.size(); cut += 1 + lines.size() / 12) {
      judge(one.log, one.answer, joined({lines.begin() + static_cast<std::ptrdiff_t>(cut), lines.end()}),
            "without its head", tally);
      judge(one.log, one.answer, joined({lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(cut)}),
            "without its tail", tally);
    }
  }
  EXPECT_GE(tally.tried, 1000);
  // A cut can take away the one line that decides.
  EXPECT_LE(tally.flipped * 500, tally.tried) << tally.flipped << " of " << tally.tried;
}

TEST(Mutation, one_figure_deleted) {
  Tally tally;
  for (const Sound& one : sound())
    for (const auto& [at, length] : figures_of(one.log.text)) {
      std::string text = one.log.text;
      text.replace(at, length, "-");
      judge(one.log, one.answer, text, "without " + one.log.text.substr(at, length), tally);
    }
  EXPECT_GE(tally.tried, 300);
  EXPECT_EQ(tally.flipped, 0) << "of " << tally.tried;
}

TEST(Mutation, inside_the_wrapper_of_another_program) {
  Tally tally;
  for (const Sound& one : sound()) {
    if (one.log.text.find('\r') != std::string::npos) continue;
    for (const char* prefix : {"(WorkerDict pid=4711) ", "app-1  | ", "[rank0]: ", "2026-01-02 03:04:05,678 "})
      judge(one.log, one.answer, with_prefix(one.log.text, prefix), prefix, tally);
    judge(one.log, one.answer, as_json(one.log.text), "JSON", tally);
  }
  EXPECT_GE(tally.tried, 800);
  EXPECT_EQ(tally.flipped, 0) << "of " << tally.tried;
  EXPECT_GE(tally.kept * 100, tally.tried * 95) << tally.kept << " of " << tally.tried;
}

TEST(Mutation, in_another_order) {
  Tally tally;
  std::mt19937 random(7);
  for (const Sound& one : sound()) {
    if (one.log.text.find('\r') != std::string::npos) continue;
    for (int round = 0; round < 4; ++round)
      judge(one.log, one.answer, one_block_moved(one.log.text, random), "a block moved", tally);
    judge(one.log, one.answer, ranks_apart(one.log.text, random), "rank after rank", tally);
    judge(one.log, one.answer, with_a_healthy_rank(one.log.text), "with a healthy rank", tally);
  }
  EXPECT_GE(tally.tried, 1000);
  EXPECT_EQ(tally.flipped, 0) << "of " << tally.tried;
  EXPECT_GE(tally.kept * 100, tally.tried * 95) << tally.kept << " of " << tally.tried;
}

// Two or three of them at once, drawn anew for every log.
TEST(Mutation, several_at_once) {
  Tally tally;
  std::mt19937 random(11);
  for (const Sound& one : sound()) {
    if (one.log.text.find('\r') != std::string::npos) continue;
    for (int round = 0; round < 3; ++round) {
      std::string text = one.log.text;
      std::string how;
      if (random() % 2 == 0) {
        text = in_other_words(text);
        how += "other words, ";
      }
      if (const auto figures = figures_of(text); !figures.empty() && random() % 2 == 0) {
        const auto& [at, length] = figures[random() % figures.size()];
        text.replace(at, length, "-");
        how += "a figure less, ";
      }
      if (random() % 2 == 0) {
        text = one_block_moved(text, random);
        how += "a block moved, ";
      }
      text = random() % 2 == 0 ? with_prefix(text, "trainer-0 | ") : as_json(text);
      judge(one.log, one.answer, text, how + "wrapped", tally);
    }
  }
  EXPECT_GE(tally.tried, 500);
  EXPECT_EQ(tally.flipped, 0) << "of " << tally.tried;
}

// Deleting a line or a figure takes evidence away. Where the poorer log is answered rightly, so is the richer one.
TEST(MoreEvidence, never_makes_a_right_answer_wrong) {
  int poorer_right = 0;
  int richer_wrong = 0;
  for (const Labelled& one : everything()) {
    const Answer rich = answer_for(one.text);
    const bool right = (rich.diagnosis.failure ? rich.cause() : "clean") == one.cause;
    const std::vector<std::string> lines = lines_of(one.text);
    if (lines.size() > 60) continue;
    bool poorer = false;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::vector<std::string> without = lines;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
      const Answer poor = answer_for(joined(without));
      poorer = poorer || ((poor.diagnosis.failure ? poor.cause() : "clean") == one.cause &&
                          poor.diagnosis.confidence > rich.diagnosis.confidence);
    }
    poorer_right += poorer || right ? 1 : 0;
    if (poorer && !right) {
      ++richer_wrong;
      if (!one.blind) std::printf("%s: %s, more sure without a line\n", one.name.c_str(), rich.cause().c_str());
    }
  }
  EXPECT_LE(richer_wrong * 100, poorer_right) << richer_wrong << " of " << poorer_right;
}

}  // namespace
}  // namespace plimsoll::why

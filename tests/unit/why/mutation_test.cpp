// SPDX-License-Identifier: Apache-2.0
// A log that is told in other words, cut, mixed, wrapped or robbed of a figure keeps its answer or loses it, but is
// never given another with confidence; and more evidence never makes an answer worse.
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>

#include "why/next_evidence.h"
#include "why/support.h"

namespace plimsoll::why {
namespace {

struct Tally {
  int tried = 0;
  int kept = 0;
  int flipped = 0;
};

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
  const bool accepted = got == one.cause || std::find(one.also.begin(), one.also.end(), got) != one.also.end();
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

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

TEST(Mutation, other_words_for_the_same_thing) {
  const std::vector<std::pair<std::string, std::string>> words = {
      {"CUDA out of memory. Tried to allocate", "GPU memory exhausted: could not allocate"},
      {"CUDA out of memory", "insufficient GPU memory"},
      {"HIP out of memory", "not enough memory on the HIP device"},
      {"out of memory", "memory exhausted"},
      {"No space left on device", "cannot write: the disk is full"},
      {"Too many open files", "no more file descriptors"},
      {"Cannot allocate memory", "memory allocation refused"},
      {"Killed process", "terminated process"},
      {"DefaultCPUAllocator: can't allocate memory", "host memory exhausted"},
      {"torch.OutOfMemoryError", "acme.runtime.MemoryFault"},
      {"torch.cuda.OutOfMemoryError", "RuntimeError"}};
  Tally tally;
  for (const Sound& one : sound())
    for (const auto& [from, to] : words)
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
  EXPECT_LE(tally.flipped * 100, tally.tried) << tally.flipped << " of " << tally.tried;
}

TEST(Mutation, one_figure_deleted) {
  const std::regex figure(R"([0-9][0-9.,]* ?(GiB|MiB|KiB|GB|MB|kB|bytes|G|B)\b)");
  Tally tally;
  for (const Sound& one : sound()) {
    std::vector<std::pair<std::size_t, std::size_t>> found;
    for (std::sregex_iterator it(one.log.text.begin(), one.log.text.end(), figure), end; it != end; ++it)
      found.emplace_back(it->position(), it->length());
    if (found.size() > 24) found.erase(found.begin(), found.end() - 24);
    for (const auto& [at, length] : found) {
      std::string text = one.log.text;
      text.replace(at, length, "-");
      judge(one.log, one.answer, text, "without " + one.log.text.substr(at, length), tally);
    }
  }
  EXPECT_GE(tally.tried, 300);
  EXPECT_EQ(tally.flipped, 0) << "of " << tally.tried;
}

TEST(Mutation, inside_the_wrapper_of_another_program) {
  Tally tally;
  for (const Sound& one : sound()) {
    if (one.log.text.find('\r') != std::string::npos) continue;
    const std::vector<std::string> lines = lines_of(one.log.text);
    for (const char* prefix : {"(WorkerDict pid=4711) ", "app-1  | ", "[rank0]: ", "2026-01-02 03:04:05,678 "}) {
      std::string text;
      for (const std::string& line : lines) text += std::string{prefix} + line + "\n";
      judge(one.log, one.answer, text, prefix, tally);
    }
    std::string json;
    for (const std::string& line : lines) {
      std::string escaped = replaced(replaced(line, "\\", "\\\\"), "\"", "\\\"");
      json += "{\"ts\":\"2026-01-02T03:04:05Z\",\"stream\":\"stderr\",\"log\":\"" + escaped + "\\n\"}\n";
    }
    judge(one.log, one.answer, json, "JSON", tally);
  }
  EXPECT_GE(tally.tried, 800);
  EXPECT_LE(tally.flipped * 200, tally.tried) << tally.flipped << " of " << tally.tried;
  EXPECT_GE(tally.kept * 100, tally.tried * 95) << tally.kept << " of " << tally.tried;
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

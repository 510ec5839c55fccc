// SPDX-License-Identifier: Apache-2.0
// The same diagnosis whatever surrounds the evidence: order of ranks, cut heads, repeated lines, a
// hundred thousand unrelated lines, colours, line ends, encodings; and no crash at any cut.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <regex>

#include "why/block_reader.h"
#include "why/support.h"

namespace plimsoll::why {
namespace {

std::vector<Case> all() {
  std::vector<Case> cases = corpus();
  for (Case& one : failures()) cases.push_back(std::move(one));
  return cases;
}

std::string noise_line(std::mt19937& random) {
  static const char* kWords[] = {"data",     "worker", "opened",    "shard", "index",    "queue",
                                 "refilled", "lr",     "schedule",  "token", "cache",    "warm",
                                 "metric",   "pushed", "heartbeat", "ok",    "prefetch", "ready"};
  std::string line;
  const std::size_t words = 4 + random() % 8;
  for (std::size_t i = 0; i < words; ++i) line += (i > 0 ? " " : "") + std::string{kWords[random() % 18]};
  return line + " " + std::to_string(random() % 1000);
}

std::string without_colours(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1b\\[[0-9;]*m"), "");
}

TEST(Noise, unrelated_lines_between_the_others_change_nothing) {
  std::mt19937 random(7);
  for (const Case& one : all()) {
    const std::string before = answer_for(one.text).cause();
    std::string noisy;
    for (const std::string& line : lines_of(one.text)) {
      const std::size_t count = random() % 6;
      for (std::size_t i = 0; i < count; ++i) noisy += noise_line(random) + "\n";
      noisy += line + "\n";
    }
    EXPECT_EQ(answer_for(noisy).cause(), before) << one.name;
  }
}

TEST(ThoroughNoise, a_hundred_thousand_unrelated_lines_change_nothing) {
  std::mt19937 random(11);
  std::string block;
  for (int i = 0; i < 100000; ++i) block += noise_line(random) + "\n";
  const std::vector<Case> cases = all();
  const std::size_t stride = std::getenv("PLIMSOLL_LONG") != nullptr ? 4 : 16;
  for (std::size_t i = 0; i < cases.size(); i += stride) {
    const Case& one = cases[i];
    const Answer before = answer_for(one.text);
    const std::vector<std::string> lines = lines_of(one.text);
    std::string noisy;
    const std::size_t at = random() % (lines.size() + 1);
    for (std::size_t k = 0; k <= lines.size(); ++k) {
      if (k == at) noisy += block;
      if (k < lines.size()) noisy += lines[k] + "\n";
    }
    EXPECT_EQ(answer_for(noisy).cause(), before.cause()) << one.name << " at line " << at;
  }
}

TEST(Noise, what_comes_after_a_flood_of_equal_lines_is_still_read) {
  std::string text;
  for (int i = 0; i < 30000; ++i)
    text += "[rank" + std::to_string(i % 64) + "]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " +
            std::to_string(i % 900 + 1) + ".00 MiB\n";
  EXPECT_EQ(answer_for(text).diagnosis.same.size(), 64U);
  text += "Out of memory: Killed process 25315 (python3) total-vm:53312244kB, anon-rss:31451456kB, file-rss:74816kB\n";
  EXPECT_EQ(answer_for(text).cause(), "host-ram-kill");
}

TEST(Noise, repeated_lines_change_nothing) {
  for (const Case& one : all()) {
    std::string twice;
    for (const std::string& line : lines_of(one.text)) twice += line + "\n" + line + "\n";
    EXPECT_EQ(answer_for(twice).cause(), answer_for(one.text).cause()) << one.name;
  }
}

TEST(Noise, a_cut_head_changes_nothing_while_the_evidence_is_there) {
  for (const Case& one : all()) {
    const std::vector<std::string> lines = lines_of(one.text);
    // The first lines are the launcher's and the versions'; settings and steps come after them.
    for (const std::size_t cut : {std::size_t{1}, lines.size() / 10}) {
      const std::string tail = joined({lines.begin() + static_cast<std::ptrdiff_t>(cut), lines.end()});
      if (tail.find("expandable_segments:True") == std::string::npos &&
          one.text.find("expandable_segments:True") != std::string::npos)
        continue;
      EXPECT_EQ(answer_for(tail).cause(), answer_for(one.text).cause()) << one.name << " without " << cut << " lines";
    }
  }
}

TEST(Noise, colours_and_line_ends_change_nothing) {
  for (const Case& one : all()) {
    const std::string before = answer_for(one.text).cause();
    EXPECT_EQ(answer_for(without_colours(one.text)).cause(), before) << one.name;
    std::string windows;
    for (const std::string& line : lines_of(one.text)) windows += line + "\r\n";
    EXPECT_EQ(answer_for(windows).cause(), before) << one.name;
    std::string coloured;
    for (const std::string& line : lines_of(one.text)) coloured += "\x1b[36m" + line + "\x1b[0m\n";
    EXPECT_EQ(answer_for(coloured).cause(), before) << one.name;
  }
}

TEST(Noise, the_order_in_which_ranks_are_mixed_changes_nothing) {
  std::mt19937 random(3);
  for (const Case& one : all()) {
    // Lines of one rank keep their order; ranks are mixed anew.
    std::map<std::string, std::vector<std::string>> by_rank;
    std::vector<std::string> writers;
    for (const std::string& line : lines_of(one.text)) {
      std::smatch match;
      const std::string plain = without_colours(line);
      const std::string writer =
          std::regex_search(plain, match, std::regex("^\\[(rank|default)([0-9]+)\\]")) ? match[2].str() : "";
      by_rank[writer].push_back(line);
      writers.push_back(writer);
    }
    if (by_rank.size() < 3) continue;
    const std::string before = answer_for(one.text).cause();
    for (int round = 0; round < 5; ++round) {
      std::shuffle(writers.begin(), writers.end(), random);
      std::map<std::string, std::size_t> next;
      std::string mixed;
      for (const std::string& writer : writers) mixed += by_rank[writer][next[writer]++] + "\n";
      EXPECT_EQ(answer_for(mixed).cause(), before) << one.name;
    }
  }
}

TEST(Noise, rank_prefixes_of_every_kind_change_nothing) {
  for (const Case& one : failures()) {
    const std::string before = answer_for(one.text).cause();
    for (const char* prefix :
         {"[rank2]: ", "2: ", "[default2]:", "[1,2]<stderr>:", "2025-03-14 03:46:32,123 ", "[2025-03-14 03:46:32] "}) {
      if (one.name == "05.log") continue;  // has prefixes of its own
      std::string prefixed;
      for (const std::string& line : lines_of(one.text)) prefixed += prefix + line + "\n";
      EXPECT_EQ(answer_for(prefixed).cause(), before) << one.name << " with " << prefix;
    }
  }
}

TEST(ThoroughNoise, skipping_through_a_large_log_finds_what_reading_every_line_finds) {
  std::mt19937 random(5);
  ReadLimits sparse;
  sparse.dense_bytes = 0;
  sparse.sample_bytes = 64;
  for (const Case& one : all()) {
    std::string noisy;
    for (int i = 0; i < 3000; ++i) noisy += noise_line(random) + "\n";
    noisy += one.text;
    if (!noisy.ends_with('\n')) noisy += "\n";
    for (int i = 0; i < 3000; ++i) noisy += noise_line(random) + "\n";
    const Answer dense = answer_for(noisy);
    const Answer skipped = answer_for(noisy, sparse);
    EXPECT_EQ(skipped.cause(), dense.cause()) << one.name;
    if (!skipped.diagnosis.evidence.empty() && !dense.diagnosis.evidence.empty()) {
      EXPECT_EQ(skipped.diagnosis.evidence.front().line, dense.diagnosis.evidence.front().line) << one.name;
    }
  }
}

TEST(ThoroughNoise, no_cut_of_a_log_breaks_the_answer) {
  for (const Case& one : all()) {
    const std::size_t stride = one.text.size() > 2500 ? 7 : 3;
    for (std::size_t size = 0; size <= one.text.size(); size += stride) {
      const Answer answer = answer_for(std::string_view{one.text}.substr(0, size));
      ASSERT_GE(answer.diagnosis.confidence, 0) << one.name;
      ASSERT_LE(answer.diagnosis.confidence, 0.97) << one.name;
    }
  }
  const std::string whole = failures().front().text;
  for (std::size_t size = 0; size <= whole.size(); ++size)
    static_cast<void>(answer_for(std::string_view{whole}.substr(size)));
}

TEST(Noise, logs_without_a_failure_get_no_cause) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data_folder() / "clean")) {
    const Answer answer = answer_for(read_data(entry.path()));
    EXPECT_FALSE(answer.diagnosis.failure) << entry.path() << ": " << answer.cause();
    EXPECT_TRUE(answer.fixes.empty()) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 20U);
}

class Temporary {
 public:
  explicit Temporary(const std::string& name, const std::string& bytes)
      : path_((std::filesystem::path(testing::TempDir()) / name).string()) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~Temporary() { std::filesystem::remove(path_); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string cause_of_file(const std::string& path) {
  Collector collector;
  const Status status = read_log(path, collector);
  if (!status) return "error: " + status.error().message;
  const Findings findings = collector.take();
  return std::string{cause_name(diagnose(findings).cause)};
}

TEST(Files, gzip_and_utf16_are_undone) {
  const Case one = failures().front();
  const std::string wanted = answer_for(one.text).cause();
  std::string utf16 = "\xFF\xFE";
  for (const char c : one.text) {
    utf16.push_back(c);
    utf16.push_back('\0');
  }
  EXPECT_EQ(cause_of_file(Temporary("why_utf16.log", utf16).path()), wanted);
  const std::string path = (std::filesystem::path(testing::TempDir()) / "why.log.gz").string();
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  gzwrite(file, one.text.data(), static_cast<unsigned>(one.text.size()));
  gzclose(file);
  EXPECT_EQ(cause_of_file(path), wanted);
  // A log that was still being packed when the machine died is read as far as it goes.
  const std::string packed = read_data(path);
  std::filesystem::remove(path);
  for (std::size_t size = 2; size < packed.size(); size += 97)
    static_cast<void>(cause_of_file(Temporary("why_cut.gz", packed.substr(0, size)).path()));
}

Diagnosis diagnosis_of_file(const std::string& path) {
  Collector collector;
  EXPECT_TRUE(read_log(path, collector));
  const Findings findings = collector.take();
  Diagnosis diagnosis = diagnose(findings);
  diagnosis.root = nullptr;
  return diagnosis;
}

TEST(Files, a_log_that_is_cut_or_damaged_marks_the_answer) {
  const std::string path = (std::filesystem::path(testing::TempDir()) / "why_whole.log.gz").string();
  std::string text;
  for (int i = 0; i < 4000; ++i)
    text += "step " + std::to_string(i) + " loss " + std::to_string(i * 7919 % 1000) + "\n";
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  const std::string packed = read_data(path);
  EXPECT_FALSE(diagnosis_of_file(path).incomplete);
  EXPECT_FALSE(diagnosis_of_file(Temporary("why_padded.gz", packed + std::string(64, '\0')).path()).incomplete);
  EXPECT_FALSE(diagnosis_of_file(Temporary("why_twice.gz", packed + packed).path()).incomplete);
  std::filesystem::remove(path);
  std::string damaged = packed;
  for (std::size_t i = packed.size() / 2; i < packed.size() / 2 + 40; ++i) damaged[i] = static_cast<char>(~damaged[i]);
  for (const std::string& bytes : {packed.substr(0, packed.size() / 2), packed.substr(0, packed.size() - 3), damaged,
                                   packed + packed.substr(0, packed.size() / 2)}) {
    const Diagnosis diagnosis = diagnosis_of_file(Temporary("why_cut.gz", bytes).path());
    EXPECT_TRUE(diagnosis.incomplete);
    EXPECT_LE(diagnosis.confidence, 0.5);
    ASSERT_FALSE(diagnosis.notes.empty());
    EXPECT_NE(diagnosis.notes.front().find("could not be read to its end"), std::string::npos);
  }
}

TEST(Files, a_device_without_end_is_refused) {
  Collector collector;
  const Status status = read_log("/dev/zero", collector);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("is a device; wanted a log"), std::string::npos);
}

TEST(Files, utf16_pairs_survive_being_cut) {
  std::string carry;
  std::string text;
  const std::string bytes = std::string("\x3D\xD8\x00\xDE", 4);  // U+1F600
  append_utf16(std::string_view{bytes}.substr(0, 1), false, carry, text);
  append_utf16(std::string_view{bytes}.substr(1, 2), false, carry, text);
  append_utf16(std::string_view{bytes}.substr(3), false, carry, text);
  EXPECT_EQ(text, "\xF0\x9F\x98\x80");
  EXPECT_TRUE(carry.empty());
}

TEST(Files, binary_data_and_missing_files_are_errors) {
  EXPECT_TRUE(cause_of_file("no such file.log").starts_with("error: cannot open"));
  std::string bytes;
  for (int i = 0; i < 4096; ++i) bytes.push_back(static_cast<char>(i * 37 % 256));
  EXPECT_NE(cause_of_file(Temporary("why.bin", bytes).path()).find("binary"), std::string::npos);
}

TEST(Files, the_clock_decides_which_rank_was_first) {
  const auto log = [](const char* time) {
    return std::string{"[2025-01-01 10:00:"} + time +
           ",000] [INFO] step 1 loss=2.0\nTraceback (most recent call last):\n" +
           "  File \"t.py\", line 1, in f\n    out = model(batch)\ntorch.OutOfMemoryError: CUDA out of memory.\n";
  };
  Collector collector;
  read_text("rank0.log", log("09"), collector);
  read_text("rank1.log", log("05"), collector);
  read_text("rank2.log", log("07"), collector);
  const Findings findings = collector.take();
  const Diagnosis diagnosis = diagnose(findings);
  EXPECT_EQ(diagnosis.rank, 1);
  EXPECT_EQ(diagnosis.same.size(), 3U);
}

TEST(Files, the_ranks_of_a_folder_are_read_together) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "why_ranks";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "rank0.log") << "step 1 loss=2.0\nRuntimeError: Connection closed by peer [127.0.0.1]:1921\n";
  std::ofstream(folder / "rank1.log") << "step 1 loss=2.0\nTraceback (most recent call last):\n  File \"t.py\", line "
                                         "1, in f\n    optimizer.step()\ntorch.OutOfMemoryError: CUDA out of memory.\n";
  const auto files = log_files({folder.string()});
  ASSERT_TRUE(files);
  EXPECT_EQ(files->size(), 2U);
  Collector collector;
  for (const std::string& file : *files) ASSERT_TRUE(read_log(file, collector));
  const Findings findings = collector.take();
  const Diagnosis diagnosis = diagnose(findings);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(diagnosis.cause, Cause::kOptimizerStateBound);
  EXPECT_EQ(diagnosis.rank, 1);
  EXPECT_GE(diagnosis.followers, 1);
}

// Silence is worth what the log shows of the run: its end, its steps, or nothing.
TEST(Noise, silence_is_sure_only_where_the_run_says_that_it_ended) {
  const std::string steps = "step 1 loss 2.5\nstep 2 loss 2.4\nstep 3 loss 2.3\n";
  const auto sure = [](const std::string& text) {
    const Answer answer = answer_for(text);
    EXPECT_FALSE(answer.diagnosis.failure) << text;
    return answer.diagnosis.confidence;
  };
  const double ended = sure(steps + "{'train_runtime': 12.5, 'train_loss': 2.4}\n");
  const double at_work = sure(steps);
  const double nothing = sure("loading the tokenizer\nusing 8 workers\n");
  EXPECT_GE(ended, 0.8);
  EXPECT_LT(at_work, 0.8);
  EXPECT_LT(nothing, at_work);
}

}  // namespace
}  // namespace plimsoll::why

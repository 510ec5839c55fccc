// SPDX-License-Identifier: Apache-2.0
// A folder of ranks may be read in any number of parts, and parts joined in any order, some of them before others, some
// of them twice: the bytes are those of one that read everything.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>

#include "live/parts.h"

namespace plimsoll::live {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "plimsoll-parts-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(fs::path(path_) / name) << text; }

 private:
  std::string path_;
};

std::string rank_file(int rank, std::mt19937_64& random) {
  if (random() % 11 == 0) return "nonsense";
  std::string text = fmt::format(R"({{"event":"begin","rank":{},"world":9999,"host":"node{}"}})", rank, random() % 5);
  for (std::uint64_t step = 1, last = random() % 4; step <= last; ++step)
    text += fmt::format("\n{{\"event\":\"step\",\"n\":{},\"seconds\":0.{},\"peak_allocated\":{},\"peak_reserved\":{}}}",
                        step, 1 + random() % 9, random() % (1ULL << 37), random() % (1ULL << 37));
  if (random() % 7 == 0)
    text += fmt::format("\n{{\"event\":\"oom\",\"phase\":\"{}\",\"requested\":{}}}", random() % 2 ? "backward" : "save",
                        random() % (1ULL << 33));
  return text + "\n";
}

std::string log_file(std::mt19937_64& random) {
  std::string text;
  for (std::uint64_t step = 1, last = random() % 5; step <= last; ++step)
    text += fmt::format("step {} loss 2.{} memory allocated {}.5 GiB\n", step, random() % 90, 1 + random() % 60);
  if (random() % 3 == 0)
    text += fmt::format(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}.00 GiB. GPU 0 has a total "
        "capacity of 79.10 GiB of which 1.41 GiB is free.\n",
        2 + random() % 9);
  return text;
}

// Joined two at a time, in an order of the draw, through the file that a part is kept in.
std::string joined(std::vector<Part> parts, const Folder& scratch, std::mt19937_64& random) {
  while (parts.size() > 1) {
    std::shuffle(parts.begin(), parts.end(), random);
    const std::size_t some = 2 + random() % (parts.size() - 1);
    std::vector<Part> chosen(parts.end() - static_cast<std::ptrdiff_t>(std::min(some, parts.size())), parts.end());
    parts.resize(parts.size() - chosen.size());
    if (random() % 3 == 0) chosen.push_back(chosen.front());
    scratch.write("part.json", part_json(join(chosen).value()));
    parts.push_back(read_part_file(scratch.path() + "/part.json").value());
  }
  return part_json(parts.front());
}

TEST(Parts, JoinToTheSameBytesInAnyOrderAndSplit) {
  EXPECT_TRUE(rc::check([] {
    std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
    const int files = *rc::gen::inRange(1, 24);
    const Folder folder;
    const bool are_logs = *rc::gen::arbitrary<bool>();
    for (int file = 0; file < files; ++file)
      folder.write(fmt::format("rank-{}.{}", file, are_logs ? "log" : "jsonl"),
                   are_logs ? log_file(random) : rank_file(file, random));
    const std::string whole = part_json(read_part(folder.path(), {}).value());
    const std::int64_t count = *rc::gen::inRange(1, 40);
    std::vector<Part> parts;
    for (std::int64_t part = 1; part <= count; ++part) parts.push_back(read_part(folder.path(), {part, count}).value());
    const Folder scratch;
    RC_ASSERT(joined(std::move(parts), scratch, random) == whole);
  }));
}

}  // namespace
}  // namespace plimsoll::live

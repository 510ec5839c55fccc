// SPDX-License-Identifier: Apache-2.0
#include "why/read.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "why/block_reader.h"
#include "why/familiar.h"
#include "why/literals.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr std::size_t kBlock = 1U << 20;
constexpr std::size_t kLongestLine = 4U << 20;
constexpr std::size_t kLongLine = 256U << 10;
constexpr std::size_t kMostFiles = 20000;
constexpr std::int64_t kSettled = 16384;  // lines in a row that told nothing: a log of steps
constexpr std::size_t kMostZeros = 256U << 20;

constexpr Topics kFailureTopics = bit(Topic::kOom) | bit(Topic::kNccl) | bit(Topic::kLibrary) | bit(Topic::kHost) |
                                  bit(Topic::kKill) | bit(Topic::kDisk) | bit(Topic::kTraceback) | bit(Topic::kDevice) |
                                  bit(Topic::kAbort) | bit(Topic::kElastic);

// Position of the last newline, or npos; std::string_view looks at one byte after the other.
std::size_t last_newline(std::string_view text) {
  const void* found = text.empty() ? nullptr : ::memrchr(text.data(), '\n', text.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

// Chooses the lines of a stream of blocks that the collector sees.
class Feeder {
 public:
  Feeder(Collector& collector, const ReadLimits& limits)
      : collector_(collector), limits_(limits), dense_left_(limits.dense_bytes), windows_left_(limits.windows_bytes) {}

  // Whole lines; the last may lack its newline only at the end of the log.
  void feed(std::string_view block) {
    std::size_t done = 0;
    if (familiar_.streak() >= kSettled) dense_left_ = 0;
    if (dense_left_ > 0) {
      done = lines(block, 0, std::min(dense_left_, block.size()));
      dense_left_ -= std::min(dense_left_, done);
    }
    if (done < block.size()) sparse(block, done);
  }
  [[nodiscard]] std::int64_t line_count() const { return line_; }
  [[nodiscard]] bool has_skipped() const { return skipped_; }

 private:
  // Feeds the lines that begin in [from, to); answers the end of the last.
  std::size_t lines(std::string_view block, std::size_t from, std::size_t to) {
    while (from < to && from < block.size()) {
      const void* newline = std::memchr(block.data() + from, '\n', block.size() - from);
      const std::size_t end = newline == nullptr
                                  ? block.size()
                                  : static_cast<std::size_t>(static_cast<const char*>(newline) - block.data());
      ++line_;
      if (end - from > kLongLine)
        long_line(block.substr(from, end - from));
      else
        add(block.substr(from, end - from));
      from = std::min(end + 1, block.size());
      if (newline == nullptr) break;
    }
    return from;
  }

  // One line, or a drawing of a bar.
  void add(std::string_view text) {
    const std::uint64_t words = words_hash(text);
    if (collector_.is_worn_out(words)) return;
    const std::int64_t before = collector_.told();
    collector_.add_line(text, line_);
    familiar_.was_read(words, collector_.told() != before);
  }

  // A progress bar that was redrawn a hundred thousand times: its ends, and the drawings that say something.
  void long_line(std::string_view text) {
    skipped_ = true;
    const std::size_t head = text.find('\r', kLongLine / 4);
    const std::size_t tail = text.rfind('\r', text.size() - kLongLine / 4);
    const std::size_t first = std::min(head == std::string_view::npos ? kLongLine / 4 : head + 1, text.size());
    const std::size_t last = std::max(first, tail == std::string_view::npos ? text.size() - kLongLine / 4 : tail + 1);
    collector_.add_line(text.substr(0, first), line_);
    std::size_t at = first;
    std::size_t fed = 0;
    while (at < last && fed < kLongLine * 4) {
      Topic topic{};
      const std::size_t found = log_scanner().find(text.substr(0, last), at, &topic);
      if (found == std::string_view::npos) break;
      std::size_t begin = found;
      while (begin > first && found - begin < kLongLine / 16 && text[begin - 1] != '\r') --begin;
      const std::size_t close = text.find('\r', found);
      const std::size_t end = std::min({close == std::string_view::npos ? last : close, found + kLongLine / 16, last});
      at = std::max(end, found + 1);
      const std::uint64_t words = words_hash(text.substr(begin, end - begin));
      if (familiar_.worth_of(words) == FamiliarLines::Worth::kNothing) continue;
      add(text.substr(begin, end - begin));
      fed += end - begin;
    }
    collector_.add_line(text.substr(last), line_);
  }

  void skip(std::string_view block, std::size_t from, std::size_t to) {
    skipped_ = skipped_ || from < to;
    line_ += std::count(block.begin() + static_cast<std::ptrdiff_t>(from),
                        block.begin() + static_cast<std::ptrdiff_t>(to), '\n');
  }

  [[nodiscard]] static std::size_t line_start(std::string_view block, std::size_t at, std::size_t least) {
    const std::size_t newline = last_newline(block.substr(least, at - least));
    return newline == std::string_view::npos ? least : least + newline + 1;
  }

  void sparse(std::string_view block, std::size_t from) {
    const std::size_t sample = familiar_.streak() >= kSettled ? limits_.sample_bytes / 4 : limits_.sample_bytes;
    std::size_t done = lines(block, from, std::min(block.size(), from + std::max(sample, follow_)));
    follow_ = 0;
    std::size_t at = done;
    while (at < block.size()) {
      Topic topic{};
      const std::size_t found = log_scanner().find(block, at, &topic);
      if (found == std::string_view::npos) break;
      // A literal may begin with the newline before its line.
      const std::size_t anchor = block[found] == '\n' && found + 1 < block.size() ? found + 1 : found;
      std::size_t begin = line_start(block, std::max(anchor, done), done);
      std::size_t end = begin + 1;
      const std::size_t close = std::min(block.find('\n', begin), block.size());
      const std::string_view line = block.substr(begin, close - begin);
      const std::uint64_t words = words_hash(line);
      const FamiliarLines::Worth worth = familiar_.worth_of(words);
      if (worth == FamiliarLines::Worth::kNothing || collector_.is_worn_out(words)) {
        at = std::max(close, found + 1);
        continue;
      }
      // The first literal of the line may be a word that says little: "RuntimeError: CUDA out of memory".
      const bool failure =
          worth == FamiliarLines::Worth::kNew && ((bit(topic) | log_scanner().topics(line)) & kFailureTopics) != 0;
      if (failure && windows_left_ > 0) {
        const std::size_t window = begin - done > limits_.window_bytes ? begin - limits_.window_bytes : done;
        begin = line_start(block, window, done);
        end = std::min(block.size(), found + limits_.window_bytes);
        if (found + limits_.window_bytes > block.size()) follow_ = found + limits_.window_bytes - block.size();
        windows_left_ -= std::min(windows_left_, end - begin);
      }
      skip(block, done, begin);
      done = lines(block, begin, std::max(end, begin + 1));
      at = std::max(done, found + 1);
    }
    if (done < block.size()) skip(block, done, block.size());
  }

  Collector& collector_;
  ReadLimits limits_;
  std::size_t dense_left_;
  std::size_t windows_left_;
  FamiliarLines familiar_;
  bool skipped_ = false;
  std::size_t follow_ = 0;  // of the next block, because a window reaches into it
  std::int64_t line_ = 0;
};

// Zero bytes do not count: a log that was cut off while it was written, or rotated, has holes of them.
bool looks_binary(std::string_view text) {
  const std::string_view head = text.substr(0, 8192);
  std::size_t odd = 0;
  std::size_t seen = 0;
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) continue;
    ++seen;
    const bool usual = byte >= 0x20 || byte == '\n' || byte == '\r' || byte == '\t' || byte == 0x1b || byte == '\b' ||
                       byte == '\f' || byte == '\a';
    odd += usual ? 0 : 1;
  }
  return seen >= 16 && odd * 12 > seen;
}

}  // namespace

void read_text(std::string_view name, std::string_view text, Collector& collector, const ReadLimits& limits) {
  collector.begin_file(std::string{name}, rank_of_file(name));
  Feeder feeder(collector, limits);
  feeder.feed(text);
  collector.end_file(static_cast<std::int64_t>(text.size()), feeder.line_count(), {}, feeder.has_skipped());
}

Status read_log(const std::string& path, Collector& collector, const ReadLimits& limits,
                const std::function<void(std::int64_t)>& progress) {
  PLIMSOLL_TRY(reader, BlockReader::open(path));
  const std::string name = path == "-" ? "standard input" : path;
  collector.begin_file(name, rank_of_file(name));
  Feeder feeder(collector, limits);
  std::string buffer;
  bool first = true;
  std::size_t zeros = 0;  // at the beginning; a hole in a log is no longer than the log
  while (true) {
    PLIMSOLL_TRY(got, reader.append(buffer, kBlock));
    if (first && looks_binary(buffer))
      return bad_input(fmt::format("{} is not a log: it holds binary data", name),
                       "give the text that the run printed; a memory snapshot is read by plimsoll replay");
    first = false;
    if (got == 0) break;
    if (zeros != std::string::npos) {
      const bool nothing = std::string_view{buffer}.find_first_not_of('\0') == std::string_view::npos;
      zeros = nothing ? zeros + got : std::string::npos;
      if (nothing) buffer.clear();
      if (nothing && zeros > kMostZeros)
        return bad_input(fmt::format("{} is not a log: its first {} bytes are zero", name, zeros),
                         "a device such as /dev/zero has no end");
    }
    const std::size_t last = last_newline(buffer);
    const std::size_t whole = last == std::string::npos ? (buffer.size() > kLongestLine ? buffer.size() : 0) : last + 1;
    feeder.feed(std::string_view{buffer}.substr(0, whole));
    buffer.erase(0, whole);
    if (progress) progress(reader.bytes_read());
  }
  if (!buffer.empty()) feeder.feed(buffer);
  collector.end_file(reader.bytes_read(), feeder.line_count(), reader.damage(), feeder.has_skipped());
  return {};
}

Result<std::vector<std::string>> log_files(const std::vector<std::string>& operands) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& operand : operands) {
    std::error_code error;
    if (operand == "-" || !fs::is_directory(operand, error)) {
      files.push_back(operand);
      continue;
    }
    std::vector<std::string> found;
    for (fs::recursive_directory_iterator it(operand, fs::directory_options::skip_permission_denied, error), end;
         it != end && !error; it.increment(error)) {
      std::error_code ignored;
      if (!it->is_regular_file(ignored) || it->path().filename().string().starts_with('.')) continue;
      const std::string extension = it->path().extension().string();
      static constexpr std::string_view kOthers[] = {".py",  ".pt",     ".json", ".yaml", ".yml", ".safetensors",
                                                     ".bin", ".pickle", ".toml", ".csv",  ".png", ".npy",
                                                     ".sh",  ".sbatch", ".md",   ".lock"};
      if (std::find(std::begin(kOthers), std::end(kOthers), extension) != std::end(kOthers)) continue;
      found.push_back(it->path().string());
      if (found.size() > kMostFiles) return bad_input(fmt::format("{} holds more than {} files", operand, kMostFiles));
    }
    if (error) return bad_input(fmt::format("cannot read {}: {}", operand, error.message()));
    if (found.empty()) return bad_input(fmt::format("{} holds no logs", operand));
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace plimsoll::why

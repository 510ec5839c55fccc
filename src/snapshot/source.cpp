// SPDX-License-Identifier: Apache-2.0
#include "snapshot/source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/file_hint.h"

namespace plimsoll::snapshot {

namespace {

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::string_view bytes) : size_(bytes.size()), left_(bytes) {}

  Result<std::size_t> read(char* into, std::size_t room) override {
    const std::size_t count = std::min(room, left_.size());
    std::memcpy(into, left_.data(), count);
    left_.remove_prefix(count);
    return count;
  }
  [[nodiscard]] std::size_t expected_size() const override { return size_; }

 private:
  std::size_t size_;
  std::string_view left_;
};

class FileSource final : public Source {
 public:
  FileSource(std::string path, int file, std::size_t size) : path_(std::move(path)), file_(file), size_(size) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override {
    if (file_ != STDIN_FILENO) close(file_);
  }

  Result<std::size_t> read(char* into, std::size_t room) override {
    while (true) {
      const ssize_t got = ::read(file_, into, room);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) return bad_input(fmt::format("cannot read {}: {}", path_, std::strerror(errno)));
    }
  }
  [[nodiscard]] std::size_t expected_size() const override { return size_; }

 private:
  std::string path_;
  int file_;
  std::size_t size_;
};

// Gives back what was read to recognise the format, then goes on.
class PeekedSource final : public Source {
 public:
  explicit PeekedSource(std::unique_ptr<Source> source) : source_(std::move(source)) {}

  Result<std::string_view> peek() {
    while (held_ < head_.size()) {
      PLIMSOLL_TRY(got, source_->read(head_.data() + held_, head_.size() - held_));
      if (got == 0) break;
      held_ += got;
    }
    return std::string_view(head_.data(), held_);
  }
  Result<std::size_t> read(char* into, std::size_t room) override {
    if (given_ == held_) return source_->read(into, room);
    const std::size_t count = std::min(room, held_ - given_);
    std::memcpy(into, head_.data() + given_, count);
    given_ += count;
    return count;
  }
  [[nodiscard]] std::size_t expected_size() const override { return source_->expected_size(); }

 private:
  std::unique_ptr<Source> source_;
  std::array<char, 4> head_{};
  std::size_t held_ = 0;
  std::size_t given_ = 0;
};

}  // namespace

Status UnpackMeter::gave(std::size_t bytes) {
  out_ += bytes;
  const std::size_t most = std::min(limits_.largest, std::max(limits_.free_bytes, in_ * limits_.largest_ratio));
  if (out_ <= most) return {};
  return bad_input(fmt::format("{}: {} bytes inflate to more than {}; wanted at most {} to one and {} bytes", format_,
                               in_, most, limits_.largest_ratio, limits_.largest));
}

std::unique_ptr<Source> memory_source(std::string_view bytes) { return std::make_unique<MemorySource>(bytes); }

Result<std::unique_ptr<Source>> file_source(const std::string& path) {
  if (path == "-") return std::make_unique<FileSource>("standard input", STDIN_FILENO, 0);
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return cannot_open(path, errno);
  struct stat about{};
  const bool is_known = fstat(file, &about) == 0;
  auto source = std::make_unique<FileSource>(
      path, file, is_known && S_ISREG(about.st_mode) ? static_cast<std::size_t>(about.st_size) : 0);
  if (is_known && S_ISDIR(about.st_mode)) return bad_input(fmt::format("{} is a folder; wanted a file", path));
  return source;
}

Result<std::unique_ptr<Source>> unpacked_source(std::unique_ptr<Source> source, const InflateLimits& limits) {
  auto peeked = std::make_unique<PeekedSource>(std::move(source));
  PLIMSOLL_TRY(head, peeked->peek());
  if (head.starts_with("PK\x03\x04"))
    return bad_input("the file is a zip archive, as torch.save writes; wanted a pickle",
                     "make the file with torch.cuda.memory._dump_snapshot");
  if (is_gzip(head)) return gzip_source(std::move(peeked), limits);
  if (is_zstd(head)) return zstd_source(std::move(peeked), limits);
  return peeked;
}

}  // namespace plimsoll::snapshot

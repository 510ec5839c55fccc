// SPDX-License-Identifier: Apache-2.0
#include "base/write.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/interrupt.h"

namespace plimsoll {

namespace {

Status cannot_write(const std::string& path, int problem) {
  return tl::make_unexpected(
      Error{Code::kMissing,
            fmt::format("cannot write {}: {}; nothing was changed", path, std::strerror(problem)),
            {},
            problem == ENOSPC || problem == EDQUOT ? "make room, or name another folder"
            : problem == EFBIG                     ? "the limit on file sizes (ulimit -f) is in the way"
                                                   : ""});
}

// What puts the content into an open file; errno of what went wrong, or 0.
using Fill = std::function<int(int file)>;

// Every byte, however the system cuts them.
int write_all(int file, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(file, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return wrote < 0 ? errno : EIO;
    done += static_cast<std::size_t>(wrote);
  }
  return 0;
}

// Its name survives a crash of the machine only once its folder is synced; some filesystems cannot, and need not.
void sync_folder(const std::string& folder) {
  const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return;
  fsync(opened);
  close(opened);
}

bool is_stream(const std::string& path) {
  struct stat about{};
  return stat(path.c_str(), &about) == 0 &&
         (S_ISCHR(about.st_mode) || S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode));
}

// What lies at the path itself, not behind a link.
bool is_there(const std::string& path, mode_t* mode = nullptr) {
  struct stat about{};
  if (lstat(path.c_str(), &about) != 0) return false;
  if (mode != nullptr) *mode = about.st_mode;
  return true;
}

// Through a stream of its own, so that the file stays open for its sync.
int fill_streamed(int file, const std::function<void(std::FILE*)>& fill) {
  const int other = dup(file);
  if (other < 0) return errno;
  std::FILE* stream = fdopen(other, "wb");
  if (stream == nullptr) {
    const int problem = errno;
    close(other);
    return problem;
  }
  errno = 0;
  fill(stream);
  int problem = std::fflush(stream) != 0 || std::ferror(stream) != 0 ? (errno != 0 ? errno : EIO) : 0;
  if (std::fclose(stream) != 0 && problem == 0) problem = errno;
  return problem;
}

Status write_to_device(const std::string& path, const Fill& fill) {
  const int file = open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return cannot_write(path, errno);
  const int problem = fill(file);
  if (close(file) != 0 && problem == 0) return cannot_write(path, errno);
  if (problem != 0) return cannot_write(path, problem);
  return {};
}

// One file on its way: written and synced beside its place; commit() renames it there, undo() takes it back.
class Staged {
 public:
  explicit Staged(std::string path) : path_(std::move(path)) {}
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;
  ~Staged() {
    if (!temporary_.empty()) unlink(temporary_.c_str());
  }

  Status write(const Fill& fill, bool executable, Existing existing) {
    mode_t mode = 0;
    if (is_there(path_, &mode)) {
      if (S_ISDIR(mode)) return bad_input(fmt::format("{} is a folder; wanted the name of a file", path_));
      if (existing == Existing::kKeep)
        return bad_input(fmt::format("{} exists{}; nothing was written", path_,
                                     S_ISLNK(mode) ? " as a symbolic link, which is not followed" : ""),
                         "--force replaces it");
    }
    std::string pattern = fmt::format("{}/.plimsoll-XXXXXX", parent_folder(path_));
    const int file = mkostemp(pattern.data(), O_CLOEXEC);
    if (file < 0) return cannot_write(path_, errno);
    temporary_ = std::move(pattern);  // from here on it is removed whatever happens
    name_ = std::make_unique<TemporaryName>(temporary_);
    int problem = fill(file);
    if (problem == 0 && fchmod(file, permissions(mode, executable)) != 0) problem = errno;
    if (problem == 0 && fsync(file) != 0 && errno != EINVAL && errno != ENOTSUP) problem = errno;
    if (close(file) != 0 && problem == 0) problem = errno;
    if (problem != 0) return cannot_write(path_, problem);
    return {};
  }

  Status commit(Existing existing) {
    if (existing == Existing::kKeep) {
      // A link fails where someone made the file meanwhile; filesystems without links get a plain rename.
      if (link(temporary_.c_str(), path_.c_str()) == 0) {
        unlink(temporary_.c_str());
        return committed();
      }
      if (errno == EEXIST)
        return bad_input(fmt::format("{} exists; nothing was written", path_), "--force replaces it");
    } else if (is_there(path_)) {
      // A second name for what is there, so that readers never find nothing; filesystems without links move it.
      std::string kept = temporary_ + ".old";
      if (link(path_.c_str(), kept.c_str()) != 0 && rename(path_.c_str(), kept.c_str()) != 0)
        return cannot_write(path_, errno);
      old_ = std::move(kept);  // takes no memory, which could be missing: the second name must not be forgotten
    }
    if (rename(temporary_.c_str(), path_.c_str()) != 0) {
      const int problem = errno;
      undo();
      return cannot_write(path_, problem);
    }
    return committed();
  }

  void undo() {
    // A rename between two names of one file does nothing and leaves both, so the second is removed as well.
    if (!old_.empty() && rename(old_.c_str(), path_.c_str()) == 0) {
      unlink(old_.c_str());
    } else if (is_committed_) {
      unlink(path_.c_str());
    }
    is_committed_ = false;
    old_.clear();
  }

  void forget_old() {
    if (!old_.empty()) unlink(old_.c_str());
    old_.clear();
  }

 private:
  Status committed() {
    is_committed_ = true;
    temporary_.clear();
    name_.reset();
    return {};
  }

  // A file that is replaced keeps its permissions; a new one gets what the user's mask leaves.
  static mode_t permissions(mode_t before, bool executable) {
    const mode_t mask = umask(0);
    umask(mask);
    const mode_t fresh = (executable ? 0777U : 0666U) & ~mask;
    if (!S_ISREG(before)) return fresh;
    return (before & 0777U) | (executable ? fresh & 0111U : 0U);
  }

  std::string path_;
  std::string temporary_;
  std::string old_;  // what was there, under another name until all files are in place
  bool is_committed_ = false;
  std::unique_ptr<TemporaryName> name_;
};

struct Content {
  std::string path;
  Fill fill;
  bool executable = false;
};

Status write_all_or_none(const std::vector<Content>& files, Existing existing) {
  std::vector<std::unique_ptr<Staged>> staged;
  for (const Content& file : files) {
    staged.push_back(std::make_unique<Staged>(file.path));
    PLIMSOLL_TRY_STATUS(staged.back()->write(file.fill, file.executable, existing));
  }
  const Uninterrupted section;
  const auto undo_before = [&staged](std::size_t end) {
    while (end-- > 0) staged[end]->undo();
  };
  for (std::size_t i = 0; i < staged.size(); ++i) {
    try {
      auto done = staged[i]->commit(existing);
      if (done) continue;
      undo_before(i);
      return done;
    } catch (...) {  // memory that is not to be had, somewhere in the midst of it
      undo_before(i + 1);
      throw;
    }
  }
  for (const auto& file : staged) file->forget_old();
  return {};
}

// The folders of a path that are not there yet. Those that were made go again, as far as they are empty, unless they
// are kept: also when memory runs out, so that their names are at hand before.
class MadeFolders {
 public:
  explicit MadeFolders(const std::string& folder) {
    namespace fs = std::filesystem;
    std::error_code problem;
    for (fs::path part = fs::path(folder).lexically_normal(); !part.empty() && !fs::exists(part, problem);
         part = part.parent_path())
      names_.push_back(part.string());
  }
  ~MadeFolders() {
    for (const std::string& name : names_)
      if (rmdir(name.c_str()) != 0 && errno != ENOENT) return;
  }
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

  void keep() { names_.clear(); }

 private:
  std::vector<std::string> names_;  // innermost first
};

Status write_one(const std::string& path, const Fill& fill, Existing existing) {
  if (path.empty()) return bad_input("the name of a file to write is empty");
  if (is_stream(path)) return write_to_device(path, fill);
  PLIMSOLL_TRY_STATUS(write_all_or_none({{path, fill, false}}, existing));
  sync_folder(parent_folder(path));
  return {};
}

}  // namespace

Status write_whole(const std::string& path, const std::string& text, Existing existing) {
  return write_one(path, [&text](int file) { return write_all(file, text); }, existing);
}

Status write_streamed(const std::string& path, const std::function<void(std::FILE*)>& fill, Existing existing) {
  return write_one(path, [&fill](int file) { return fill_streamed(file, fill); }, existing);
}

Status write_folder(const std::string& folder, const std::vector<NewFile>& files, Existing existing) {
  namespace fs = std::filesystem;
  MadeFolders made(folder);
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem || !fs::is_directory(folder, problem))
    return tl::make_unexpected(Error{Code::kMissing,
                                     fmt::format("cannot make the folder {}: {}", folder,
                                                 problem ? problem.message() : std::string("something else is there")),
                                     {},
                                     {}});
  std::vector<Content> placed;
  for (const NewFile& file : files)
    placed.push_back(
        {folder + "/" + file.path, [&file](int out) { return write_all(out, file.text); }, file.executable});
  PLIMSOLL_TRY_STATUS(write_all_or_none(placed, existing));
  made.keep();
  sync_folder(folder);
  return {};
}

}  // namespace plimsoll

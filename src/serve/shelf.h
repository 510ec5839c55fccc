// SPDX-License-Identifier: Apache-2.0
// The files that the page may ask about: those named at the start and those dropped onto it. The page knows them by
// number, never by path, so that no question can reach another file.
#pragma once

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll::serve {

enum class Kind { kJob, kRecording, kRun, kMetrics, kLog };
[[nodiscard]] std::string_view text_of(Kind kind);  // "job", "recording", "rl", "metrics", "log"

// What a file is, by its content; what is nothing else is a log.
[[nodiscard]] Result<Kind> kind_of(const std::string& path);

struct Item {
  std::string id;
  std::string name;  // for people
  std::string path;
  Kind kind = Kind::kLog;
  std::int64_t bytes = 0;
};

class Shelf {
 public:
  Shelf() = default;
  ~Shelf();  // dropped files go
  Shelf(const Shelf&) = delete;
  Shelf& operator=(const Shelf&) = delete;

  // A file of the command line.
  [[nodiscard]] Result<Item> add(const std::string& path);
  [[nodiscard]] std::vector<Item> items() const;
  [[nodiscard]] Result<Item> find(const std::string& id) const;

  // A dropped file: parts are written as they come, and kept until the end.
  class Drop {
   public:
    Drop(Drop&& other) noexcept;
    Drop& operator=(Drop&&) = delete;
    ~Drop();
    [[nodiscard]] bool write(const char* data, std::size_t bytes);

   private:
    friend class Shelf;
    Drop(std::FILE* file, std::string path, std::string name)
        : file_(file), path_(std::move(path)), name_(std::move(name)) {}
    std::FILE* file_;
    std::string path_;
    std::string name_;
  };
  [[nodiscard]] Result<Drop> begin_drop(std::string_view name);
  [[nodiscard]] Result<Item> finish(Drop drop);

 private:
  [[nodiscard]] Result<std::string> folder();
  Item put(Item item);

  mutable std::mutex mutex_;
  std::vector<Item> items_;
  std::vector<std::string> dropped_;  // paths
  std::string folder_;
};

}  // namespace plimsoll::serve

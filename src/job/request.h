// SPDX-License-Identifier: Apache-2.0
// What was asked: the keys of all files, parsed once, and what flags lay over them. A request is a value: with()
// makes another one and leaves this as it is, resolve() makes the job of it. Whoever varies a job varies its request,
// so that a varied job is completed, derived and refused exactly as if its keys had been given in the first place.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "job/job.h"
#include "job/read.h"

namespace plimsoll::job {

struct Draft;

class Request {
 public:
  Request();

  // These keys instead of what files and earlier settings say. framework, model, gpu and gpus are keys as well, and
  // environment.NAME sets a variable. A value that cannot be used is an error of resolve().
  [[nodiscard]] Request with(const Settings& settings) const;
  [[nodiscard]] Request with(std::string_view key, std::string_view value) const {
    return with({{std::string(key), std::string(value)}});
  }

  // What flags and with() have set, in order; files are not in it.
  [[nodiscard]] const ReadOptions& options() const { return options_; }
  // Whether a flag or with() gives this key, under any of its names.
  [[nodiscard]] bool sets(std::string_view key) const;

  // The files as they were given.
  [[nodiscard]] const std::vector<InputFile>& files() const { return *files_; }
  [[nodiscard]] const std::vector<Draft>& drafts() const { return *drafts_; }
  // What --model named; nullptr where nothing did.
  [[nodiscard]] const Result<Draft>* named_model() const { return named_model_.get(); }

 private:
  friend Result<Request> read_request(std::vector<InputFile> files, const ReadOptions& options);

  void name_model(const std::string& name);

  std::shared_ptr<const std::vector<InputFile>> files_;
  std::shared_ptr<const std::vector<Draft>> drafts_;  // one per file, shared by all requests made of this one
  std::shared_ptr<const Result<Draft>> named_model_;
  ReadOptions options_;
};

// Recognises and parses every file. Contradictions between files are found by resolve(), because a setting may decide
// them.
[[nodiscard]] Result<Request> read_request(std::vector<InputFile> files, const ReadOptions& options);

// The job that was asked for, every knob with a value.
[[nodiscard]] Result<Job> resolve(const Request& request);

// For a caller that wants to see everything: values that cannot be used are collected and left out, names that are
// refused because they are not modelled are accepted, and the job is completed only as far as that goes. An unknown
// name still ends it.
[[nodiscard]] Result<Job> resolve(const Request& request, std::vector<Problem>& problems);

// Where the value of a key came from.
enum class OriginKind { kFile, kSetting, kDerived, kDefault };
struct Origin {
  OriginKind kind = OriginKind::kDefault;
  std::string where;  // "ds.json: zero_optimization.stage", "--micro-batch-size", "transformers"
};
struct KeyOrigin {
  std::string key;    // canonical
  std::string value;  // as the job holds it, or as it was written where no plain field holds it
  Origin origin;
};
// Of every key, in the order of the key table. `job` must be resolve(request).
[[nodiscard]] Result<std::vector<KeyOrigin>> origins(const Request& request, const Job& job);

}  // namespace plimsoll::job

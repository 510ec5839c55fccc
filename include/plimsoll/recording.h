// SPDX-License-Identifier: Apache-2.0
// A recorded memory history of PyTorch: torch.cuda.memory._dump_snapshot().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <plimsoll/answer.h>
#include <plimsoll/result.h>

namespace plimsoll::api {

struct RecordingOptions {
  std::optional<std::int64_t> device;    // the busiest one where absent
  std::string torch;                     // "2.6"; "" for the newest that is modelled
  std::string gpu;                       // its capacity is the limit
  std::optional<std::int64_t> capacity;  // bytes that PyTorch can take
  std::optional<double> fraction;        // a memory fraction that was set through the API
};

struct ReplayOptions {
  std::optional<std::string> setting;  // a PYTORCH_CUDA_ALLOC_CONF; "" is the default
  bool what_if = false;                // the sensible settings, best first
  bool tune = false;                   // search the settings
  bool peak = false;                   // who holds memory at the peak
  bool leaks = false;                  // what grows from step to step
  Progress progress;
};

class Recording {
 public:
  [[nodiscard]] static Result<Recording> open(const std::string& path, const RecordingOptions& options = {});
  [[nodiscard]] Result<Answer> replay(const ReplayOptions& options = {}) const;
  [[nodiscard]] bool has_history() const;

  struct Impl;
  explicit Recording(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace plimsoll::api

// SPDX-License-Identifier: Apache-2.0
// A thread that samples a run at a steady pace and writes what it saw. A full disk ends the writing, not the sampling;
// a sample for which there is no memory is left out. Neither reaches the command.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "live/sample.h"

namespace plimsoll::live {

class Sampler {
 public:
  struct Options {
    std::string file;  // "": nothing is written
    std::chrono::milliseconds every{500};
    std::string root = "/";
  };

  // The first sample is taken at once, in the caller's thread: what the machine held before the run.
  Sampler(Nvml* nvml, Options options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  void start(std::int64_t pid);
  // Takes a last sample of this process's own group and joins the thread.
  void stop();

  [[nodiscard]] const Most& most() const { return most_; }               // after stop()
  [[nodiscard]] const std::string& trouble() const { return trouble_; }  // why the writing ended, "" where it did not

 private:
  void loop(std::int64_t pid);
  void take(std::int64_t pid) noexcept;
  void write(const Sample& sample);

  Nvml* nvml_;
  Options options_;
  std::chrono::steady_clock::time_point begun_;
  Most most_;
  std::string trouble_;
  int file_ = -1;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
};

}  // namespace plimsoll::live

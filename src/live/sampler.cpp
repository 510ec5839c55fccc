// SPDX-License-Identifier: Apache-2.0
#include "live/sampler.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <new>

#include <fmt/format.h>

namespace plimsoll::live {

Sampler::Sampler(Nvml* nvml, Options options)
    : nvml_(nvml), options_(std::move(options)), begun_(std::chrono::steady_clock::now()) {
  if (!options_.file.empty()) {
    file_ = open(options_.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (file_ < 0) trouble_ = fmt::format("{}: {}", options_.file, std::strerror(errno));
  }
  take(getpid());
}

Sampler::~Sampler() {
  stop();
  if (file_ >= 0) close(file_);
}

void Sampler::start(std::int64_t pid) {
  try {
    thread_ = std::thread([this, pid] { loop(pid); });
  } catch (const std::exception&) {
    try {
      trouble_ = "the machine refuses a thread: nothing is sampled";
    } catch (const std::bad_alloc&) {
      trouble_ = "not sampled";  // short enough to need no memory
    }
  }
}

void Sampler::stop() {
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  take(getpid());
}

void Sampler::loop(std::int64_t pid) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    take(pid);
    lock.lock();
    wake_.wait_for(lock, options_.every, [this] { return stopping_; });
  }
}

void Sampler::take(std::int64_t pid) noexcept {
  try {
    Sample sample = take_sample(pid, nvml_, options_.root);
    sample.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    most_.add(sample);
    if (file_ >= 0) write(sample);
  } catch (const std::bad_alloc&) {
    if (trouble_.empty()) trouble_ = "a sample lost";  // short enough to need no memory
  }
}

void Sampler::write(const Sample& sample) {
  const std::string line = to_line(sample);
  if (::write(file_, line.data(), line.size()) == static_cast<ssize_t>(line.size())) return;
  const int error = errno;
  close(file_);
  file_ = -1;
  trouble_ = fmt::format("{}: {}", options_.file, std::strerror(error));
}

}  // namespace plimsoll::live

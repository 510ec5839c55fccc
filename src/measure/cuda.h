// SPDX-License-Identifier: Apache-2.0
// CUDA's driver: the devices of this machine, and a session on one of them that times what it is told to do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "measure/cuda_abi.h"
#include "measure/library.h"

namespace plimsoll::measure {

struct DeviceInfo {
  int index = 0;
  std::string name;
  std::string uuid;
  std::int64_t memory = 0;  // bytes
  int capability = 0;       // 90 for 9.0
  int multiprocessors = 0;
  int clock_mhz = 0;  // highest of the multiprocessors; 0 where the driver does not say
};

class Cuda {
 public:
  // libcuda.so.1, or what PLIMSOLL_CUDA names. Without a driver or a device an error of the kind kMissing.
  [[nodiscard]] static Result<std::unique_ptr<Cuda>> load();

  [[nodiscard]] Result<std::vector<DeviceInfo>> devices() const;
  [[nodiscard]] int version() const { return version_; }  // 13000 for 13.0
  [[nodiscard]] const abi::Driver& call() const { return call_; }
  // An error in the driver's own words, unless `status` is success.
  [[nodiscard]] Status check(abi::Status status, const char* what) const;

 private:
  std::unique_ptr<Library> library_;
  abi::Driver call_;
  int version_ = 0;
};

// Memory of a device, freed with its owner.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Cuda* cuda, abi::Address address, std::size_t bytes) : cuda_(cuda), address_(address), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  [[nodiscard]] abi::Address address() const { return address_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  const Cuda* cuda_ = nullptr;
  abi::Address address_ = 0;
  std::size_t bytes_ = 0;
};

// One device with a stream and its own small kernels. Calls of one session come from one thread.
class Session {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Session>> open(const Cuda& cuda, int index);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] const Cuda& cuda() const { return *cuda_; }
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] abi::Stream stream() const { return stream_; }
  [[nodiscard]] Status use() const;  // makes this device the thread's
  [[nodiscard]] Result<Buffer> allocate(std::size_t bytes) const;
  [[nodiscard]] Result<std::size_t> free_memory() const;
  [[nodiscard]] Status synchronize() const;

  // Kernels: nothing at all; a copy in pieces of 16 bytes; one that holds the device for so many of its cycles.
  [[nodiscard]] Status launch_nothing() const;
  [[nodiscard]] Status launch_copy(const Buffer& from, const Buffer& to, std::size_t bytes) const;
  [[nodiscard]] Status launch_hold(std::uint64_t cycles) const;

  using Call = std::function<Status()>;
  // Seconds of a call on the device: after two that are not counted, the mean of a burst of about `burst` seconds.
  // `behind_hold`: the burst is queued behind a kernel that holds the device, so that the host is never waited for.
  [[nodiscard]] Result<double> seconds(const Call& call, double burst, bool behind_hold = false) const;

 private:
  Session() = default;
  [[nodiscard]] Status load_kernels();
  [[nodiscard]] Result<double> burst(const Call& call, int count, bool behind_hold) const;

  const Cuda* cuda_ = nullptr;
  int index_ = 0;
  abi::Device device_ = 0;
  bool retained_ = false;
  abi::Context context_ = nullptr;
  abi::Stream stream_ = nullptr;
  abi::Event begin_ = nullptr;
  abi::Event end_ = nullptr;
  abi::Module module_ = nullptr;
  abi::Function nothing_ = nullptr;
  abi::Function copy_ = nullptr;
  abi::Function hold_ = nullptr;
};

}  // namespace plimsoll::measure

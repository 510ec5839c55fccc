// SPDX-License-Identifier: Apache-2.0
#include "measure/survey.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

namespace plimsoll::measure {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr int kAmpere = 80;
constexpr int kAda = 89;  // the first with FP8 products
constexpr double kBurst = 0.008;

// Weights of models from 0.5 to 70 billion parameters, whole and cut by tensor parallelism: outputs, inputs.
struct Weight {
  std::int64_t out;
  std::int64_t in;
};
constexpr Weight kWeights[] = {{8192, 8192}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {6144, 4096}, {1024, 8192},
                               {8192, 1024}, {2048, 2048}, {8192, 2048},  {2048, 8192},  {3584, 8192}, {8192, 3584},
                               {3072, 1024}, {1536, 1536}, {1024, 3072},  {2560, 8192}};
constexpr std::int64_t kTokens[] = {8192, 4096, 2048};
constexpr std::int64_t kMostElements = std::int64_t{8192} * 28672;

class Surveyor {
 public:
  Surveyor(const Cuda& cuda, const SurveyOptions& options) : cuda_(cuda), options_(options) {}

  Result<Survey> run() {
    const Clock::time_point begin = Clock::now();
    PLIMSOLL_TRY(devices, cuda_.devices());
    if (options_.device < 0 || options_.device >= static_cast<int>(devices.size()))
      return missing(fmt::format("device {} was asked for; this machine has {}", options_.device, devices.size()));
    survey_.device = devices[static_cast<std::size_t>(options_.device)];
    survey_.cuda = cuda_.version();
    survey_.devices = static_cast<int>(std::count_if(
        devices.begin(), devices.end(), [this](const DeviceInfo& other) { return other.name == survey_.device.name; }));
    survey_.idle = read_conditions(survey_.device.uuid);
    PLIMSOLL_TRY(session, Session::open(cuda_, options_.device));
    session_ = session.get();
    PLIMSOLL_TRY_STATUS(launches());
    host();
    PLIMSOLL_TRY_STATUS(device_copies());
    PLIMSOLL_TRY_STATUS(host_copies());
    PLIMSOLL_TRY_STATUS(products());
    session_ = nullptr;
    session.reset();
    PLIMSOLL_TRY_STATUS(messages(devices));
    tell(1, "done");
    survey_.took = std::chrono::duration<double>(Clock::now() - begin).count();
    return std::move(survey_);
  }

 private:
  void tell(double done, std::string_view what) const {
    if (options_.progress) options_.progress(done, what);
  }

  void leave_out(std::string_view what, const Error& why) {
    survey_.left_out.push_back(fmt::format("{}: {}", what, why.message));
  }

  Status launches() {
    tell(0, "launches");
    constexpr int kLaunches = 300;
    constexpr std::uint64_t kHold = 6'000'000;  // cycles: longer than the host takes for all of them
    double best = 0;
    for (int round = 0; round < 5; ++round) {
      PLIMSOLL_TRY_STATUS(session_->synchronize());
      PLIMSOLL_TRY_STATUS(session_->launch_hold(kHold));
      const Clock::time_point begin = Clock::now();
      for (int i = 0; i < kLaunches; ++i) PLIMSOLL_TRY_STATUS(session_->launch_nothing());
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count() / kLaunches;
      best = round == 0 ? seconds : std::min(best, seconds);
    }
    PLIMSOLL_TRY_STATUS(session_->synchronize());
    survey_.launch = best;
    constexpr std::size_t kSmall = 128 << 10;
    PLIMSOLL_TRY(from, session_->allocate(kSmall));
    PLIMSOLL_TRY(into, session_->allocate(kSmall));
    PLIMSOLL_TRY(small, session_->seconds([&] { return session_->launch_copy(from, into, kSmall); }, kBurst, true));
    survey_.small_kernel = small;
    return {};
  }

  void host() {
    constexpr double kSeconds = 3;
    if (options_.python.empty()) return;
    tell(0.03, "Python and PyTorch on the host");
    if (auto time = time_host(options_.python, options_.device, options_.quick ? kSeconds / 3 : kSeconds))
      survey_.host = *std::move(time);
    else
      leave_out("Python and PyTorch on the host", time.error());
  }

  Status device_copies() {
    tell(0.05, "memory of the device");
    PLIMSOLL_TRY(from, session_->allocate(512 * kMiB));
    PLIMSOLL_TRY(into, session_->allocate(512 * kMiB));
    const abi::Driver& call = cuda_.call();
    PLIMSOLL_TRY_STATUS(cuda_.check(call.set(from.address(), 0x3f8f5c29, 128 * kMiB, session_->stream()), "filling"));
    for (const std::size_t bytes : {32 * kMiB, 64 * kMiB, 128 * kMiB, 512 * kMiB}) {
      PLIMSOLL_TRY(copy, session_->seconds([&] { return session_->launch_copy(from, into, bytes); }, kBurst));
      survey_.copies.push_back({Route::kDevice, bytes, copy});
      PLIMSOLL_TRY(
          fill, session_->seconds(
                    [&] { return cuda_.check(call.set(into.address(), 0, bytes / 4, session_->stream()), "filling"); },
                    kBurst));
      survey_.copies.push_back({Route::kFill, bytes, fill});
    }
    return {};
  }

  Result<double> host_copy(const Buffer& device, void* host, std::size_t bytes, bool to_device) const {
    const abi::Driver& call = cuda_.call();
    const Session::Call copy = [&] {
      const abi::Status status = to_device ? call.to_device(device.address(), host, bytes, session_->stream())
                                           : call.to_host(host, device.address(), bytes, session_->stream());
      return cuda_.check(status, "copying between host and device");
    };
    constexpr double kLonger = 0.05;
    return session_->seconds(copy, kLonger);
  }

  Status host_copies() {
    tell(0.15, "copies between host and device");
    constexpr std::size_t kBytes = 256 * kMiB;
    PLIMSOLL_TRY(device, session_->allocate(kBytes));
    void* pinned = nullptr;
    if (const Status got = cuda_.check(cuda_.call().allocate_host(&pinned, kBytes), "pinning memory of the host");
        !got) {
      leave_out("copies of pinned memory", got.error());
    } else {
      std::fill_n(static_cast<unsigned char*>(pinned), kBytes, static_cast<unsigned char>(1));
      for (const bool to_device : {true, false}) {
        const Result<double> seconds = host_copy(device, pinned, kBytes, to_device);
        if (seconds)
          survey_.copies.push_back({to_device ? Route::kToDevice : Route::kToHost, kBytes, *seconds});
        else
          leave_out("copies of pinned memory", seconds.error());
      }
      cuda_.call().free_host(pinned);
    }
    std::vector<unsigned char> pageable(kBytes, 1);
    for (const bool to_device : {true, false}) {
      PLIMSOLL_TRY(seconds, host_copy(device, pageable.data(), kBytes, to_device));
      survey_.copies.push_back({to_device ? Route::kToDevicePageable : Route::kToHostPageable, kBytes, seconds});
    }
    return {};
  }

  [[nodiscard]] bool has(Format format) const {
    const int capability = survey_.device.capability;
    if (format == Format::kBf16 || format == Format::kTf32) return capability >= kAmpere;
    return format != Format::kFp8 || capability >= kAda;
  }

  Status products() {
    tell(0.2, "matrix products");
    PLIMSOLL_TRY(free, session_->free_memory());
    constexpr std::size_t kPart = 4;  // three matrices of fp32 and room for the workspace
    const std::int64_t most = std::min(kMostElements, static_cast<std::int64_t>(free / kPart / sizeof(float)));
    auto opened = Products::open(*session_, options_.folders, most);
    if (!opened)
      return missing(fmt::format("matrix products: {}", opened.error().message),
                     "--library DIR names the folder of libcublasLt: a toolkit's lib64, or site-packages of a Python "
                     "with PyTorch");
    Products& products = **opened;
    survey_.product_library = products.library();
    double done = 0.2;
    for (const Format format : kFormats) {
      tell(done, fmt::format("matrix products in {}", name_of(format)));
      if (has(format)) PLIMSOLL_TRY_STATUS(products_in(format, products));
      done += 0.12;
    }
    tell(0.85, "matrix products for some seconds");
    return sustain(products);
  }

  // On a device that rests between them products differ by their shapes alone; how fast they are in a step shows one
  // that never rests: an H200 reaches 0.84 of its peak in the first way and 0.77 in the second.
  Status products_in(Format format, Products& products) {
    PLIMSOLL_TRY_STATUS(products.prepare(format));
    if (!options_.quick) PLIMSOLL_TRY_STATUS(products_in(format, products, false));
    constexpr std::int64_t kEdge = 8192;
    const auto warmed = products.sustain(format, {kEdge, kEdge, kEdge}, options_.quick ? 0.2 : 1);
    if (!warmed) {
      leave_out(fmt::format("products in {}", name_of(format)), warmed.error());
      return {};
    }
    return products_in(format, products, true);
  }

  Status products_in(Format format, Products& products, bool warm) {
    const bool is_main = format == half_format(survey_.device);
    const bool is_slow = format == Format::kFp32;
    std::size_t failed = 0;
    for (const std::int64_t tokens : kTokens) {
      if (!is_main && tokens != kTokens[1] && (is_slow || options_.quick || tokens != kTokens[0])) continue;
      for (std::size_t w = 0; w < std::size(kWeights); w += options_.quick || is_slow ? 3 : 1) {
        const Weight& weight = kWeights[w];
        for (const Pass pass : kPasses) {
          if (pass != Pass::kForward && is_slow) continue;
          const Shape shape = pass == Pass::kForward         ? Shape{tokens, weight.out, weight.in}
                              : pass == Pass::kInputGradient ? Shape{tokens, weight.in, weight.out}
                                                             : Shape{weight.out, weight.in, tokens};
          const Result<double> seconds = products.time(format, pass, shape, kBurst);
          if (seconds)
            survey_.products.push_back({format, pass, shape, *seconds, warm});
          else if (failed++ == 0)
            leave_out(fmt::format("products in {}", name_of(format)), seconds.error());
          constexpr std::chrono::milliseconds kRest{30};
          if (!warm) std::this_thread::sleep_for(kRest);
        }
      }
    }
    return {};
  }

  Status sustain(Products& products) {
    const Format format = half_format(survey_.device);
    PLIMSOLL_TRY_STATUS(products.prepare(format));
    constexpr std::chrono::milliseconds kCool{1500};
    if (!options_.quick) std::this_thread::sleep_for(kCool);
    constexpr std::int64_t kEdge = 8192;
    auto sustained = products.sustain(format, {kEdge, kEdge, kEdge}, options_.quick ? 0.5 : 5);
    if (!sustained)
      leave_out("what the power limit takes", sustained.error());
    else
      survey_.sustained = *sustained;
    survey_.loaded = read_conditions(survey_.device.uuid);
    return {};
  }

  Status messages(const std::vector<DeviceInfo>& devices) {
    if (survey_.devices < 2) {
      survey_.left_out.emplace_back("messages between GPUs: this machine has one of this kind");
      return {};
    }
    tell(0.93, "messages between GPUs");
    constexpr std::size_t kMost = 256 * kMiB;
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<const Session*> all;
    for (const DeviceInfo& device : devices) {
      if (device.name != survey_.device.name) continue;
      auto session = Session::open(cuda_, device.index);
      if (!session) {
        leave_out("messages between GPUs", session.error());
        return {};
      }
      all.push_back(session->get());
      sessions.push_back(*std::move(session));
    }
    const auto messages = Messages::open(all, options_.folders, kMost);
    if (!messages) {
      leave_out("messages between GPUs", messages.error());
      return {};
    }
    survey_.message_library = (*messages)->library();
    for (const Collective collective : kCollectives)
      for (const std::size_t bytes : {8 * std::size_t{1024}, kMost}) {
        const Result<double> seconds = (*messages)->time(collective, bytes, 5 * kBurst);
        if (seconds)
          survey_.messages.push_back({collective, bytes, *seconds});
        else
          leave_out(name_of(collective), seconds.error());
      }
    return {};
  }

  const Cuda& cuda_;
  const SurveyOptions& options_;
  const Session* session_ = nullptr;
  Survey survey_;
};

}  // namespace

std::string name_of(Route route) {
  switch (route) {
    case Route::kDevice:
      return "device";
    case Route::kFill:
      return "fill";
    case Route::kToDevice:
      return "to device";
    case Route::kToHost:
      return "to host";
    case Route::kToDevicePageable:
      return "to device, pageable";
    case Route::kToHostPageable:
      return "to host, pageable";
  }
  return {};
}

Format half_format(const DeviceInfo& device) { return device.capability >= kAmpere ? Format::kBf16 : Format::kFp16; }

Result<Survey> survey(const Cuda& cuda, const SurveyOptions& options) { return Surveyor(cuda, options).run(); }

}  // namespace plimsoll::measure

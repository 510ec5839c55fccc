// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "measure/cuda.h"

namespace plimsoll::measure {

namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kPiece = 16;  // bytes of one load

// PTX is made for the device by its driver; "{}" is the oldest kind of device that the driver still knows.
constexpr const char* kKernels = R"(.version 6.3
.target {}
.address_size 64

.visible .entry nothing()
{{
  ret;
}}

.visible .entry copy(.param .u64 from, .param .u64 into, .param .u64 pieces)
{{
  .reg .pred %done;
  .reg .b32 %w<9>;
  .reg .b64 %d<12>;
  ld.param.u64 %d1, [from];
  ld.param.u64 %d2, [into];
  ld.param.u64 %d3, [pieces];
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  mov.u32 %w1, %ctaid.x;
  mov.u32 %w2, %ntid.x;
  mov.u32 %w3, %tid.x;
  mov.u32 %w4, %nctaid.x;
  cvt.u64.u32 %d5, %w3;
  mad.wide.u32 %d4, %w1, %w2, %d5;
  mul.wide.u32 %d6, %w4, %w2;
NEXT:
  setp.ge.u64 %done, %d4, %d3;
  @%done bra END;
  shl.b64 %d7, %d4, 4;
  add.u64 %d8, %d1, %d7;
  add.u64 %d9, %d2, %d7;
  ld.global.v4.u32 {{%w5, %w6, %w7, %w8}}, [%d8];
  st.global.v4.u32 [%d9], {{%w5, %w6, %w7, %w8}};
  add.u64 %d4, %d4, %d6;
  bra NEXT;
END:
  ret;
}}

.visible .entry hold(.param .u64 cycles)
{{
  .reg .pred %early;
  .reg .b64 %d<5>;
  ld.param.u64 %d1, [cycles];
  mov.u64 %d2, %clock64;
AGAIN:
  mov.u64 %d3, %clock64;
  sub.u64 %d4, %d3, %d2;
  setp.lt.u64 %early, %d4, %d1;
  @%early bra AGAIN;
  ret;
}}
)";

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const Cuda& cuda, int index) {
  const abi::Driver& call = cuda.call();
  std::unique_ptr<Session> session(new Session);
  session->cuda_ = &cuda;
  session->index_ = index;
  PLIMSOLL_TRY_STATUS(cuda.check(call.device(&session->device_, index), "opening the device"));
  PLIMSOLL_TRY_STATUS(cuda.check(call.retain(&session->context_, session->device_), "making a context"));
  session->retained_ = true;
  PLIMSOLL_TRY_STATUS(session->use());
  PLIMSOLL_TRY_STATUS(cuda.check(call.create_stream(&session->stream_, 0), "making a stream"));
  PLIMSOLL_TRY_STATUS(cuda.check(call.create_event(&session->begin_, 0), "making an event"));
  PLIMSOLL_TRY_STATUS(cuda.check(call.create_event(&session->end_, 0), "making an event"));
  PLIMSOLL_TRY_STATUS(session->load_kernels());
  return session;
}

Session::~Session() {
  const abi::Driver& call = cuda_->call();
  if (context_ != nullptr) call.set_current(context_);
  if (module_ != nullptr) call.unload_module(module_);
  if (begin_ != nullptr) call.destroy_event(begin_);
  if (end_ != nullptr) call.destroy_event(end_);
  if (stream_ != nullptr) call.destroy_stream(stream_);
  if (retained_) call.release(device_);
}

Status Session::load_kernels() {
  const abi::Driver& call = cuda_->call();
  abi::Status status = abi::kSuccess;
  for (const char* target : {"sm_70", "sm_75", "sm_60", "sm_50"}) {
    const std::string text = fmt::format(fmt::runtime(kKernels), target);
    status = call.load_module(&module_, text.c_str());
    if (status == abi::kSuccess) break;
    module_ = nullptr;
  }
  PLIMSOLL_TRY_STATUS(cuda_->check(status, "loading the kernels"));
  PLIMSOLL_TRY_STATUS(cuda_->check(call.function(&nothing_, module_, "nothing"), "finding a kernel"));
  PLIMSOLL_TRY_STATUS(cuda_->check(call.function(&copy_, module_, "copy"), "finding a kernel"));
  return cuda_->check(call.function(&hold_, module_, "hold"), "finding a kernel");
}

Status Session::use() const { return cuda_->check(cuda_->call().set_current(context_), "choosing the device"); }

Result<Buffer> Session::allocate(std::size_t bytes) const {
  abi::Address address = 0;
  PLIMSOLL_TRY_STATUS(cuda_->check(cuda_->call().allocate(&address, bytes), "allocating memory"));
  return Buffer(cuda_, address, bytes);
}

Result<std::size_t> Session::free_memory() const {
  std::size_t free = 0;
  std::size_t total = 0;
  PLIMSOLL_TRY_STATUS(cuda_->check(cuda_->call().free_memory(&free, &total), "asking for free memory"));
  return free;
}

Status Session::synchronize() const {
  return cuda_->check(cuda_->call().synchronize(stream_), "waiting for the device");
}

Status Session::launch_nothing() const {
  return cuda_->check(cuda_->call().launch(nothing_, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr), "launching");
}

Status Session::launch_copy(const Buffer& from, const Buffer& to, std::size_t bytes) const {
  abi::Address source = from.address();
  abi::Address target = to.address();
  unsigned long long pieces = bytes / kPiece;
  void* arguments[] = {&source, &target, &pieces};
  const auto blocks = static_cast<unsigned>(std::max<std::size_t>(1, (pieces + kThreads - 1) / kThreads));
  return cuda_->check(cuda_->call().launch(copy_, blocks, 1, 1, kThreads, 1, 1, 0, stream_, arguments, nullptr),
                      "launching");
}

Status Session::launch_hold(std::uint64_t cycles) const {
  unsigned long long wanted = cycles;
  void* arguments[] = {&wanted};
  return cuda_->check(cuda_->call().launch(hold_, 1, 1, 1, 1, 1, 1, 0, stream_, arguments, nullptr), "launching");
}

Result<double> Session::burst(const Call& call, int count, bool behind_hold) const {
  constexpr std::uint64_t kHoldPerCall = 20'000;  // cycles: ten microseconds, longer than a launch takes
  if (behind_hold) PLIMSOLL_TRY_STATUS(launch_hold(kHoldPerCall * static_cast<std::uint64_t>(count)));
  PLIMSOLL_TRY_STATUS(cuda_->check(cuda_->call().record(begin_, stream_), "timing"));
  for (int i = 0; i < count; ++i) PLIMSOLL_TRY_STATUS(call());
  PLIMSOLL_TRY_STATUS(cuda_->check(cuda_->call().record(end_, stream_), "timing"));
  PLIMSOLL_TRY_STATUS(synchronize());
  float milliseconds = 0;
  PLIMSOLL_TRY_STATUS(cuda_->check(cuda_->call().elapsed(&milliseconds, begin_, end_), "timing"));
  constexpr double kMillisecond = 1e-3;
  const double seconds = static_cast<double>(milliseconds) * kMillisecond / count;
  if (!std::isfinite(seconds) || seconds <= 0)
    return missing("the device's clock did not advance during a measurement");
  return seconds;
}

Result<double> Session::seconds(const Call& call, double wanted, bool behind_hold) const {
  constexpr int kLeast = 3;
  constexpr int kMost = 400;  // fewer than the launches that a stream queues
  for (int warm = 0; warm < 2; ++warm) PLIMSOLL_TRY_STATUS(call());
  PLIMSOLL_TRY(once, burst(call, 1, behind_hold));
  const int count =
      static_cast<int>(std::clamp(wanted / once, static_cast<double>(kLeast), static_cast<double>(kMost)));
  return burst(call, count, behind_hold);
}

}  // namespace plimsoll::measure

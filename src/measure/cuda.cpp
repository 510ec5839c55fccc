// SPDX-License-Identifier: Apache-2.0
#include "measure/cuda.h"

#include <array>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::measure {

namespace {

bool find_functions(const Library& from, abi::Driver& call) {
  return from.find("cuInit", call.init) && from.find("cuDriverGetVersion", call.version) &&
         from.find("cuDeviceGetCount", call.count) && from.find("cuDeviceGet", call.device) &&
         from.find("cuDeviceGetName", call.name) && from.find("cuDeviceGetUuid", call.uuid) &&
         from.find("cuDeviceTotalMem_v2", call.total) && from.find("cuDeviceGetAttribute", call.attribute) &&
         from.find("cuGetErrorName", call.error_name) && from.find("cuDevicePrimaryCtxRetain", call.retain) &&
         from.find("cuDevicePrimaryCtxRelease_v2", call.release) && from.find("cuCtxSetCurrent", call.set_current) &&
         from.find("cuMemGetInfo_v2", call.free_memory) && from.find("cuMemAlloc_v2", call.allocate) &&
         from.find("cuMemFree_v2", call.free) && from.find("cuMemAllocHost_v2", call.allocate_host) &&
         from.find("cuMemFreeHost", call.free_host) && from.find("cuMemcpyHtoDAsync_v2", call.to_device) &&
         from.find("cuMemcpyDtoHAsync_v2", call.to_host) && from.find("cuMemcpyDtoDAsync_v2", call.copy) &&
         from.find("cuMemsetD32Async", call.set) && from.find("cuStreamCreate", call.create_stream) &&
         from.find("cuStreamDestroy_v2", call.destroy_stream) && from.find("cuStreamSynchronize", call.synchronize) &&
         from.find("cuEventCreate", call.create_event) && from.find("cuEventDestroy_v2", call.destroy_event) &&
         from.find("cuEventRecord", call.record) && from.find("cuEventElapsedTime", call.elapsed) &&
         from.find("cuModuleLoadData", call.load_module) && from.find("cuModuleUnload", call.unload_module) &&
         from.find("cuModuleGetFunction", call.function) && from.find("cuLaunchKernel", call.launch);
}

std::string text_of(const abi::Uuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < abi::kUuidBytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Cuda>> Cuda::load() {
  const char* named = std::getenv("PLIMSOLL_CUDA");
  const std::string file = named != nullptr && *named != '\0' ? named : "libcuda.so.1";
  auto library = Library::open({file}, {});
  const std::string hint = "run it on the machine whose GPUs are to be measured; in a container with --gpus all";
  if (!library) return missing(fmt::format("no NVIDIA driver here: {}", library.error().message), hint);
  auto cuda = std::make_unique<Cuda>();
  cuda->library_ = *std::move(library);
  if (!find_functions(*cuda->library_, cuda->call_))
    return missing(fmt::format("{} lacks functions of CUDA's driver", file), "a driver of CUDA 11 or newer is needed");
  if (const abi::Status status = cuda->call_.init(0); status != abi::kSuccess) {
    const char* name = nullptr;
    cuda->call_.error_name(status, &name);
    return missing(fmt::format("CUDA's driver does not start: {}", name != nullptr ? name : std::to_string(status)),
                   hint);
  }
  int devices = 0;
  if (cuda->call_.count(&devices) != abi::kSuccess || devices <= 0)
    return missing("CUDA's driver sees no GPU", "CUDA_VISIBLE_DEVICES may hide them; nvidia-smi lists them");
  cuda->call_.version(&cuda->version_);
  return cuda;
}

Status Cuda::check(abi::Status status, const char* what) const {
  if (status == abi::kSuccess) return {};
  const char* name = nullptr;
  call_.error_name(status, &name);
  return missing(
      fmt::format("{}: {}", what, name != nullptr ? printable(name, 80) : std::to_string(status)),
      status == abi::kOutOfMemory ? "another process holds the GPU's memory: plimsoll watch --all says which" : "");
}

Result<std::vector<DeviceInfo>> Cuda::devices() const {
  int count = 0;
  PLIMSOLL_TRY_STATUS(check(call_.count(&count), "counting devices"));
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    DeviceInfo info;
    info.index = i;
    abi::Device device = 0;
    PLIMSOLL_TRY_STATUS(check(call_.device(&device, i), "opening a device"));
    constexpr std::size_t kNameBytes = 128;
    std::array<char, kNameBytes> name{};
    PLIMSOLL_TRY_STATUS(check(call_.name(name.data(), kNameBytes - 1, device), "reading a device's name"));
    info.name = printable(name.data(), kNameBytes);
    abi::Uuid uuid{};
    if (call_.uuid(&uuid, device) == abi::kSuccess) info.uuid = text_of(uuid);
    std::size_t total = 0;
    PLIMSOLL_TRY_STATUS(check(call_.total(&total, device), "reading a device's memory"));
    info.memory = static_cast<std::int64_t>(total);
    int major = 0;
    int minor = 0;
    int kilohertz = 0;
    call_.attribute(&major, abi::kCapabilityMajor, device);
    call_.attribute(&minor, abi::kCapabilityMinor, device);
    call_.attribute(&info.multiprocessors, abi::kMultiprocessors, device);
    call_.attribute(&kilohertz, abi::kClockRate, device);
    info.capability = 10 * major + minor;
    info.clock_mhz = kilohertz / 1000;
    devices.push_back(std::move(info));
  }
  return devices;
}

Buffer::Buffer(Buffer&& other) noexcept
    : cuda_(other.cuda_), address_(std::exchange(other.address_, 0)), bytes_(other.bytes_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(cuda_, other.cuda_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Buffer::~Buffer() {
  if (address_ != 0) cuda_->call().free(address_);
}

}  // namespace plimsoll::measure

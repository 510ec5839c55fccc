// SPDX-License-Identifier: Apache-2.0
// Stand-ins for CUDA's driver, cuBLASLt and NCCL in one library: devices whose clock is simulated. A product takes what
// a rate of 600 TFLOP/s in 16 bits and a half depth of 100 make of it, a copy 3 TB/s, a message 200 GB/s. What goes
// wrong is named by PLIMSOLL_FAKE_CUDA: "no-device", "no-memory", "no-init", "no-fp8", "stuck", "two" (GPUs), "other",
// "abort" (in the middle of an allocation).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

namespace {

double now = 0;       // seconds of the device
double heat = 0;      // seconds of products since it was idle
bool joined = false;  // inside a group of NCCL
std::string kernel_names[3] = {"nothing", "copy", "hold"};

bool is(const char* what) {
  const char* set = std::getenv("PLIMSOLL_FAKE_CUDA");
  return set != nullptr && std::strcmp(set, what) == 0;
}
void spend(double seconds) {
  if (!is("stuck")) now += seconds;
}

struct Layout {
  int type;
  std::uint64_t rows, columns;
};
struct Operation {
  int compute;
  int transpose_a = 0;
};
constexpr int kFp8 = 28;
constexpr int kFp32 = 0;

}  // namespace

extern "C" {

int cuInit(unsigned) { return is("no-init") ? 100 : 0; }
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = is("no-device") ? 0 : is("two") ? 2 : 1;
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
int cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<std::size_t>(size), "%s", is("other") ? "Unheard-of GPU" : "NVIDIA H200");
  return 0;
}
int cuDeviceGetUuid(char* uuid, int device) {
  std::memset(uuid, device + 1, 16);
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = 150109880320;
  return 0;
}
int cuDeviceGetAttribute(int* value, int which, int) {
  *value = which == 75 ? 9 : which == 76 ? 0 : which == 16 ? 132 : which == 13 ? 1980000 : 0;
  return 0;
}
int cuGetErrorName(int status, const char** name) {
  *name = status == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : status == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  static int any = 0;
  *context = &any;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = *total = 150109880320;
  return 0;
}
int cuMemAlloc_v2(unsigned long long* address, std::size_t) {
  if (is("abort")) std::abort();
  static unsigned long long next = 1 << 20;
  *address = next += 1 << 20;
  return is("no-memory") ? 2 : 0;
}
int cuMemFree_v2(unsigned long long) { return 0; }
int cuMemAllocHost_v2(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  return 0;
}
int cuMemFreeHost(void* memory) {
  std::free(memory);
  return 0;
}
int cuMemcpyHtoDAsync_v2(unsigned long long, const void*, std::size_t bytes, void*) {
  spend(static_cast<double>(bytes) / 50e9);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void*, unsigned long long, std::size_t bytes, void*) {
  spend(static_cast<double>(bytes) / 40e9);
  return 0;
}
int cuMemcpyDtoDAsync_v2(unsigned long long, unsigned long long, std::size_t bytes, void*) {
  spend(2.0 * static_cast<double>(bytes) / 3e12);
  return 0;
}
int cuMemsetD32Async(unsigned long long, unsigned, std::size_t count, void*) {
  spend(4.0 * static_cast<double>(count) / 4e12);
  return 0;
}
int cuStreamCreate(void** stream, unsigned) {
  static int any = 0;
  *stream = &any;
  return 0;
}
int cuStreamDestroy_v2(void*) { return 0; }
int cuStreamSynchronize(void*) { return 0; }
int cuEventCreate(void** event, unsigned) {
  *event = new double(0);
  return 0;
}
int cuEventDestroy_v2(void* event) {
  delete static_cast<double*>(event);
  return 0;
}
int cuEventRecord(void* event, void*) {
  *static_cast<double*>(event) = now;
  return 0;
}
int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  *milliseconds = static_cast<float>((*static_cast<double*>(end) - *static_cast<double*>(begin)) * 1e3);
  return 0;
}
int cuModuleLoadData(void** module, const void* image) {
  // A driver that knows no device older than 7.5.
  static int any = 0;
  *module = &any;
  return std::strstr(static_cast<const char*>(image), ".target sm_75") != nullptr ? 0 : 218;
}
int cuModuleUnload(void*) { return 0; }
int cuModuleGetFunction(void** function, void*, const char* name) {
  for (std::string& known : kernel_names)
    if (known == name) *function = &known;
  return 0;
}
int cuLaunchKernel(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                   void** arguments, void**) {
  const std::string& name = *static_cast<std::string*>(function);
  spend(2e-6);
  if (name == "copy") spend(2.0 * 16 * static_cast<double>(*static_cast<unsigned long long*>(arguments[2])) / 3e12);
  if (name == "hold") heat = 0;
  return 0;
}

int cublasLtCreate(void** handle) {
  static int any = 0;
  *handle = &any;
  return 0;
}
int cublasLtDestroy(void*) { return 0; }
int cublasLtMatmulDescCreate(void** operation, int compute, int) {
  *operation = new Operation{compute};
  return 0;
}
int cublasLtMatmulDescDestroy(void* operation) {
  delete static_cast<Operation*>(operation);
  return 0;
}
int cublasLtMatmulDescSetAttribute(void* operation, int which, const void* value, std::size_t) {
  if (which == 3) std::memcpy(&static_cast<Operation*>(operation)->transpose_a, value, sizeof(int));
  return 0;
}
int cublasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t) {
  *layout = new Layout{type, rows, columns};
  return 0;
}
int cublasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return 0;
}
int cublasLtMatmulPreferenceCreate(void** preference) {
  static int any = 0;
  *preference = &any;
  return 0;
}
int cublasLtMatmulPreferenceDestroy(void*) { return 0; }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, std::size_t) { return 0; }
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void* a, void*, void*, void*, void*, int, void*, int* found) {
  *found = is("no-fp8") && static_cast<Layout*>(a)->type == kFp8 ? 0 : 1;
  return *found == 1 ? 0 : 15;
}
int cublasLtMatmul(void*, void* operation, const void*, const void*, void* a, const void*, void*, const void*,
                   const void*, void*, void*, void* d, const void*, void*, std::size_t, void*) {
  const Operation& op = *static_cast<Operation*>(operation);
  const Layout& left = *static_cast<Layout*>(a);
  const Layout& out = *static_cast<Layout*>(d);
  const double depth = static_cast<double>(op.transpose_a != 0 ? left.rows : left.columns);
  const double flops = 2 * static_cast<double>(out.rows) * static_cast<double>(out.columns) * depth;
  const double rate = left.type == kFp8 ? 1100e12 : left.type != kFp32 ? 600e12 : op.compute == 77 ? 300e12 : 50e12;
  const double half = left.type == kFp8 ? 300 : 100;
  const double seconds = flops / rate * (1 + half / depth) * (heat > 1 ? 1.1 : 1);
  heat += seconds;
  spend(seconds);
  return 0;
}

int ncclCommInitAll(void** members, int count, const int*) {
  static int any[16];
  for (int i = 0; i < count; ++i) members[i] = &any[i];
  return 0;
}
int ncclCommDestroy(void*) { return 0; }
int ncclGroupStart() {
  joined = false;
  return 0;
}
int ncclGroupEnd() { return 0; }
static void message(double seconds) {
  // The members of a group run at once: the first one's time is everybody's.
  if (!joined) spend(seconds);
  joined = true;
}
int ncclAllReduce(const void*, void*, std::size_t count, int, int, void*, void*) {
  message(2 * (10e-6 + 0.5 * 4 * static_cast<double>(count) / 200e9));
  return 0;
}
int ncclAllGather(const void*, void*, std::size_t count, int, void*, void*) {
  message(10e-6 + static_cast<double>(count) / 200e9);
  return 0;
}
int ncclSend(const void*, std::size_t count, int, int, void*, void*) {
  message(10e-6 + static_cast<double>(count) / 100e9);
  return 0;
}
int ncclRecv(void*, std::size_t, int, int, void*, void*) { return 0; }
}

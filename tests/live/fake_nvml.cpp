// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVIDIA's management library: one device whose memory in use is the number in the file that
// PLIMSOLL_FAKE_NVML names, held by the process of the second number. A third number makes the driver fail when it is
// asked for memory: 1 aborts, 2 hangs; PLIMSOLL_FAKE_NVML_ABORTS makes it abort when it is started.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance, compute_instance;
};
constexpr unsigned long long kTotal = 80ULL << 30;

void read_state(unsigned long long& used, unsigned int& pid) {
  used = 0;
  pid = 0;
  int trouble = 0;
  const char* path = std::getenv("PLIMSOLL_FAKE_NVML");
  std::FILE* file = path != nullptr ? std::fopen(path, "r") : nullptr;
  if (file == nullptr) return;
  if (std::fscanf(file, "%llu %u %d", &used, &pid, &trouble) < 1) used = 0;
  std::fclose(file);
  if (trouble == 1) std::abort();
  while (trouble == 2) pause();
}

}  // namespace

extern "C" {
int nvmlInit_v2() {
  if (std::getenv("PLIMSOLL_FAKE_NVML_ABORTS") != nullptr) std::abort();
  return std::getenv("PLIMSOLL_FAKE_NVML") != nullptr ? 0 : 9;
}
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 1;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** handle) {
  static int device = 0;
  *handle = &device;
  return index == 0 ? 0 : 2;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  unsigned int pid = 0;
  read_state(memory->used, pid);
  memory->total = kTotal;
  memory->free = kTotal - memory->used;
  return 0;
}
int nvmlDeviceGetName(void*, char* name, unsigned int size) {
  const char* other = std::getenv("PLIMSOLL_FAKE_NVML_NAME");
  std::snprintf(name, size, "%s", other != nullptr ? other : "Fake GPU");
  return 0;
}
int nvmlDeviceGetUUID(void*, char* uuid, unsigned int size) {
  std::snprintf(uuid, size, "GPU-01234567-stub");
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned int* count, Process* processes) {
  unsigned long long used = 0;
  unsigned int pid = 0;
  read_state(used, pid);
  *count = pid > 0 ? 1 : 0;
  if (pid > 0) processes[0] = {pid, used, 0, 0};
  return 0;
}
}

// SPDX-License-Identifier: Apache-2.0
// Preloaded before the program: the n-th call of one kind fails, as a machine that is out of memory, files, threads or
// disk would let it fail. PLIMSOLL_FAULT=kind:n chooses it (n counts from 1; 0: none fails), PLIMSOLL_FAULT_REPORT
// names a file that gets the number of calls of every kind, and where none fails the first allocation of every stack of
// callers: a later one from the same callers fails in the same code. Counting begins with main().
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

enum Kind { kMalloc, kOpen, kRead, kWrite, kThread, kSync, kRename, kKinds };
constexpr const char* kNames[kKinds] = {"malloc", "open", "read", "write", "thread", "sync", "rename"};

std::atomic<bool> g_counts{false};
std::atomic<long> g_calls[kKinds];
int g_kind = -1;
long g_number = 0;

// Stacks of callers that have allocated, as an open table of hashes, and the number of the first allocation of each.
constexpr std::size_t kStacks = std::size_t{1} << 17;
std::atomic<unsigned long> g_stacks[kStacks];
std::atomic<long> g_firsts[kStacks];
std::atomic<std::size_t> g_stack_count{0};
thread_local bool g_is_unwinding = false;

_Unwind_Reason_Code add_caller(_Unwind_Context* context, void* hash) {
  auto& sum = *static_cast<unsigned long*>(hash);
  sum = (sum ^ static_cast<unsigned long>(_Unwind_GetIP(context))) * 0x100000001b3UL;
  return _URC_NO_REASON;
}

void remember_stack(long number) {
  if (g_is_unwinding || g_stack_count.load() >= kStacks / 2) return;
  g_is_unwinding = true;
  unsigned long hash = 0xcbf29ce484222325UL;
  _Unwind_Backtrace(add_caller, &hash);
  g_is_unwinding = false;
  for (std::size_t at = hash % kStacks;; at = (at + 1) % kStacks) {
    unsigned long found = 0;
    if (g_stacks[at].compare_exchange_strong(found, hash)) {
      g_firsts[g_stack_count++] = number;
      return;
    }
    if (found == hash) return;
  }
}

bool fails(Kind kind) {
  if (!g_counts.load(std::memory_order_relaxed)) return false;
  const long number = ++g_calls[kind];
  if (g_number == 0 && kind == kMalloc) remember_stack(number);
  return number == g_number && kind == g_kind;
}

template <class F>
F next_of(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

void read_wish() {
  const char* text = std::getenv("PLIMSOLL_FAULT");
  if (text == nullptr) return;
  const char* colon = std::strchr(text, ':');
  if (colon == nullptr) return;
  for (int kind = 0; kind < kKinds; ++kind)
    if (std::strncmp(text, kNames[kind], static_cast<std::size_t>(colon - text)) == 0) g_kind = kind;
  g_number = std::strtol(colon + 1, nullptr, 10);
}

void report() {
  g_counts = false;
  const char* path = std::getenv("PLIMSOLL_FAULT_REPORT");
  if (path == nullptr) return;
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return;
  for (int kind = 0; kind < kKinds; ++kind) std::fprintf(file, "%s %ld\n", kNames[kind], g_calls[kind].load());
  for (std::size_t i = 0; i < g_stack_count.load(); ++i) std::fprintf(file, "stack %ld\n", g_firsts[i].load());
  std::fclose(file);
}

using Main = int (*)(int, char**, char**);
Main g_main;

int counted_main(int argc, char** argv, char** environment) {
  read_wish();
  unsetenv("LD_PRELOAD");  // what the program starts is not ours to fail
  std::atexit(report);
  std::at_quick_exit(report);  // as main() ends
  g_counts = true;
  return g_main(argc, argv, environment);
}

}  // namespace

extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);

int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(), void (*end)(), void* stack) {
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  g_main = main;
  return next_of<Start>("__libc_start_main")(counted_main, argc, argv, init, fini, end, stack);
}

void* malloc(std::size_t bytes) {
  if (fails(kMalloc)) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_malloc(bytes);
}

void* calloc(std::size_t count, std::size_t bytes) {
  if (fails(kMalloc)) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_calloc(count, bytes);
}

void* realloc(void* old, std::size_t bytes) {
  if (fails(kMalloc)) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_realloc(old, bytes);
}

std::FILE* fopen(const char* path, const char* mode) {
  if (fails(kOpen)) {
    errno = EMFILE;
    return nullptr;
  }
  return next_of<std::FILE* (*)(const char*, const char*)>("fopen")(path, mode);
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  if (fails(kOpen)) {
    errno = EMFILE;
    return -1;
  }
  return next_of<int (*)(const char*, int, mode_t)>("open")(path, flags, mode);
}

int mkostemp(char* pattern, int flags) {
  if (fails(kOpen)) {
    errno = EACCES;
    return -1;
  }
  return next_of<int (*)(char*, int)>("mkostemp")(pattern, flags);
}

std::size_t fread(void* to, std::size_t size, std::size_t count, std::FILE* file) {
  if (fails(kRead)) {
    errno = EIO;
    file->_flags |= 0x20;  // what ferror() reads in glibc
    return 0;
  }
  return next_of<std::size_t (*)(void*, std::size_t, std::size_t, std::FILE*)>("fread")(to, size, count, file);
}

ssize_t read(int file, void* to, std::size_t bytes) {
  if (fails(kRead)) {
    errno = EIO;
    return -1;
  }
  return next_of<ssize_t (*)(int, void*, std::size_t)>("read")(file, to, bytes);
}

ssize_t write(int file, const void* from, std::size_t bytes) {
  if (file > 2 && fails(kWrite)) {
    errno = ENOSPC;
    return -1;
  }
  return next_of<ssize_t (*)(int, const void*, std::size_t)>("write")(file, from, bytes);
}

int fsync(int file) {
  if (fails(kSync)) {
    errno = EIO;
    return -1;
  }
  return next_of<int (*)(int)>("fsync")(file);
}

int rename(const char* from, const char* to) {
  if (fails(kRename)) {
    errno = EIO;
    return -1;
  }
  return next_of<int (*)(const char*, const char*)>("rename")(from, to);
}

int link(const char* from, const char* to) {
  if (fails(kRename)) {
    errno = EPERM;
    return -1;
  }
  return next_of<int (*)(const char*, const char*)>("link")(from, to);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  if (fails(kThread)) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  return next_of<Create>("pthread_create")(thread, attributes, run, argument);
}

}  // extern "C"

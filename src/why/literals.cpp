// SPDX-License-Identifier: Apache-2.0
#include "why/literals.h"

#include <algorithm>
#include <cstring>

#include "base/result.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr std::size_t kStride = 4;

std::uint32_t piece_hash(const char* bytes) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  word |= 0x20202020U;  // folds ASCII case; other bytes that coincide are sorted out by verify()
  return (word * 0x9E3779B1U) >> 16U;
}

// How common a byte is in logs, roughly; the rarest stretch of a literal makes the fewest false hits.
int commonness(char c) {
  static constexpr std::string_view kCommon = " eatrnoislc01d.";
  const std::size_t at = kCommon.find(c);
  return at == std::string_view::npos ? 1 : static_cast<int>(kCommon.size() - at) + 2;
}

std::size_t rarest_window(std::string_view text) {
  constexpr std::size_t kWindow = 4 + kStride - 1;
  std::size_t best = 0;
  int least = 1 << 30;
  for (std::size_t at = 0; at + kWindow <= text.size(); ++at) {
    int sum = 0;
    for (std::size_t i = 0; i < kWindow; ++i) sum += commonness(text[at + i]);
    if (sum < least) {
      least = sum;
      best = at;
    }
  }
  return best;
}

}  // namespace

LiteralScanner::LiteralScanner(std::span<const Literal> literals) : literals_(literals) {
  std::vector<std::pair<std::uint32_t, Piece>> all;
  for (std::uint32_t i = 0; i < literals.size(); ++i) {
    const std::string_view text = literals[i].text;
    PLIMSOLL_CHECK(text.size() >= kShortest);
    const std::size_t window = rarest_window(text);
    for (std::size_t k = 0; k < kStride; ++k)
      all.push_back({piece_hash(text.data() + window + k), {i, static_cast<std::uint32_t>(window + k)}});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  starts_.assign(65537, 0);
  for (const auto& [hash, piece] : all) {
    bits_[hash >> 6U] |= std::uint64_t{1} << (hash & 63U);
    ++starts_[hash + 1];
    pieces_.push_back(piece);
  }
  for (std::size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
}

int LiteralScanner::verify(std::string_view text, std::size_t at, std::uint32_t hash) const {
  for (std::uint32_t i = starts_[hash]; i < starts_[hash + 1]; ++i) {
    const Piece& piece = pieces_[i];
    const std::string_view wanted = literals_[piece.literal].text;
    if (at < piece.offset || at - piece.offset + wanted.size() > text.size()) continue;
    const char* begin = text.data() + (at - piece.offset);
    std::size_t k = 0;
    while (k < wanted.size() && folded(begin[k]) == wanted[k]) ++k;
    if (k == wanted.size()) return static_cast<int>(piece.literal);
  }
  return -1;
}

Topics LiteralScanner::topics(std::string_view text) const {
  Topics found = 0;
  for (std::size_t at = 0; at + 4 <= text.size(); at += kStride) {
    const std::uint32_t hash = piece_hash(text.data() + at);
    if ((bits_[hash >> 6U] >> (hash & 63U) & 1U) == 0) continue;
    // Two literals may share a position; each has its own topic.
    for (std::uint32_t i = starts_[hash]; i < starts_[hash + 1]; ++i) {
      const Piece& piece = pieces_[i];
      const std::string_view wanted = literals_[piece.literal].text;
      if (at < piece.offset || at - piece.offset + wanted.size() > text.size()) continue;
      const char* begin = text.data() + (at - piece.offset);
      std::size_t k = 0;
      while (k < wanted.size() && folded(begin[k]) == wanted[k]) ++k;
      if (k == wanted.size()) found |= bit(literals_[piece.literal].topic);
    }
  }
  return found;
}

std::size_t LiteralScanner::find(std::string_view text, std::size_t from, Topic* topic) const {
  const char* data = text.data();
  for (std::size_t at = from; at + 4 <= text.size(); at += kStride) {
    const std::uint32_t hash = piece_hash(data + at);
    if ((bits_[hash >> 6U] >> (hash & 63U) & 1U) == 0) [[likely]]
      continue;
    const int literal = verify(text, at, hash);
    if (literal < 0) continue;
    *topic = literals_[static_cast<std::size_t>(literal)].topic;
    return at;
  }
  return std::string_view::npos;
}

std::span<const Literal> log_literals() {
  // Words of the messages that the recognisers read; "\n" stands for the beginning of a line.
  static constexpr Literal kLiterals[] = {
      {"out of memory", Topic::kOom},
      {"with error 2", Topic::kOom},
      {"error code 2", Topic::kOom},
      {"cudasuccess (2", Topic::kOom},
      {"outofmemory", Topic::kOom},
      {"resource_exhausted", Topic::kOom},
      {"resourceexhausted", Topic::kOom},
      {"resource exhausted", Topic::kOom},
      {"out_of_memory", Topic::kOom},
      {"erroroutofmemory", Topic::kOom},
      {"oom when allocating", Topic::kOom},
      {"tried to allocate", Topic::kOom},
      {"memory allocation failure", Topic::kOom},
      {"memoryallocation", Topic::kOom},
      {"failed with oom", Topic::kOom},
      {"hbm capacity", Topic::kOom},
      {"insufficient memory", Topic::kOom},
      {"skipping", Topic::kOom},
      {"skipped batch", Topic::kOom},
      {"recover from oom", Topic::kOom},
      {"failed to clone", Topic::kOom},
      {"decreasing batch size", Topic::kOom},
      {"cache blocks", Topic::kServing},
      {"kv cache", Topic::kServing},
      {"kv_cache", Topic::kServing},
      {"kv-cache", Topic::kServing},
      {"memory utilization", Topic::kServing},
      {"memory_utilization", Topic::kServing},
      {"mem-fraction", Topic::kServing},
      {"mem_fraction", Topic::kServing},
      {"memory pool", Topic::kServing},
      {"memory profiling", Topic::kServing},
      {"model weights took", Topic::kServing},
      {"max seq len", Topic::kServing},
      {"nccl warn", Topic::kNccl},
      {"distbackenderror", Topic::kNccl},
      {"actordiederror", Topic::kNccl},
      {"rayactorerror", Topic::kNccl},
      {"potential root", Topic::kKill},
      {"brokenpipeerror", Topic::kNccl},
      {"connectionreseterror", Topic::kNccl},
      {"engine core init", Topic::kNccl},
      {"engine process failed", Topic::kNccl},
      {"nccl error", Topic::kNccl},
      {"ncclunhandled", Topic::kNccl},
      {"ncclsystemerror", Topic::kNccl},
      {"ncclremoteerror", Topic::kNccl},
      {"ncclinternal", Topic::kNccl},
      {"processgroupnccl", Topic::kNccl},
      {"watchdog", Topic::kNccl},
      {"connection closed", Topic::kNccl},
      {"connection reset", Topic::kNccl},
      {"socketpollconnect", Topic::kNccl},
      {"status_alloc_failed", Topic::kLibrary},
      {"status_not_initialized", Topic::kLibrary},
      {"status_internal_error", Topic::kLibrary},
      {"status_execution_failed", Topic::kLibrary},
      {"for convolution", Topic::kLibrary},
      {"convolution algo", Topic::kLibrary},
      {"thcudacheck", Topic::kLibrary},
      {"defaultcpuallocator", Topic::kHost},
      {"cpuallocator", Topic::kHost},
      {"can't allocate memory", Topic::kHost},
      {"cannot allocate memory", Topic::kHost},
      {"not enough memory", Topic::kHost},
      {"bad_alloc", Topic::kHost},
      {"paging file", Topic::kHost},
      {"memoryerror", Topic::kHost},
      {"unable to allocate", Topic::kHost},
      {"unable to mmap", Topic::kHost},
      {"bus error", Topic::kHost},
      {"(sigbus)", Topic::kHost},
      {"shared memory", Topic::kHost},
      {"/dev/shm", Topic::kHost},
      {"oom-kill", Topic::kKill},
      {"oom_kill", Topic::kKill},
      {"oom_reaper", Topic::kKill},
      {"out-of-memory", Topic::kKill},
      {"oomkilled", Topic::kKill},
      {"killed process", Topic::kKill},
      {"exitcode", Topic::kKill},
      {"exit code", Topic::kKill},
      {"exit_code", Topic::kKill},
      {"exit_status", Topic::kKill},
      {"exitstatus", Topic::kKill},
      {"exit-code", Topic::kKill},
      {"returncode", Topic::kKill},
      {"return_code", Topic::kKill},
      {"exited with", Topic::kKill},
      {"exited unexpectedly", Topic::kKill},
      {"died unexpectedly", Topic::kKill},
      {"exit status", Topic::kKill},
      {"exits with", Topic::kKill},
      {"return code", Topic::kKill},
      {"returned non-zero", Topic::kKill},
      {"sigkill", Topic::kKill},
      {"signal 9", Topic::kKill},
      {"signal: 9", Topic::kKill},
      {"by signal", Topic::kKill},
      {"killed by", Topic::kKill},
      {"was killed", Topic::kKill},
      {"were killed", Topic::kKill},
      {"terminated abruptly", Topic::kKill},
      {"abruptly died", Topic::kKill},
      {"died with", Topic::kKill},
      {"\nkilled", Topic::kKill},
      {"killed\n", Topic::kKill},
      {"no longer alive", Topic::kKill},
      {" killed ", Topic::kKill},
      {"memory limit", Topic::kKill},
      {"memory cgroup", Topic::kKill},
      {"get\xC3\xB6tet", Topic::kKill},                                    // de
      {"processus arr\xC3\xAAt\xC3\xA9", Topic::kKill},                    // fr
      {"terminado (killed)", Topic::kKill},                                // es
      {"\nmatado", Topic::kKill},                                          // es
      {"\nucciso", Topic::kKill},                                          // it
      {"\xE5\xB7\xB2\xE6\x9D\x80\xE6\xAD\xBB", Topic::kKill},              // zh
      {"\xE5\xB7\xB2\xE7\xA0\x8D\xE6\x8E\x89", Topic::kKill},              // zh_TW
      {"\xE5\xBC\xB7\xE5\x88\xB6\xE7\xB5\x82\xE4\xBA\x86", Topic::kKill},  // ja
      {"\xEC\xA3\xBD\xEC\x97\x88\xEC\x9D\x8C", Topic::kKill},              // ko
      {"\xD0\xA3\xD0\xB1\xD0\xB8\xD1\x82\xD0\xBE", Topic::kKill},          // ru
      {"no space left", Topic::kDisk},
      {"quota exceeded", Topic::kDisk},
      {"streamwriter", Topic::kDisk},
      {"inline_container", Topic::kDisk},
      {"iostream error", Topic::kDisk},
      {"errno 28", Topic::kDisk},
      {"errno 122", Topic::kDisk},
      {"os error 28", Topic::kDisk},
      {"os error 122", Topic::kDisk},
      {"not enough disk", Topic::kDisk},
      {"not enough free disk", Topic::kDisk},
      {"disk full", Topic::kDisk},
      {"disk is full", Topic::kDisk},
      {"file too large", Topic::kDisk},
      {"write failed", Topic::kDisk},
      {"write error", Topic::kDisk},
      {"short write", Topic::kDisk},
      {"error: ", Topic::kException},
      {"error:\n", Topic::kException},
      {"exception: ", Topic::kException},
      {"exception has occurred: ", Topic::kException},  // Visual Studio Code
      {"\xE5\x8F\x91\xE7\x94\x9F\xE5\xBC\x82\xE5\xB8\xB8: ", Topic::kException},
      {"interrupt\n", Topic::kException},
      {"traceback (most", Topic::kTraceback},
      {"\", line ", Topic::kTraceback},
      {"device-side assert", Topic::kDevice},
      {"illegal memory access", Topic::kDevice},
      {"illegal address", Topic::kDevice},
      {"illegal_address", Topic::kDevice},
      {"misaligned address", Topic::kDevice},
      {"invalid argument", Topic::kDevice},
      {"launch failure", Topic::kDevice},
      {"uncorrectable", Topic::kDevice},
      {"nvrm: xid", Topic::kDevice},
      {"stream is capturing", Topic::kDevice},
      {"capture invalidated", Topic::kDevice},
      {"captureinvalidated", Topic::kDevice},
      {"captureunsupported", Topic::kDevice},
      {"indexselectlargeindex", Topic::kDevice},
      {"out of bounds", Topic::kDevice},
      {"gpu is lost", Topic::kDevice},
      {"fallen off the bus", Topic::kDevice},
      {"time limit", Topic::kTime},
      {"timed out", Topic::kTime},
      {"timeout", Topic::kTime},
      {"preempt", Topic::kTime},
      {"cancelled", Topic::kTime},
      {"alloc_conf", Topic::kSetting},
      {"expandable", Topic::kSetting},
      {"pidfd_open", Topic::kSetting},
      {"custom_all_reduce", Topic::kSetting},
      {"saving ", Topic::kMarker},
      {"about to save", Topic::kMarker},
      {"evaluat", Topic::kMarker},
      {"validat", Topic::kMarker},
      {"loading ", Topic::kMarker},
      {"resuming", Topic::kMarker},
      {"restoring", Topic::kMarker},
      {"capturing", Topic::kMarker},
      {"cuda graph", Topic::kMarker},
      {"cudagraph", Topic::kMarker},
      {"wake up", Topic::kMarker},
      {"wake_up", Topic::kMarker},
      {"waking ", Topic::kMarker},
      {"rollout", Topic::kMarker},
      {"training start", Topic::kMarker},
      {"begin training", Topic::kMarker},
      {"initializing optimizer", Topic::kMarker},
      {"creating optimizer", Topic::kMarker},
      {"sleep mode", Topic::kMarker},
      {"start training", Topic::kMarker},
      {"starting training", Topic::kMarker},
      {"running training", Topic::kMarker},
      {"train_runtime", Topic::kMarker},
      {"training complete", Topic::kMarker},
      {"training finished", Topic::kMarker},
      {"backward done", Topic::kMarker},
      {"checkpoint", Topic::kMarker},
      {"state dict", Topic::kMarker},
      {"state_dict", Topic::kMarker},
      {"world size", Topic::kWorld},
      {"world_size", Topic::kWorld},
      {"nproc-per-node", Topic::kWorld},
      {"nproc_per_node", Topic::kWorld},
      {"num_processes", Topic::kWorld},
      {" ......", Topic::kWorld},
      {"sigabrt", Topic::kAbort},
      {"aborted", Topic::kAbort},
      {"fatal python", Topic::kAbort},
      {"sigsegv", Topic::kAbort},
      {"segmentation fault", Topic::kAbort},
      {"core dumped", Topic::kAbort},
      {"terminate called", Topic::kAbort},
      {"malloc(): ", Topic::kAbort},
      {"free(): ", Topic::kAbort},
      {"double free", Topic::kAbort},
      {"corrupted size", Topic::kAbort},
      {"munmap_chunk()", Topic::kAbort},
      {"stack smashing", Topic::kAbort},
      {"root cause", Topic::kElastic},
      {"childfailederror", Topic::kElastic},
      {"local_rank:", Topic::kElastic},
      {"closing signal", Topic::kElastic},
      {"amdgpu: ", Topic::kDriver},
      {"of vram memory", Topic::kDriver},
      {"exhaust", Topic::kFailure},
      {"insufficient", Topic::kFailure},
      {"not enough", Topic::kFailure},
      {"failed to ", Topic::kFailure},
      {" failed: ", Topic::kFailure},
      {" failed\n", Topic::kFailure},
      {"unable to", Topic::kFailure},
      {"cannot ", Topic::kFailure},
      {"can't al", Topic::kFailure},
      {"could not ", Topic::kFailure},
      {"can not ", Topic::kFailure},
      {"no space", Topic::kFailure},
      {"no room ", Topic::kFailure},
      {" is full", Topic::kFailure},
      {"storefull", Topic::kFailure},
      {"storagefull", Topic::kFailure},
      {"too many open", Topic::kFailure},
      {"descriptor", Topic::kFailure},
      {"low on resource", Topic::kFailure},
      {"</torch_", Topic::kHost},
      {"no memory for", Topic::kFailure},
      {"no device memory", Topic::kFailure},
      {"exceeds ", Topic::kFailure},
      {"exceeded", Topic::kFailure},
      {"greater than", Topic::kFailure},
      {"larger than", Topic::kFailure},
      {"impossible", Topic::kFailure},
      {"refused ", Topic::kFailure},
      {"buffer size", Topic::kFailure},
      {" limit \"", Topic::kKill},
      {"keyboardinterrupt", Topic::kException},
      {"signalexception", Topic::kException},
      {"validationerror", Topic::kException},
      {"kvcache", Topic::kServing},
      {" enospc", Topic::kFailure},
      {"bytes failed", Topic::kFailure},
      {"hccl function", Topic::kNccl},
      {"hccl error", Topic::kNccl},
      {"failed to register", Topic::kHost},
      {"outofresources", Topic::kHost},
      {"out of resource", Topic::kHost},
      {"too much shared", Topic::kHost},
      {"errno 24", Topic::kFailure},
      {"ancdata", Topic::kFailure},
      {"input/output error", Topic::kDisk},
      {"non-zero status", Topic::kKill},
      {"nccl failure", Topic::kNccl},
      {"assertion", Topic::kDevice},
      {"exception raised from", Topic::kException},
      {"out_of_resources", Topic::kFailure},
      {"out_of_device", Topic::kFailure},
      {"out of device", Topic::kFailure},
      {"out of host", Topic::kFailure},
      {"out of gpu", Topic::kFailure},
      {"outofdevicememory", Topic::kFailure},
      {"outofhostmemory", Topic::kFailure},
      {" failed.\n", Topic::kFailure},
      {"badalloc", Topic::kFailure},
      {"panicked", Topic::kFailure},
      {"internal assert", Topic::kDevice},
      {"hsa_status", Topic::kDevice},
      {"access fault", Topic::kDevice},
      {"page not present", Topic::kDevice},
      {"allocation_failed", Topic::kLibrary},
      {"connection refused", Topic::kNccl},
      {"socketstartconnect", Topic::kNccl},
      {"all available", Topic::kKill},
      {"than is available", Topic::kKill},
      {"code=killed", Topic::kKill},
      {".killed", Topic::kKill},
      {"due to signal", Topic::kKill},
      {"diststoreerror", Topic::kNccl},
      {"appears to have died", Topic::kKill},
      {"kernel died", Topic::kKill},
      {"allocation failed", Topic::kFailure},
      {"oom killer", Topic::kKill},
      {"memory pressure", Topic::kKill},
      {"job killed", Topic::kKill},
      {"low on memory", Topic::kKill},
      {"low memory", Topic::kKill},
      {"sending sig", Topic::kKill},
      {"largest program allocations", Topic::kOom},
      {"memory usage", Topic::kKill},
      {"managed", Topic::kHost},
      {"cudahost", Topic::kHost},
      {"pidfd_getfd", Topic::kSetting},
      {"cudamalloc retries", Topic::kSummary},
      {"alloc_retries", Topic::kSummary},
      {"cuda ooms", Topic::kSummary},
      {"failcnt", Topic::kSummary},
      {"total_vm", Topic::kSummary},
      {"total allocation:", Topic::kSummary},
      {"memory.max", Topic::kSummary},
      {"cuda memory summary", Topic::kSummary},
      {"in-use chunks", Topic::kOom},  // TensorFlow, which lists them where it has given up
      {"malloc fail", Topic::kFailure},
      {"cuda failure", Topic::kNccl},
      {"hip failure", Topic::kNccl},
      {"unhandled system error", Topic::kNccl},
  };
  return kLiterals;
}

const LiteralScanner& log_scanner() {
  static const LiteralScanner kScanner{log_literals()};
  return kScanner;
}

}  // namespace plimsoll::why

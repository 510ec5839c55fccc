// SPDX-License-Identifier: Apache-2.0
// One line that says something failed, typed. recognise() looks at a single line; what the run was doing
// (frames, steps, ranks) is added by the collector.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "why/line.h"
#include "why/literals.h"
#include "why/oom_message.h"

namespace plimsoll::why {

enum class SignalKind : std::uint8_t {
  kDeviceOom,          // an allocator's message, or the runtime's bare one
  kSkippedBatch,       // the loop caught an out-of-memory and went on
  kNoCacheBlocks,      // a serving engine has no room for its cache
  kCacheTooShort,      // ... less than one sequence needs
  kNotFreeAtStart,     // free memory at start-up is below the wish
  kNcclMemory,         // NCCL's own allocation failed
  kNcclRegister,       // registering a buffer failed
  kCollectiveTimeout,  // a watchdog gave up
  kPeerLost,           // echo of another rank's death
  kLibraryAlloc,       // cuBLAS or cuDNN could not make its handle
  kLibraryOther,       // another status of theirs
  kHostAllocation,     // malloc or mmap refused
  kPinnedMemory,       // page-locked memory refused
  kManagedMemory,      // memory shared by host and device refused
  kDescriptors,        // no more open files
  kObjectStore,        // Ray's or Arrow's store is full
  kBlockLimit,         // one block is more than the driver hands out
  kMaskedOom,          // an assertion inside the allocator's own error path
  kConvWorkspace,      // no algorithm of a convolution fits
  kUnclearMemory,      // memory ran out, and whose is not said
  kSharedMemory,       // /dev/shm or a bus error
  kHostKill,           // the kernel's or the scheduler's word for it
  kKilled,             // SIGKILL without that word
  kDiskFull,
  kDiskWrite,  // a write failed; why is not said
  kConfig,     // the framework refuses the options
  kAddressing,
  kCaptureInvalid,
  kKernelResources,  // a kernel wants more registers or shared memory than a multiprocessor has
  kTimeLimit,
  kInterrupted,  // somebody ended it on purpose, or the launcher did
  kAbort,
  kInvalidArgument,
  kInterop,    // the message itself names the allocator setting
  kEngineOom,  // a swap of memory between trainer and rollout engine failed
  kException,  // any other exception
  kUnclear,    // an exception whose type and words say nothing
  kExit,       // a launcher's word that a process failed; why is not said
};

struct Signal {
  SignalKind kind = SignalKind::kException;
  OomNumbers oom;
  std::int64_t bytes = 0;           // asked for or held, where the line says so
  std::optional<std::int64_t> pid;  // of the process that was killed
  std::string exception;            // "ValueError"
  std::string message;              // what follows it
  std::string rule;                 // id of the configuration rule, "R115"
  std::string rule_fix;
  bool is_shm = false;
  bool is_guessed = false;    // whose memory it was is not said: a bus error has other reasons too
  bool says_padding = false;  // XLA: a part of it is padding
  bool is_warning = false;    // printed as a warning; the run went on
  std::optional<int> named_rank;
};

// What a framework prints when it refuses a configuration, and what to change. The texts are the catalogue's, which
// this module does not know: whoever starts a Collector hands them over.
struct ConfigRule {
  std::string id;                   // "R115"
  std::vector<std::string> pieces;  // lower case, in this order; any text may stand between them
  std::string fix;
};
// Asked for only when a log has an exception that no reader knows.
using ConfigRules = std::span<const ConfigRule> (*)();

// The rule with the longest text that the message has, or nullptr.
[[nodiscard]] const ConfigRule* find_config_rule(std::string_view message, std::span<const ConfigRule> rules);

struct ExceptionLine {
  std::string_view type;  // last part of the dotted name
  std::string_view message;
};
// "torch.cuda.OutOfMemoryError: text", "ValueError: text", "KeyError". nullopt for other lines.
[[nodiscard]] std::optional<ExceptionLine> parse_exception(std::string_view text);
// One that another program quotes as Python prints it: "Run 7 errored: ValueError('text')".
[[nodiscard]] std::optional<ExceptionLine> parse_quoted_exception(std::string_view text);

// `expects_exception`: a traceback is open, so an exception without a message counts.
[[nodiscard]] std::optional<Signal> recognise(const Line& line, Topics topics, bool expects_exception,
                                              ConfigRules rules = nullptr);

// Whether an exception is of the ordinary kind that memory never raises: a missing key, a wrong shape or type, an
// import, a file, a connection.
[[nodiscard]] bool is_ordinary(const ExceptionLine& exception);

// Whether a line that recognise() does not know reports an error all the same: by its level, by "tool: error: text",
// by the bare name of an exception. kExit where it only says that a program failed.
[[nodiscard]] std::optional<SignalKind> reports_error(const Line& line);

// Whether a line says that a call failed for a reason of the system that is no shortage: no right, no such file.
[[nodiscard]] bool names_other_reason(std::string_view text);

// Whether a message states a constraint on options: divisibility, exclusion, requirement.
[[nodiscard]] bool states_constraint(std::string_view message);

// The word for SIGKILL that a shell prints, in any of the usual languages: "Killed", "Getötet".
[[nodiscard]] bool is_shell_killed(std::string_view text);

}  // namespace plimsoll::why

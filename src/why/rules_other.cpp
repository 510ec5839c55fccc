// SPDX-License-Identifier: Apache-2.0
// Nothing ran out, or the log does not say what did. Not-memory needs evidence of another kind of failure; without it
// the answer stays unknown.
#include <vector>

#include "why/rules.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

using S = const Situation&;

// "96 is not divisible by 64", "num_heads (52) must be divisible by mp_size (8)": whether the numbers bear it out.
bool division_fails(std::string_view message) {
  if (!has_text(message, "divisible")) return false;
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < message.size(); ++i)
    if (is_digit(message[i]) && (i == 0 || !is_word(message[i - 1])))
      if (const auto number = leading_integer(message.substr(i)); number && numbers.size() < 8) {
        numbers.push_back(*number);
        while (i + 1 < message.size() && is_digit(message[i + 1])) ++i;
      }
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i)
    if (numbers[i + 1] > 1 && numbers[i] % numbers[i + 1] != 0) return true;
  return false;
}

bool is_config(S s) { return s.is(SignalKind::kConfig); }
bool computes(S s) {
  const Phase phase = s.frames().phase;
  return phase == Phase::kForward || phase == Phase::kBackward || phase == Phase::kOptimizerStep ||
         phase == Phase::kData;
}
bool names_other_reason(S s) {
  return s.is(SignalKind::kCaptureInvalid) || s.is(SignalKind::kKernelResources) || s.is(SignalKind::kTimeLimit) ||
         s.is(SignalKind::kInterrupted) || s.is(SignalKind::kCollectiveTimeout) || s.is(SignalKind::kLibraryOther);
}
bool expandable(S s) { return s.findings.has_expandable_segments(); }
// Memory is shared between processes here, which expandable segments break.
bool shares_handles(S s) {
  return s.frames().custom_all_reduce ||
         has_any(s.root.text, {"custom_all_reduce", "custom allreduce", "cudaipc", "ipc ", "pidfd", "ipcmem"});
}
// A failure of the runtime that speaks of no shortage.
bool is_odd(S s) {
  if (s.is(SignalKind::kInvalidArgument) || s.is(SignalKind::kAbort)) return true;
  return (s.is(SignalKind::kException) || s.is(SignalKind::kUnclear)) &&
         has_any(s.root.text, {"cancelled", "canceled", "invalid argument", "ipc", "not supported", "driver error",
                               "internal assert", "cumem", "symmetric", "operation not permitted"});
}

bool speaks_of_another(S s) {
  return s.root.signal.message.size() < 12 ||
         has_any(s.root.signal.message,
                 {"worker", "process", "unknown error", "terminated", "died", "crash", "exited", "see log", "see above",
                  "unhandled", "actor", "rank ", "child", "previous error", "original error", "error messages"});
}

const Rule kRules[] = {
    {Cause::kUnknown, 2.0, [](S) { return true; }, "the words say too little", true},
    {Cause::kUnknown, 1.5, [](S s) { return s.is(SignalKind::kUnclear) && speaks_of_another(s); },
     "the message reports that something else failed, and not why"},
    {Cause::kUnknown, 0.6, [](S s) { return s.is(SignalKind::kPeerLost); }, "only the echo of another failure is here"},
    {Cause::kUnknown, 1.0, [](S s) { return s.is(SignalKind::kExit); }, "a process failed, and no line says why"},
    {Cause::kConfigConflict, 4.2, [](S s) { return is_config(s) && !s.root.signal.message.empty(); },
     "the message states a constraint between options"},
    {Cause::kConfigConflict, 2.6, [](S s) { return is_config(s) && s.root.signal.message.empty(); },
     "an assertion failed where options are checked"},
    {Cause::kConfigConflict, 2.5, [](S s) { return is_config(s) && !s.root.signal.rule.empty(); },
     "the message is that of a known configuration rule"},
    {Cause::kConfigConflict, 2.5, [](S s) { return is_config(s) && division_fails(s.root.signal.message); },
     "the division in the message does not come out"},
    {Cause::kConfigConflict, 1.2, [](S s) { return is_config(s) && s.frames().checks_config; },
     "options were being checked"},
    {Cause::kConfigConflict, -2.2, [](S s) { return is_config(s) && s.root.steps_before > 1; },
     "steps had been done: the options were accepted"},
    {Cause::kConfigConflict, -1.8, [](S s) { return is_config(s) && computes(s) && s.root.signal.rule.empty(); },
     "it failed while computing"},
    {Cause::kNotMemory, 3.2, is_config, "an exception that names no memory"},

    {Cause::kExpandableInterop, 7.0, [](S s) { return s.is(SignalKind::kInterop); },
     "the message names what the allocator setting breaks"},
    {Cause::kExpandableInterop, 5.5, [](S s) { return is_odd(s) && expandable(s); },
     "expandable segments are on, and no memory is short"},
    {Cause::kExpandableInterop, 4.6,
     [](S s) { return is_odd(s) && !expandable(s) && shares_handles(s) && !s.is(SignalKind::kAbort); },
     "memory is shared between processes here, which that allocator setting breaks"},
    {Cause::kNotMemory, 3.4, is_odd, "the message speaks of no shortage"},

    {Cause::kNotMemory, 5.5, [](S s) { return s.is(SignalKind::kAddressing) && !s.oom().is_impossible; },
     "an addressing error, not a shortage"},
    {Cause::kExpandableInterop, 3.6, [](S s) { return s.is(SignalKind::kAddressing) && expandable(s); },
     "expandable segments are on"},
    {Cause::kNotMemory, 6.0, [](S s) { return s.oom().is_impossible; }, "no tensor is that large: its size is garbage"},
    {Cause::kNotMemory, 3.6, [](S s) { return s.is(SignalKind::kDeviceOom) && is_far_below_limit(s.oom()); },
     "what is held and asked for is less than half of the limit that the message names: the device serves nothing"},
    {Cause::kUnifiedLimit, 2.0, [](S s) { return s.is(SignalKind::kDeviceOom) && is_far_below_limit(s.oom()); },
     "the message names a limit"},
    {Cause::kNotMemory, 5.5, names_other_reason, "the message names another reason"},
    {Cause::kNotMemory, 5.0, [](S s) { return s.is(SignalKind::kException) && !is_odd(s); },
     "an exception of a kind that memory never raises"},
    {Cause::kNotMemory, 2.6, [](S s) { return s.is(SignalKind::kUnclear) && !is_odd(s); },
     "an exception that names no memory"},
    {Cause::kNotMemory, 2.2, [](S s) { return s.is(SignalKind::kPeerLost) || s.is(SignalKind::kExit); },
     "a process failed, and no line speaks of memory"},
    {Cause::kNotMemory, 1.2,
     [](S s) { return s.is(SignalKind::kPeerLost) && has_any(s.root.text, {"network", "net/ib", "unreachable"}); },
     "the message speaks of the network"},
    {Cause::kHostRamKill, 1.4, [](S s) { return s.is(SignalKind::kPeerLost); },
     "a rank that vanishes without a word is often killed for host memory"},
    {Cause::kHostRamKill, 1.0, [](S s) { return s.is(SignalKind::kPeerLost) && has_text(s.root.text, "worker"); },
     "workers that prepare data hold it in host memory"},
    {Cause::kHostRamKill, 3.0, [](S s) { return s.is(SignalKind::kUnclearMemory); },
     "memory ran out, and nothing speaks of a device"},
    {Cause::kGenuineCapacity, 2.8, [](S s) { return s.is(SignalKind::kUnclearMemory); },
     "memory ran out, and whose it is is not said"},
};

}  // namespace

std::span<const Rule> other_rules() { return kRules; }

}  // namespace plimsoll::why

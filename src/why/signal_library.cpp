// SPDX-License-Identifier: Apache-2.0
// What libraries and engines on the device say: NCCL, cuBLAS and cuDNN, serving engines.
#include <algorithm>

#include "why/purpose.h"
#include "why/signal_readers.h"
#include "why/words.h"

namespace plimsoll::why {

std::optional<int> nccl_device(std::string_view text) {
  // host:pid:thread [device] file:line NCCL WARN
  const std::size_t open = text.find(" [");
  if (open == kNone || open > find_word(text, "nccl")) return std::nullopt;
  const auto device = leading_integer(text.substr(open + 2));
  if (!device || *device < 0 || *device >= 4096) return std::nullopt;
  return static_cast<int>(*device);
}

std::string_view runtime_reason(std::string_view text) {
  const std::size_t at = std::min(find_word(text, "cuda failure"), find_word(text, "hip failure"));
  if (at == kNone || has_text(text, "nccl info")) return {};
  const std::size_t open = text.find('\'', at);
  if (open == kNone) return {};
  return text.substr(open + 1, text.find('\'', open + 1) - open - 1);
}

std::optional<Signal> nccl(std::string_view text) {
  const bool warn = has_text(text, "nccl warn");
  const bool own =
      warn || has_any(text, {"hccl function error", "hccl error", "rccl error", "nccl error", "ncclunhandled",
                             "processgroupnccl", "distbackenderror", "ncclsystemerror", "ncclinternal"});
  if (has_any(text, {"collective operation timeout", "watchdog got stuck", "timed out waiting for",
                     "collective timeout", "diststoreerror: socket timeout"}) ||
      (has_text(text, "watchdog caught collective") && has_any(text, {"timeout", "timed out"})) ||
      (has_text(text, "watchdog") && has_any(text, {"exception raised from", "exception (either"})) ||
      has_text(text, "nccl operations have failed or timed out"))
    return of(SignalKind::kCollectiveTimeout);
  // NCCL's own wording for an error of the runtime; its name may stand on the line before.
  const bool own_memory = has_text(runtime_reason(text), "out of memory") ||
                          has_any(text, {"failed to cuda calloc", "failed to hip calloc", "failed to cuda malloc"});
  if ((own || own_memory) &&
      has_any(text, {"out of memory", "failed to cuda calloc", "failed to cuda malloc", "cuda calloc", "cudamalloc",
                     "hip calloc", "hipmalloc"}) &&
      !has_text(text, "nccl info")) {
    Signal signal = of(SignalKind::kNcclMemory);
    for (const std::string_view label :
         {std::string_view{"calloc async"}, std::string_view{"calloc"}, std::string_view{"malloc"}})
      if (signal.bytes == 0) signal.bytes = size_after(text, label).value_or(0);
    return signal;
  }
  if (own && has_any(text, {"regist", "ibv_reg_mr", "reg_mr"}) && has_any(text, {"fail", "error", "invalid"}))
    return of(SignalKind::kNcclRegister);
  if (const std::string_view reason = runtime_reason(text); !reason.empty()) {
    if (has_any(reason, {"illegal", "misaligned", "assert"})) return of(SignalKind::kAddressing);
    if (has_text(reason, "memory")) return of(SignalKind::kNcclMemory);
    return of(has_any(reason, {"unknown error", "unhandled"}) ? SignalKind::kUnclear : SignalKind::kLibraryOther);
  }
  // What the network said is no shortage.
  if ((own || has_any(text, {"socketstartconnect", "socketconnect"})) &&
      has_any(text, {"connection refused", "no route to host", "network is unreachable", "no socket interface",
                     "name or service not known", "cannot assign requested address"}))
    return of(SignalKind::kLibraryOther);
  if (has_text(text, "nccl") && has_any(text, {"unhandled cuda error", "unhandled system error"}) &&
      !has_text(text, "nccl info"))
    return of(SignalKind::kUnclear);
  if (has_any(text, {"nccl failure", "nccl error"}) && has_text(text, "unhandled")) return of(SignalKind::kUnclear);
  if (has_any(text, {"connection closed by", "connection reset by", "socketpollconnect", "remote process exited",
                     "ncclremoteerror", "peer has closed", "broken pipe", "socket timeout", "distbackenderror",
                     "actordiederror", "rayactorerror", "engine core initialization failed", "engine process failed",
                     "connectionreseterror", "enginedeaderror"}) &&
      !has_text(text, "tried to allocate"))  // an echo that quotes its cause says more
    return of(SignalKind::kPeerLost);
  return std::nullopt;
}

std::optional<Signal> library(std::string_view text) {
  const bool algorithm =
      has_any(text, {"unable to find a valid cudnn algorithm", "unable to find an engine to execute",
                     "no algorithm worked", "no convolution algorithm", "workspace allocation failed"}) ||
      (has_any(text, {"convolution", "conv2d", "conv3d"}) && has_text(text, "algo") && has_text(text, "found") &&
       has_any(text, {"not ", "n't ", "no "})) ||
      (has_text(text, "convolution") && has_text(text, "workspace") &&
       has_any(text, {"fail", "cannot", "unable", "out of memory"}));
  if (algorithm && !has_text(text, "warning")) return of(SignalKind::kConvWorkspace);
  if (!has_any(text, {"cublas", "cudnn", "cusolver", "cusparse", "cufft", "hipblas", "miopen"})) return std::nullopt;
  // A status that speaks of an allocation, or any failure of the call that makes the library's handle.
  const bool makes_handle =
      has_any(text, {"blascreate", "blasltcreate", "dnncreate", "solverdncreate", "sparsecreate"});
  if (has_any(text, {"status_alloc_failed", "allocation_failed"}) || (makes_handle && has_text(text, "status_")))
    return of(SignalKind::kLibraryAlloc);
  if (has_any(text, {"status_not_initialized", "cudnn failed to initialize", "could not create cudnn handle",
                     "could not create cublas handle"}) ||
      (has_text(text, "handle") && has_any(text, {"create", "creat", "initiali"}) &&
       has_any(text, {"fail", "cannot", "could not", "unable"})))
    return of(SignalKind::kLibraryAlloc);
  if (has_any(text, {"status_internal_error", "status_execution_failed"})) return of(SignalKind::kLibraryOther);
  return std::nullopt;
}

namespace {

// An engine's account of its cache that comes out below nothing: "the rest ... for KV Cache is -1.05GiB".
bool is_below_nothing(std::string_view text) {
  const std::size_t at =
      std::min({find_word(text, "kv cache"), find_word(text, "kv_cache"), find_word(text, "kvcache")});
  if (at == kNone) return false;
  for (std::size_t i = at; i + 1 < text.size() && i < at + 60; ++i) {
    if (text[i] != '-' || !is_digit(text[i + 1]) || (text[i - 1] != ' ' && text[i - 1] != '=' && text[i - 1] != ':'))
      continue;
    return leading_size(text.substr(i + 1)).value_or(0) > 0;
  }
  return false;
}

}  // namespace

std::optional<Signal> serving(std::string_view text) {
  if (is_below_nothing(text)) return of(SignalKind::kNoCacheBlocks);
  if (has_any(text, {"no available memory for the cache blocks", "no available memory for cache"}))
    return of(SignalKind::kNoCacheBlocks);
  // An engine names the part of it that there was no room for. A function's name is where it happened.
  if (has_any(without_function(text), {"kv cache", "kv_cache", "kvcache"}) &&
      has_any(text, {"could not be created", "cannot be created", "failed to create", "could not be allocated",
                     "failed to allocate", "failed to be allocated"}))
    return of(SignalKind::kNoCacheBlocks);
  // A comparison that does not come out is a refusal, whoever prints it.
  const bool compares = has_any(text, {"is larger than", "exceeds the"}) && has_any(text, {"kv cache", "kv_cache"});
  const bool refuses = parse_exception(text).has_value() || has_any(text, {"valueerror", "runtimeerror"}) || compares;
  if (!refuses) return std::nullopt;
  if (has_text(text, "free memory on device") && has_any(text, {"less than desired", "is less than"}))
    return of(SignalKind::kNotFreeAtStart);
  if (has_any(text, {"kv cache", "kv_cache"}) &&
      has_any(text, {"larger than the maximum number of tokens", "is needed", "larger than the available", "less than",
                     "exceed", "not enough", "too small", "insufficient"}))
    return of(SignalKind::kCacheTooShort);
  if (has_any(text, {"mem-fraction-static", "mem_fraction_static"}) &&
      has_any(text, {"not enough", "increas", "small", "out of"}))
    return of(SignalKind::kNoCacheBlocks);
  if (has_any(text, {"not enough memory"}) && has_text(text, "memory pool")) return of(SignalKind::kNoCacheBlocks);
  return std::nullopt;
}

}  // namespace plimsoll::why

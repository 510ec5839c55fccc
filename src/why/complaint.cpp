// SPDX-License-Identifier: Apache-2.0
#include "why/complaint.h"

#include <algorithm>
#include <iterator>

#include "why/purpose.h"
#include "why/resource_words.h"
#include "why/signal.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

// "out of host memory", "out of GPU memory": whose it is may stand between.
bool out_of_some_memory(std::string_view text) {
  constexpr std::size_t kOwner = 20;
  for (std::size_t at = find_word(text, "out of "); at != kNone; at = find_word(text, "out of ", at + 1)) {
    const std::string_view rest = text.substr(at + 7, kOwner + 6);
    const std::size_t memory = find_word(rest, "memory");
    if (memory != kNone && rest.substr(0, memory).find_first_of(".,:;()") == kNone) return true;
  }
  return false;
}

// Words that say a thing is missing by themselves.
bool is_short(std::string_view text) {
  return out_of_some_memory(text) || has_any(text, {"out of memory",
                                                    "out-of-memory",
                                                    "outofmemory",
                                                    "out of device memory",
                                                    "out_of_memory",
                                                    "ran out of",
                                                    "run out of",
                                                    "running out of",
                                                    "exhaust",
                                                    "insufficient",
                                                    "not enough",
                                                    "no space",
                                                    "no room",
                                                    "no free",
                                                    "no memory for",
                                                    "no device memory",
                                                    "no gpu memory",
                                                    "no host memory",
                                                    "no available",
                                                    "no more ",
                                                    " is full",
                                                    " are full",
                                                    "storefull",
                                                    "storagefull",
                                                    "low on memory",
                                                    "low on resource",
                                                    "short of",
                                                    "short on",
                                                    "too many open",
                                                    "impossible to fit",
                                                    "does not fit",
                                                    "doesn't fit",
                                                    "did not fit",
                                                    "cannot fit",
                                                    "unable to fit",
                                                    "overcommit",
                                                    "bad_alloc",
                                                    "badalloc",
                                                    "out_of_device_memory",
                                                    "outofdevicememory",
                                                    "outofhostmemory",
                                                    "out_of_resources",
                                                    "out_of_host_memory",
                                                    "allocation failure",
                                                    "allocation failed",
                                                    "allocation error",
                                                    "alloc failed",
                                                    "alloc_failed"});
}

// Somebody wanted to take memory, and was refused.
bool is_refused(std::string_view text) {
  static constexpr std::string_view kNo[] = {"cannot", "can't", "can not", "could not", "couldn't",
                                             "unable", "fail",  "refuse",  "reject"};
  static constexpr std::string_view kTake[] = {"alloc",  "reserve",        "commit",     "mmap",
                                               "malloc", "extend",         "memory map", "map memory",
                                               "obtain", "acquire memory", "pin",        "buffer"};
  const bool no =
      std::any_of(std::begin(kNo), std::end(kNo), [&](std::string_view one) { return has_text(text, one); });
  return no &&
         std::any_of(std::begin(kTake), std::end(kTake), [&](std::string_view one) { return has_text(text, one); });
}

// More was wanted than a stated limit allows.
bool is_beyond(std::string_view text) {
  return has_any(text,
                 {"exceed", "greater than", "larger than", "more than", "above the", "bigger than", "higher than"}) &&
         has_any(text, {"limit", "capacity", "maximum", "quota", "available", "threshold", "budget"});
}

// "you need enough GPU RAM to fit the model": a demand, where an exception makes it.
bool demands_room(std::string_view text) {
  return has_text(text, "enough ") && has_any(text, {" to fit", " to hold", " to load", " to store", " to run"}) &&
         (has_any(text, {"gpu memory", "device memory", "vram"}) || has_whole(text, "ram"));
}

bool speaks_of_memory(std::string_view text) {
  return has_any(text, {"memory", "alloc", "oom", "gib", "mib", "bytes", " gb", " mb", "buffer", "heap", "vram",
                        "gpu ram", "hbm", "out_of_resources", "out of resources", "space"});
}

// Limits of a kernel launch, of versions and of text lengths use the same words.
bool is_other_limit(std::string_view text) {
  return has_any(text, {"registers",
                        "internal assert",
                        "shared memory, required",
                        "threads per block",
                        "out of resource: shared",
                        "driver version is insufficient",
                        "insufficient for cuda runtime",
                        "permission",
                        "insufficient privileges",
                        "recursion depth",
                        "sequence length",
                        "rate limit",
                        "too many requests",
                        "max retries",
                        "out of range",
                        "out of bounds",
                        "out of vocab",
                        "shared object file",
                        "symbol",
                        "import",
                        "not enough values",
                        "not enough arguments",
                        "insufficient arguments",
                        "pinned version",
                        "authoriz",
                        "authentic",
                        "not enough samples",
                        "not enough data",
                        "time limit",
                        "timed out",
                        "insufficient data",
                        "token limit",
                        "context length",
                        "gradient overflow",
                        "exceeds the limit of digits"});
}

bool is_advice(std::string_view text) {
  return has_any(
      text, {"if you",     "may run",   "may cause",  "might",     "could cause", "could run",  "to avoid",
             "avoid ",     "prevent",   "in case of", "consider ", "would ",      "until ",     "make sure",
             "instead of", "potential", "likely",     "you can",   "can lead",    "could lead", "warning: insufficient",
             "retrying",   "will be"});
}

Resource owner_of(std::string_view text, Complaint& complaint) {
  if (names_files(text)) return Resource::kDescriptors;
  if (names_block_limit(text)) return Resource::kDriverLimit;
  // A function is where it happened, not what ran out.
  if (names_object_store(text) || names_budget(without_function(text))) return Resource::kBudget;
  if (names_pinned(text)) return Resource::kPinned;
  if (names_shared(text)) return Resource::kShared;
  if (has_text(text, "ephemeral-storage")) return Resource::kDisk;
  if (names_host(text)) return Resource::kHost;
  if (names_device(text)) return Resource::kDevice;
  if (names_disk(text)) return Resource::kDisk;
  complaint.owner_is_guessed = true;
  return Resource::kUnknown;
}

}  // namespace

std::optional<Complaint> parse_complaint(std::string_view whole) {
  const std::string_view text = without_hint(whole);
  if (is_other_limit(text)) return std::nullopt;
  Complaint complaint;
  if (const auto error = parse_system_error(text)) {
    complaint.resource = resource_of(*error, text);
    if (complaint.resource != Resource::kUnknown) {
      read_figures(text, complaint.figures);
      return complaint;
    }
  }
  const bool small_cache = names_budget(text) && has_any(text, {"too small", "too little"});
  const bool demands = demands_room(text) && parse_exception(text);
  const bool plain =
      (is_short(text) || small_cache) && (speaks_of_memory(text) || names_budget(text) || names_disk(text) ||
                                          names_files(text) || names_object_store(text));
  const bool refused = is_refused(text) && speaks_of_memory(text);
  const bool beyond = is_beyond(text) && (speaks_of_memory(text) || names_disk(text));
  const bool block = names_block_limit(text);
  if (!plain && !refused && !beyond && !block && !demands) return std::nullopt;
  if (is_advice(text) && !demands) return std::nullopt;
  complaint.resource = owner_of(text, complaint);
  if (complaint.owner_is_guessed && names_engine_option(whole)) {
    complaint.resource = Resource::kBudget;
    complaint.owner_is_guessed = false;
  }
  read_figures(text, complaint.figures);
  // "cannot allocate" without a size or an owner may be about anything: a rank, a port, a node.
  if (complaint.resource == Resource::kUnknown && !complaint.figures.request &&
      !has_any(text, {"memory", "oom", "bytes", "heap"}))
    return std::nullopt;
  // A quota of devices is no memory of theirs.
  if (complaint.resource == Resource::kDevice && !speaks_of_memory(text)) return std::nullopt;
  if (refused && !plain && complaint.resource == Resource::kDevice && !complaint.figures.request &&
      !has_any(text, {"memory", "alloc"}))
    return std::nullopt;
  return complaint;
}

}  // namespace plimsoll::why

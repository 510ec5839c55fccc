// SPDX-License-Identifier: Apache-2.0
#include "why/complaint.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "why/signal.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr int kEnomem = 12;
constexpr int kEnfile = 23;
constexpr int kEmfile = 24;
constexpr int kEfbig = 27;
constexpr int kEnospc = 28;
constexpr int kEdquot = 122;

struct Code {
  std::string_view text;
  int number;
};

std::optional<int> error_number(std::string_view text) {
  static constexpr Code kNames[] = {{"enospc", kEnospc}, {"enomem", kEnomem}, {"emfile", kEmfile},
                                    {"enfile", kEnfile}, {"edquot", kEdquot}, {"efbig", kEfbig}};
  for (const Code& code : kNames)
    if (has_whole(text, code.text)) return code.number;
  for (const std::string_view label :
       {std::string_view{"errno"}, std::string_view{"os error"}, std::string_view{"error code"},
        std::string_view{"code:"}, std::string_view{"oserror("}}) {
    const std::size_t at = find_word(text, label);
    if (at == kNone) continue;
    std::size_t digit = at + label.size();
    while (digit < text.size() && digit < at + label.size() + 3 && !is_digit(text[digit])) ++digit;
    if (digit < text.size() && is_digit(text[digit]))
      if (const auto number = leading_integer(text.substr(digit)); number && *number > 0 && *number < 1000)
        return static_cast<int>(*number);
  }
  // The system's own words stand for their number.
  if (has_text(text, "no space left on device")) return kEnospc;
  if (has_text(text, "quota exceeded")) return kEdquot;
  if (has_text(text, "too many open files")) return kEmfile;
  if (has_text(text, "cannot allocate memory")) return kEnomem;
  return std::nullopt;
}

// A path in quotes or brackets, or a bare absolute one at the end.
std::string_view path_in(std::string_view text) {
  for (std::size_t at = text.find('/'); at != kNone; at = text.find('/', at + 1)) {
    const char before = at == 0 ? ' ' : text[at - 1];
    if (before != '\'' && before != '"' && before != '<' && before != '(' && before != ' ' && before != '`') continue;
    std::size_t end = at;
    while (end < text.size() && !is_blank(text[end]) && text[end] != '\'' && text[end] != '"' && text[end] != '>' &&
           text[end] != ')' && text[end] != '`')
      ++end;
    if (end > at + 2) return text.substr(at, end - at);
  }
  return {};
}

// Words that say a thing is missing by themselves.
bool is_short(std::string_view text) {
  return has_any(text, {"out of memory",
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

bool is_device(std::string_view text) {
  return has_any(text, {"gpu",
                        "device free",
                        "device mem",
                        "ascend",
                        "cuda",
                        "hip ",
                        "hipm",
                        "rocm",
                        "on device",
                        "device memory",
                        "vram",
                        "hbm",
                        "npu",
                        "xpu",
                        "tpu",
                        "metal",
                        "mps ",
                        "level_zero",
                        "ur_result",
                        "pi_error",
                        "sycl",
                        "_bfc",
                        "cumem",
                        "curesult",
                        "cu_mem",
                        "[trt]",
                        "out_of_device",
                        "out_of_resources",
                        "video memory",
                        "accelerator",
                        "driver_error",
                        "drivererror",
                        "devmem",
                        "neuron",
                        "nrt_",
                        ".cuh:",
                        ".cu:",
                        "thrust::",
                        "parallel_for failed"});
}

bool is_host(std::string_view text) {
  return has_any(text,
                 {"host memory", "system memory", "cpu memory",      "main memory",          "java",
                  "jvm",         "native memory", "heap space",      "heap memory",          "virtual memory",
                  "swap",        "cgroup",        "physical memory", "cpuallocator",         "bad_alloc",
                  "on the node", "node was low",  "page file",       "paging file",          "runtime: out of memory",
                  "host_memory", "defaultcpu",    "malloc of size",  "memory allocation of", "memory resources"}) ||
         (has_whole(text, "ram") && !has_any(text, {"gpu ram", "device ram"}));
}

bool is_pinned(std::string_view text) {
  return has_any(text, {"pinned", "page-locked", "pagelocked", "page locked", "cudahostalloc", "cudahostregister",
                        "cudamallochost", "hiphostmalloc", "hiphostregister", "memlock", "pinning", "pin_memory",
                        "pin memory", "mlock"});
}

bool is_shared(std::string_view text) {
  return has_any(text, {"/dev/shm", "</torch_", "shared memory", "shm_open", "shmget", "(shm)", " shm "});
}

bool is_budget(std::string_view text) {
  return has_any(text, {"kv cache", "kv_cache", "kvcache", "kv-cache", "cache blocks", "block pool", "prefill",
                        "decode out of memory", "mem-fraction-static", "mem_fraction_static"});
}

// An option of a serving engine that a message advises to change: what ran out is a pool of the engine's own.
bool names_engine_option(std::string_view text) {
  return has_any(text, {"max-running-requests", "max_running_requests", "max-num-seqs", "max_num_seqs", "max-model-len",
                        "max_model_len", "max-total-tokens", "max_total_tokens", "gpu-memory-utilization",
                        "gpu_memory_utilization", "max-batch-prefill-tokens", "max-batch-total-tokens",
                        "free_gpu_memory_fraction", "cache-max-entry-count"});
}

bool is_object_store(std::string_view text) { return has_any(text, {"object store", "objectstore", "plasma"}); }

bool is_disk(std::string_view text) {
  return has_any(text, {"disk", "volume", "quota", "file system", "filesystem", "ephemeral-storage", "storagefull",
                        "storage is full", "space left", "free space", "local storage"});
}

bool is_files(std::string_view text) {
  return has_any(text, {"open files", "file descriptor", "open file descriptors"});
}

// The largest single block, though memory is there: "larger than 4GB", "maximum buffer size", "Invalid buffer size".
bool is_block_limit(std::string_view text) {
  return (has_any(text, {"memory block", "buffer size", "block size", "single allocation", "allocation size"}) &&
          has_any(text, {"larger than", "greater than", "exceed", "maximum", "invalid buffer size", "too large"})) ||
         has_any(text, {"invalid buffer size", "max_mem_alloc_size", "max allocation size"}) ||
         (has_text(text, "total bytes of") && has_text(text, " > 2**"));
}

struct Figure {
  std::int64_t bytes = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// "12 GiB", "25769803776 bytes", "32,000,000,000 bytes", and a bare number of a megabyte or more after "size".
std::optional<Figure> figure_at(std::string_view text, std::size_t at) {
  std::string digits;
  std::size_t end = at;
  while (end < text.size() && (is_digit(text[end]) || text[end] == '.' || text[end] == ',')) {
    if (text[end] != ',') digits.push_back(text[end]);
    ++end;
  }
  while (!digits.empty() && digits.back() == '.') digits.pop_back();
  const auto number = leading_number(digits);
  if (!number) return std::nullopt;
  std::size_t unit_at = end;
  while (unit_at < text.size() && unit_at < end + 2 && (is_blank(text[unit_at]) || text[unit_at] == '-')) ++unit_at;
  std::size_t unit_end = unit_at;
  while (unit_end < text.size() && is_letter(text[unit_end])) ++unit_end;
  double unit = static_cast<double>(unit_bytes(text.substr(unit_at, unit_end - unit_at)));
  if (unit == 0) {
    const std::string_view before = text.substr(at > 12 ? at - 12 : 0, std::min<std::size_t>(at, 12));
    if (*number < 1 << 20 || !has_any(before, {"size", "bytes", "alloc"})) return std::nullopt;
    unit = 1;
    unit_end = end;
  }
  const double bytes = *number * unit;
  if (!(bytes >= 0) || bytes > 9e18) return std::nullopt;
  return Figure{std::llround(bytes), at, unit_end};
}

std::optional<std::int64_t>* slot_of(std::string_view before, std::string_view after, OomNumbers& figures) {
  // The word that follows a figure speaks of it: "3 GiB left", "20 GiB in use".
  const std::string_view next = trim(after.substr(0, 26));
  const auto begins = [&](std::string_view word) { return find_word(next.substr(0, word.size()), word) == 0; };
  for (const std::string_view word : {"left", "free", "available", "is free", "remain", "are free"})
    if (begins(word)) return &figures.free;
  for (const std::string_view word :
       {"in use", "used", "allocated", "already", "is allocated", "has been allocated", "are in use"})
    if (begins(word)) return &figures.allocated;
  for (const std::string_view word : {"total", "capacity", "limit"})
    if (begins(word)) return &figures.total;
  for (const std::string_view word : {"requested", "needed", "required", "wanted"})
    if (begins(word)) return &figures.request;
  struct Label {
    std::string_view word;
    std::optional<std::int64_t> OomNumbers::* slot;
  };
  static constexpr Label kLabels[] = {
      {"available", &OomNumbers::free},   {"free", &OomNumbers::free},           {"remaining", &OomNumbers::free},
      {"left", &OomNumbers::free},        {"allocated", &OomNumbers::allocated}, {"so far", &OomNumbers::allocated},
      {"in use", &OomNumbers::allocated}, {"used", &OomNumbers::allocated},      {"using", &OomNumbers::allocated},
      {"total", &OomNumbers::total},      {"capacity", &OomNumbers::total},      {"limit", &OomNumbers::total},
      {"maximum", &OomNumbers::total},    {"larger than", &OomNumbers::total},   {"allocat", &OomNumbers::request},
      {"request", &OomNumbers::request},  {"want", &OomNumbers::request},        {"need", &OomNumbers::request},
      {"asked", &OomNumbers::request},    {"tried", &OomNumbers::request},       {"trying", &OomNumbers::request},
      {"size", &OomNumbers::request},     {"reserve", &OomNumbers::request},     {"requir", &OomNumbers::request},
      {"calloc", &OomNumbers::request},   {"malloc", &OomNumbers::request},      {"pinning", &OomNumbers::request},
      {"map", &OomNumbers::request},      {"extend", &OomNumbers::request},      {"for ", &OomNumbers::request}};
  // The label that stands nearest before the figure; "size" and "for" say something only where no other word does.
  std::optional<std::int64_t> OomNumbers::* best = nullptr;
  std::size_t nearest = 0;
  const auto vague = [](const Label& label) { return label.word == "size" || label.word == "for "; };
  const bool any_clear = std::any_of(std::begin(kLabels), std::end(kLabels), [&](const Label& label) {
    return !vague(label) && find_word(before, label.word) != kNone;
  });
  for (const Label& label : kLabels)
    for (std::size_t at = find_word(before, label.word); at != kNone; at = find_word(before, label.word, at + 1))
      if (at + label.word.size() > nearest && !(any_clear && vague(label))) {
        nearest = at + label.word.size();
        best = label.slot;
      }
  return best == nullptr ? nullptr : &(figures.*best);
}

Resource owner_of(std::string_view text, Complaint& complaint) {
  if (is_files(text)) return Resource::kDescriptors;
  if (is_block_limit(text)) return Resource::kDriverLimit;
  if (is_object_store(text) || is_budget(text)) return Resource::kBudget;
  if (is_pinned(text)) return Resource::kPinned;
  if (is_shared(text)) return Resource::kShared;
  if (has_text(text, "ephemeral-storage")) return Resource::kDisk;
  if (is_host(text)) return Resource::kHost;
  if (is_device(text)) return Resource::kDevice;
  if (is_disk(text)) return Resource::kDisk;
  complaint.owner_is_guessed = true;
  return Resource::kUnknown;
}

}  // namespace

std::optional<SystemError> parse_system_error(std::string_view text) {
  const auto number = error_number(text);
  if (!number) return std::nullopt;
  return SystemError{*number, path_in(text)};
}

Resource resource_of(const SystemError& error, std::string_view text) {
  switch (error.number) {
    case kEnomem:
      return is_pinned(text) ? Resource::kPinned : is_shared(text) ? Resource::kShared : Resource::kHost;
    case kEmfile:
    case kEnfile:
      return Resource::kDescriptors;
    case kEnospc:
      return is_shared(text) ? Resource::kShared : Resource::kDisk;
    case kEdquot:
      return Resource::kDisk;
    default:
      return Resource::kUnknown;
  }
}

void read_figures(std::string_view text, OomNumbers& figures) {
  read_labelled_figures(text, figures);
  // Labels that are known have been read; the words around them would only be taken twice.
  const bool labelled = figures.total || figures.free || figures.reserved;
  std::size_t previous = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!is_digit(text[at]) || (at > 0 && (is_word(text[at - 1]) || text[at - 1] == '.'))) continue;
    const auto figure = figure_at(text, at);
    if (!figure) {
      while (at + 1 < text.size() && (is_digit(text[at + 1]) || text[at + 1] == '.')) ++at;
      continue;
    }
    const std::size_t from = std::max(previous, at > 40 ? at - 40 : 0);
    std::optional<std::int64_t>* slot =
        slot_of(text.substr(from, at - from), text.substr(std::min(figure->end, text.size())), figures);
    const bool wanted = slot != nullptr && (!labelled || slot == &figures.request);
    if (wanted && !slot->has_value()) *slot = figure->bytes;
    previous = figure->end;
    at = std::max(at, figure->end - 1);
  }
}

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
  const bool small_cache = is_budget(text) && has_any(text, {"too small", "too little"});
  const bool demands = demands_room(text) && parse_exception(text);
  const bool plain = (is_short(text) || small_cache) && (speaks_of_memory(text) || is_budget(text) || is_disk(text) ||
                                                         is_files(text) || is_object_store(text));
  const bool refused = is_refused(text) && speaks_of_memory(text);
  const bool beyond = is_beyond(text) && (speaks_of_memory(text) || is_disk(text));
  const bool block = is_block_limit(text);
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

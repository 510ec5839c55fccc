// SPDX-License-Identifier: Apache-2.0
#include "why/pace_line.h"

#include <array>

#include "base/text.h"
#include "why/progress.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

// The number after a label, past blanks, colons, quotes and equals signs; commas inside are thousands.
std::optional<double> number_after(std::string_view text, std::string_view label, std::string_view* rest = nullptr) {
  std::size_t at = find_word(text, label);
  if (at == kNone) return std::nullopt;
  at += label.size();
  while (at < text.size() &&
         (is_blank(text[at]) || text[at] == ':' || text[at] == '=' || text[at] == '\'' || text[at] == '"'))
    ++at;
  std::string digits;
  while (at < text.size() && (is_digit(text[at]) || text[at] == '.' || text[at] == ',' || text[at] == 'e' ||
                              (text[at] == '-' && !digits.empty() && digits.back() == 'e'))) {
    const bool groups = text[at] == ',' && at + 3 < text.size() && is_digit(text[at + 1]) && is_digit(text[at + 3]);
    if (text[at] == ',' && !groups) break;
    if (text[at] != ',') digits += text[at];
    ++at;
  }
  if (digits.empty() || !is_digit(digits.front())) return std::nullopt;
  if (rest != nullptr) *rest = text.substr(at);
  return leading_number(digits);
}

// "12:34", "1:02:03" as seconds.
std::optional<double> clock_seconds(std::string_view text) {
  double seconds = 0;
  int parts = 0;
  std::size_t at = 0;
  while (at < text.size() && is_digit(text[at])) {
    double part = 0;
    while (at < text.size() && is_digit(text[at])) part = 10 * part + (text[at++] - '0');
    seconds = 60 * seconds + part;
    ++parts;
    if (at >= text.size() || text[at] != ':') break;
    ++at;
  }
  return parts >= 2 ? std::optional(seconds) : std::nullopt;
}

std::optional<PaceLine> megatron(std::string_view text) {
  const auto ms = number_after(text, "elapsed time per iteration (ms)");
  if (!ms) return std::nullopt;
  PaceLine line{"megatron", {}, *ms / 1e3, 0, 0, {}, {}};
  if (const auto step = integer_after(text, "iteration")) line.step = *step;
  return line;
}

std::optional<PaceLine> torchtitan(std::string_view text) {
  const auto rate = number_after(text, "tps");
  if (!rate || !has_any(text, {"tflops", "mfu", "memory"})) return std::nullopt;
  PaceLine line{"torchtitan", {}, 0, *rate, 0, {}, {}};
  if (const auto step = integer_after(text, "step")) line.step = *step;
  return line;
}

std::optional<PaceLine> deepspeed(std::string_view text) {
  const auto rate = number_after(text, "currsamplespersec");
  if (!rate) return std::nullopt;
  PaceLine line{"deepspeed", {}, 0, 0, *rate, {}, {}};
  if (const auto step = integer_after(text, "global_step")) line.step = *step;
  return line;
}

// A bar of tqdm: "164/1002 [14:20<1:13:12, 5.24s/it]". Its rate is smoothed; the clock in it is not.
std::optional<PaceLine> bar(std::string_view text) {
  const auto drawn = parse_bar(text);
  if (!drawn || phase_of_bar(*drawn) != Phase::kTrain || drawn->at < 1) return std::nullopt;
  const std::size_t open = text.rfind('[');
  if (open == kNone) return std::nullopt;
  const auto elapsed = clock_seconds(text.substr(open + 1));
  if (!elapsed) return std::nullopt;
  PaceLine line{"tqdm", drawn->at, 0, 0, 0, elapsed, drawn->of};
  return line;
}

// The step of lines that count iterations of an epoch: "Epoch [10][18650/18726]", "Epoch: [3]  [ 150/2471]".
std::optional<std::int64_t> step_of_epoch(std::string_view text) {
  const std::size_t at = find_word(text, "epoch");
  const std::size_t first = at == kNone ? kNone : text.find('[', at);
  const std::size_t second = first == kNone ? kNone : text.find('[', first + 1);
  if (second == kNone || second > at + 48) return std::nullopt;
  const auto epoch = leading_integer(text.substr(first + 1));
  const auto done = leading_integer(text.substr(second + 1));
  const std::size_t slash = text.find('/', second);
  const auto of = slash == kNone ? std::nullopt : leading_integer(text.substr(slash + 1));
  constexpr std::int64_t kMost = 1 << 24;
  if (!epoch || !done || !of || *epoch < 0 || *epoch > kMost || *of < *done || *of > kMost) return std::nullopt;
  return std::max<std::int64_t>(*epoch, 0) * *of + *done;
}

// A number that stands alone after a word that stands alone: "time: 0.4911", "Time  0.412 ( 0.512)", not "data_time".
std::optional<double> figure_of(std::string_view text, std::string_view word) {
  for (std::size_t at = find_word(text, word); at != kNone; at = find_word(text, word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at > 0 && (is_word(text[at - 1]) || text[at - 1] == '/')) || end >= text.size() || is_word(text[end]))
      continue;
    if (const auto value = number_after(text.substr(at), word)) return value;
  }
  return std::nullopt;
}

// Loops of vision: OpenMMLab, detectron2, DETR and the examples of PyTorch print the time of an iteration beside the
// part of it that went to the loader.
std::optional<PaceLine> with_data(std::string_view text) {
  if (!has_text(text, "loss") || !has_text(text, "time")) return std::nullopt;
  auto data = figure_of(text, "data_time");
  if (!data) data = figure_of(text, "data");
  auto seconds = figure_of(text, "time");
  // ESPnet counts the loader as iter_time.
  if (const auto whole = figure_of(text, "train_time"); whole && figure_of(text, "forward_time")) {
    seconds = whole;
    data = figure_of(text, "iter_time");
  }
  if (!data || !seconds || *seconds <= 0 || *data > *seconds) return std::nullopt;
  PaceLine line{"named", {}, *seconds, 0, 0, {}, {}, data};
  line.step = step_of_epoch(text);
  if (!line.step)
    if (const auto step = figure_of(text, "iter")) line.step = static_cast<std::int64_t>(*step);
  return line;
}

// Figures that are told the other way round: "0.750 sec/step", "743ms/step", "ups": "2.31", "batches_per_second=0.21",
// and in thousands: "elapsed_time_per_iteration_ms: 2.35K".
std::optional<PaceLine> inverted(std::string_view text) {
  PaceLine line{"named", {}, 0, 0, 0, {}, {}};
  for (const std::string_view unit :
       {std::string_view{"ms/step"}, std::string_view{" sec/step"}, std::string_view{"s/step"}}) {
    const std::size_t at = find_word(text, unit);
    std::size_t begin = at == kNone ? 0 : at;
    while (begin > 0 && (is_digit(text[begin - 1]) || text[begin - 1] == '.')) --begin;
    if (at == kNone || begin == at) continue;
    line.seconds = leading_number(text.substr(begin, at - begin)).value_or(0) * (unit.front() == 'm' ? 1e-3 : 1);
    break;
  }
  if (line.seconds <= 0)
    for (const std::string_view rate : {std::string_view{"batches_per_second"}, std::string_view{"\"ups\""}})
      if (const auto value = number_after(text, rate); value && *value > 0) line.seconds = 1 / *value;
  std::string_view rest;
  if (const auto value = number_after(text, "elapsed_time_per_iteration_ms", &rest); value && line.seconds <= 0)
    line.seconds = *value * (rest.starts_with('K') ? 1 : 1e-3);
  if (line.seconds <= 0) return std::nullopt;
  for (const std::string_view label : {"num_updates", "iteration", "step"})
    if (const auto step = number_after(text, label)) {
      line.step = static_cast<std::int64_t>(*step);
      break;
    }
  return line;
}

// MaxText: "completed step: 10, seconds: 5.123, TFLOP/s/device: 120.155".
std::optional<PaceLine> maxtext(std::string_view text) {
  const auto step = integer_after(text, "completed step");
  const auto seconds = number_after(text, "seconds");
  if (!step || !seconds || *seconds <= 0) return std::nullopt;
  return PaceLine{"named", *step, *seconds, 0, 0, {}, {}};
}

// Figures whose name has their unit, in any logger.
std::optional<PaceLine> named(std::string_view text) {
  struct Name {
    std::string_view label;
    double scale;  // to seconds
  };
  constexpr std::array<Name, 16> kNames = {{{"step_time_ms", 1e-3},
                                            {"timing_s/step", 1},
                                            {"perf/time_per_step", 1},
                                            {"iter_time_ms", 1e-3},
                                            {"step_time_s", 1},
                                            {"sec_per_step", 1},
                                            {"seconds_per_step", 1},
                                            {"time_per_step", 1},
                                            {"train_step_timing in s", 1},
                                            {"step_time", 1},
                                            {"iter_time", 1},
                                            {"batch_time", 1},
                                            {"time/step", 1},
                                            {"sec/step", 1},
                                            {"s/step", 1},
                                            {"step time", 1}}};
  for (const Name& name : kNames) {
    std::string_view rest;
    const auto value = number_after(text, name.label, &rest);
    if (!value || *value <= 0) continue;
    rest = trim(rest);
    const double scale = rest.starts_with("ms") ? 1e-3 : name.scale;
    PaceLine line{"named", {}, *value * scale, 0, 0, {}, {}};
    for (const std::string_view label : {"global_step", "train_step", "iteration", "iter", "step"})
      if (const auto step = integer_after(text, label); step && !has_text(label, "time")) {
        line.step = *step;
        break;
      }
    return line;
  }
  // nanoGPT and its kin: "iter 100: loss 3.21, time 123.45ms".
  std::string_view rest;
  const auto value = number_after(text, " time", &rest);
  if (value && rest.starts_with("ms") && has_text(text, "loss")) {
    PaceLine line{"named", {}, *value / 1e3, 0, 0, {}, {}};
    for (const std::string_view label : {"iter", "step"})
      if (const auto step = integer_after(text, label)) {
        line.step = *step;
        break;
      }
    return line;
  }
  return std::nullopt;
}

struct Sign {
  std::vector<std::string_view> all;  // every one of them, in any case
  PaceReason reason;
};

// Each is a sentence that a library prints itself; none of them is an error (sources: NCCL, PyTorch, Transformers,
// Megatron-LM, DeepSpeed, the NVIDIA driver).
const std::vector<Sign>& signs() {
  static const std::vector<Sign> kSigns = {
      {{"net/socket", "using"},
       {"nccl-sockets", "NCCL sends over TCP sockets, not over InfiniBand or RoCE",
        "install and expose the network's plugin (NCCL_IB_DISABLE unset, /dev/infiniband in the container)"}},
      {{"cuda_launch_blocking=1"},
       {"launch-blocking", "every kernel is waited for by the host", "unset CUDA_LAUNCH_BLOCKING"}},
      {{"torch_distributed_debug=detail"},
       {"distributed-debug", "every collective is checked against all ranks", "unset TORCH_DISTRIBUTED_DEBUG"}},
      {{"anomaly detection", "enabled"},
       {"anomaly", "autograd records a stack for every operation", "leave out detect_anomaly"}},
      {{"flash attention", "not"},
       {"no-flash", "attention does not run its fused kernel",
        "install flash-attn, or set attn_implementation to sdpa"}},
      {{"falling back", "eager"},
       {"eager", "a fused or compiled kernel was replaced by eager code", "the line says which, and why"}},
      {{"recompil", "limit"},
       {"recompiles", "torch.compile gave up compiling: shapes change from step to step",
        "pad to a few lengths, or compile with dynamic=True"}},
      {{"hw slowdown"}, {"throttled", "the GPU's clocks are held down by its hardware", "look at cooling and power"}},
      {{"thermal slowdown"}, {"throttled", "the GPU's clocks are held down by heat", "look at cooling"}},
      {{"power brake"}, {"throttled", "the GPU's clocks are held down by power", "look at the power supply"}},
      {{"dataloader", "suggested max number of worker"},
       {"loader-workers", "more loader processes than cores: they wait for each other",
        "fewer dataloader_num_workers"}},
      {{"does not have many workers"},
       {"loader-workers", "the data loader has too few workers", "raise dataloader_num_workers"}},
      {{"fused", "not available", "falling"},
       {"no-fused", "a fused kernel is missing and slower code runs", "install what the line names"}},
      {{"tokenizers", "parallelism", "disabling"},
       {"tokenizers", "tokenization runs in one thread after a fork", "tokenize before the training"}},
      {{"cuda_device_max_connections", "not", "1"},
       {"connections", "messages and kernels of TP are not ordered to overlap",
        "export CUDA_DEVICE_MAX_CONNECTIONS=1"}},
      {{"pytorch allocator cache flushes"},
       {"cache-flushes", "memory is so tight that PyTorch gives its cache back and asks again, which waits for the GPU",
        "free some memory: plimsoll fit --job names levers; or empty the cache on all ranks at once"}},
  };
  return kSigns;
}

}  // namespace

std::optional<PaceLine> parse_pace(std::string_view text) {
  constexpr std::size_t kLongest = 4096;
  if (text.size() > kLongest) text = text.substr(text.size() - kLongest);
  for (const auto reader : {megatron, torchtitan, deepspeed, bar, with_data, maxtext, inverted, named})
    if (auto line = reader(text)) return line;
  return std::nullopt;
}

bool begins_timers(std::string_view text) { return has_text(text, "time across ranks (ms)"); }

std::optional<TimerLine> parse_timer(std::string_view text) {
  text = trim(text);
  const std::size_t dots = text.find("...");
  const std::size_t colon = text.rfind(": ");
  if (dots == kNone || dots == 0 || colon == kNone || colon < dots) return std::nullopt;
  TimerLine line;
  line.name = std::string(trim(text.substr(0, dots)));
  while (!line.name.empty() && line.name.back() == '.') line.name.pop_back();
  for (const char c : line.name)
    if (!is_word(c) && c != '-') return std::nullopt;
  std::string_view figures = trim(text.substr(colon + 2));
  if (figures.starts_with('(')) {
    std::size_t length = 0;
    const auto least = leading_number(figures.substr(1), &length);
    const std::size_t comma = figures.find(',');
    const auto most = comma == kNone ? std::nullopt : leading_number(trim(figures.substr(comma + 1)));
    if (!least || !most) return std::nullopt;
    line.least = *least / 1e3;
    line.most = *most / 1e3;
    return line;
  }
  const auto most = leading_number(figures);
  if (!most) return std::nullopt;
  line.least = line.most = *most / 1e3;
  return line;
}

std::optional<double> parse_mfu(std::string_view text) {
  std::string_view rest;
  const auto value = number_after(text, "mfu", &rest);
  if (!value || *value <= 0) return std::nullopt;
  if (trim(rest).starts_with('%')) return *value / 100;
  return *value <= 1 ? std::optional(*value) : *value <= 100 ? std::optional(*value / 100) : std::nullopt;
}

const PaceReason* reason_in(std::string_view text) {
  for (const Sign& sign : signs()) {
    bool all = true;
    for (const std::string_view word : sign.all) all = all && has_text(text, word);
    if (all) return &sign.reason;
  }
  return nullptr;
}

}  // namespace plimsoll::why

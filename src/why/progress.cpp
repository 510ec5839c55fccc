// SPDX-License-Identifier: Apache-2.0
#include "why/progress.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/bytes.h"
#include "base/text.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

// The number that a key has: "step 17", "step: 17", "step=17", "'step': 17", "iteration       10/".
std::optional<std::int64_t> value_of(std::string_view text, std::string_view key) {
  for (std::size_t at = find_word(text, key); at != kNone; at = find_word(text, key, at + 1)) {
    if (at > 0 && is_letter(text[at - 1])) continue;
    std::size_t end = at + key.size();
    if (end < text.size() && text[end] == 's' && key == "step") continue;
    std::size_t gap = 0;
    while (end < text.size() && gap < 12 &&
           (is_blank(text[end]) || text[end] == ':' || text[end] == '=' || text[end] == '\'' || text[end] == '"' ||
            text[end] == '#' || text[end] == '[')) {
      ++end;
      ++gap;
    }
    if (gap == 0 || end >= text.size() || !is_digit(text[end])) continue;
    std::int64_t number = 0;
    const auto parsed = std::from_chars(text.data() + end, text.data() + text.size(), number);
    if (parsed.ec != std::errc{}) continue;
    return number;
  }
  return std::nullopt;
}

// "Epoch  3,  6300/ 8866; ppl: 67.80", "Epoch [1][50/29317] loss: 1.2": the step of the epoch stands before a slash.
std::optional<std::int64_t> count_after_epoch(std::string_view text) {
  const std::size_t epoch = find_word(text, "epoch");
  if (epoch == kNone || !has_any(text, {"loss", "ppl", "perplexity", "tok/s", "acc"})) return std::nullopt;
  for (std::size_t slash = text.find('/', epoch); slash < epoch + 48; slash = text.find('/', slash + 1)) {
    std::size_t begin = slash;
    while (begin > epoch && is_digit(text[begin - 1])) --begin;
    std::size_t end = slash + 1;
    while (end < text.size() && text[end] == ' ') ++end;
    const auto at = leading_integer(text.substr(begin, slash - begin));
    const auto of = leading_integer(text.substr(end));
    // The first fraction may count epochs: "epoch: 1/300, iter: 240/405".
    const std::string_view before = trim(text.substr(epoch + 5, begin - epoch - 5));
    const bool counts_epochs = before.find_first_of("0123456789") == kNone;
    if (begin < slash && at && of && *of > 1 && *at <= *of && !counts_epochs) return at;
  }
  return std::nullopt;
}

// "1epoch:train:301-400batch: loss=3.461": what is counted stands before its name.
std::optional<std::int64_t> count_before_batch(std::string_view text) {
  const std::size_t batch = find_word(text, "batch:");
  if (batch == kNone || batch == 0 || !is_digit(text[batch - 1]) || !has_text(text, "train")) return std::nullopt;
  std::size_t begin = batch;
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  return leading_integer(text.substr(begin, batch - begin));
}

std::uint64_t shape_hash(std::string_view text) {
  static constexpr std::array<std::string_view, 18> kKeys = {
      "longest", "max_len",    "seqlen",  "seq_len", "tokens",   "img",        "shape",  "length", "batch_tokens",
      "ntokens", "num_tokens", "src_len", "tgt_len", "img_size", "resolution", "frames", "pixels", "seq"};
  std::uint64_t hash = 0;
  for (const std::string_view key : kKeys) {
    const std::size_t at = find_word(text, key);
    if (at == kNone || (at > 0 && is_letter(text[at - 1]))) continue;
    std::size_t end = at + key.size();
    if (end >= text.size() || (text[end] != '=' && text[end] != ':' && text[end] != ' ')) continue;
    while (end < text.size() && !is_digit(text[end]) && end < at + key.size() + 4) ++end;
    if (end >= text.size() || !is_digit(text[end])) continue;
    while (end < text.size() && (is_digit(text[end]) || text[end] == 'x' || text[end] == ',')) {
      hash = (hash ^ static_cast<unsigned char>(text[end])) * 1099511628211ULL + 1;
      ++end;
    }
  }
  return hash;
}

// The words before a figure decide what it counts.
std::optional<Gauge> gauge_of(std::string_view words) {
  if (!has_any(words, {"alloc", "reserv", "mem", "rss", "cach", "vram", "max_ma", " ma ", " ca "})) return std::nullopt;
  if (has_any(words, {"tried", "capacity", "bandwidth", "time"})) return std::nullopt;
  if (has_any(words, {"rss", "cpu", "host", "ram_", "sys"}) && !has_text(words, "vram")) return Gauge::kHost;
  if (has_any(words, {"max", "peak"})) return Gauge::kPeak;
  if (has_any(words, {"reserv", "cach"})) return Gauge::kReserved;
  if (has_text(words, "alloc")) return Gauge::kAllocated;
  return Gauge::kUsed;
}

// A bar that does not know its end: "loss: 5.09: 8613it [27:42,  5.34it/s]". What counts lines or files looks the same,
// so that only one beside a figure of training counts steps.
std::optional<Bar> parse_endless_bar(std::string_view text) {
  const std::size_t mark = text.rfind("it [");
  if (mark == kNone || text.find("it/s", mark) > mark + 48) return std::nullopt;
  std::size_t begin = mark;
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  const auto at = leading_integer(text.substr(begin, mark - begin));
  if (!at || !has_any(text, {"loss", "ppl", "perplexity", "epoch", "train"})) return std::nullopt;
  Bar bar;
  bar.at = *at;
  std::string_view label = trim(text.substr(0, begin));
  bar.label = label.size() > 120 ? label.substr(label.size() - 120) : label;
  return bar;
}

}  // namespace

std::optional<Bar> parse_bar(std::string_view text) {
  std::size_t mark = text.rfind("%|");
  std::size_t close = mark == kNone ? kNone : text.find("| ", mark + 2);
  if (mark == kNone) {
    // Without a drawing: "Steps:   0% 0/1000 [00:00<?, ?it/s]".
    mark = text.rfind("% ");
    if (mark == kNone || text.find('/', mark) > mark + 16 || text.find(" [", mark) > mark + 32)
      return parse_endless_bar(text);
    close = mark;
  }
  std::size_t begin = mark;
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  if (begin == mark || close == kNone) return std::nullopt;
  Bar bar;
  std::string_view label = trim(text.substr(0, begin));
  if (label.ends_with(':')) label.remove_suffix(1);
  bar.label = label.size() > 120 ? label.substr(label.size() - 120) : label;
  std::string_view counts = text.substr(close + 2);
  if (counts.starts_with('[')) counts.remove_prefix(1);  // "47.90% [24138/50393 1:48:07<1:57:37 1.6910]"
  const auto at = leading_integer(counts);
  if (!at) return std::nullopt;
  bar.at = *at;
  const std::size_t slash = counts.find('/');
  if (slash < 24) bar.of = leading_integer(counts.substr(slash + 1)).value_or(0);
  return bar;
}

bool counts_evaluation(std::string_view text) {
  static constexpr std::string_view kWords[] = {"evaluation", "evaluating", "evaluate", "eval",     "validation",
                                                "validating", "validate",   "valid",    "val",      "testing",
                                                "test",       "predicting", "predict",  "inference"};
  // OpenMMLab's bar counts what is tested: "[>>>>   ] 434/3822, 15.9 task/s, elapsed: 27s".
  if (text.starts_with("[>") || text.starts_with("[ ")) return text.find(" task/s") != kNone;
  // Every line is asked: most are told by their first letter.
  if (text.size() < 8 || std::string_view{"eEvVtTpPiI"}.find(text.front()) == kNone ||
      text.substr(0, 32).find('/') == kNone)
    return false;
  for (const std::string_view word : kWords) {
    if (find_word(text.substr(0, word.size()), word) != 0) continue;
    std::size_t at = word.size();
    while (at < text.size() && at < word.size() + 6 && (is_blank(text[at]) || text[at] == ':' || text[at] == '[')) ++at;
    if (at == word.size() || at >= text.size() || !is_digit(text[at])) continue;
    while (at < text.size() && is_digit(text[at])) ++at;
    while (at < text.size() && is_blank(text[at])) ++at;
    if (at + 1 >= text.size() || text[at] != '/') continue;
    ++at;
    while (at < text.size() && is_blank(text[at])) ++at;
    if (at < text.size() && is_digit(text[at])) return true;
  }
  return false;
}

Phase phase_of_bar(const Bar& bar) {
  const std::string_view label = bar.label;
  if (has_any(label, {"loading", "shard", "download", "load"})) return Phase::kLoad;
  if (has_any(label, {"captur", "cudagraph", "cuda graph"})) return Phase::kGraphCapture;
  if (has_any(label, {"valid", "eval", "test", "predict", "sanity check"}) || has_whole(label, "val"))
    return Phase::kEvaluate;
  if (has_any(label, {"saving", "writing"})) return Phase::kSave;
  if (has_any(label, {"tokeniz", "map", "filter", "packing", "preprocess"})) return Phase::kData;
  return Phase::kTrain;
}

void read_memory_figures(std::string_view text, std::vector<MemoryFigure>& out) {
  const bool in_megabytes = has_any(text, {"(mb)", "(mib)", "memory_mb", "[mb]"});
  std::size_t previous = 0;  // end of the figure before: its words do not belong to the next
  for (std::size_t at = 0; at < text.size() && out.size() < 16; ++at) {
    if (!is_digit(text[at]) || (at > 0 && (is_word(text[at - 1]) || text[at - 1] == '.'))) continue;
    std::size_t length = 0;
    const std::optional<double> number = leading_number(text.substr(at), &length);
    if (!number) continue;
    // The number of a device is no figure: "mem_usage:cuda:0 8.9GB".
    const std::string_view name = text.substr(at > 5 ? at - 5 : 0, std::min<std::size_t>(at, 5));
    if (has_any(name, {"cuda:", "gpu:", "gpu ", "gpu_"})) {
      at += length - 1;
      continue;
    }
    const std::size_t from = std::max(previous, at > 32 ? at - 32 : 0);
    const std::string_view words = text.substr(from, at - from);
    const std::size_t end = at + length;
    std::size_t unit_at = end;
    while (unit_at < text.size() && is_blank(text[unit_at])) ++unit_at;
    std::size_t unit_end = unit_at;
    while (unit_end < text.size() && is_letter(text[unit_end])) ++unit_end;
    std::int64_t unit = unit_bytes(text.substr(unit_at, unit_end - unit_at));
    previous = end;
    const std::optional<Gauge> gauge = gauge_of(words);
    at = end - 1;
    if (!gauge) continue;
    if (end < text.size() && text[end] == '%' && *gauge == Gauge::kUsed && *number <= 100) {
      out.push_back(
          {Gauge::kUsed, static_cast<std::int64_t>(*number * static_cast<double>(kGiB))});  // of 100 GiB, for trends
      continue;
    }
    if (unit == 0 || unit_at > end + 1) {
      // Without a unit the word right before it must be the gauge's: "reserved - seq 1099" is a length.
      std::size_t word_end = words.size();
      while (word_end > 0 && !is_word(words[word_end - 1])) --word_end;
      if (words.substr(0, word_end).ends_with(" is")) word_end -= 3;
      std::size_t word_begin = word_end;
      while (word_begin > 0 && (is_word(words[word_begin - 1]) || words[word_begin - 1] == '/')) --word_begin;
      const std::string_view nearest = words.substr(word_begin, word_end - word_begin);
      if (!gauge_of(nearest) && !has_any(nearest, {"gb", "gib", "mb", "mib", "usage", "used", "bytes"})) continue;
      if (has_any(words, {"_gb", "_gib", "(gb)", "(gib)"}))
        unit = kGiB;
      else if (in_megabytes || has_any(words, {"_mb", "_mib"}))
        unit = kMiB;
      else if (*number >= 1e7)
        unit = 1;
      else if (*number >= 256)
        unit = kMiB;
      else if (has_any(words, {"gpu", "vram", "cuda"}) || has_text(words, "alloc"))
        unit = kGiB;
      else
        continue;
    }
    const double bytes = *number * static_cast<double>(unit);
    if (bytes < 1e6 || bytes > 1e16) continue;
    out.push_back({*gauge, static_cast<std::int64_t>(bytes)});
  }
}

StepLine step_of_bar(const Bar& bar, std::string_view text, bool with_figures) {
  StepLine line;
  line.step = bar.at;
  const std::string_view label = trim(bar.label);
  const std::size_t slash = label.find('/');
  const std::size_t gap = slash == kNone ? kNone : label.find(' ', slash);
  if (slash < 8 && gap < slash + 8 && is_digit(label.front())) {
    const std::string_view column = trim(label.substr(gap)).substr(0, 12);
    std::size_t length = 0;
    const std::optional<double> number = leading_number(column, &length);
    if (number && length < column.size() && column[length] == 'G' && *number < 4096) {
      // The bar counts the batches of one epoch, again and again.
      const std::int64_t epoch = std::clamp<std::int64_t>(leading_integer(label).value_or(0), 0, 1 << 24);
      line.step = epoch * std::clamp<std::int64_t>(bar.of, 0, 1 << 24) + bar.at;
      line.memory.push_back({Gauge::kUsed, static_cast<std::int64_t>(*number * static_cast<double>(kGiB))});
    }
  }
  const std::size_t open = text.rfind('[');
  if (with_figures && line.memory.empty() && open != kNone && has_any(text.substr(open), {"mem", "alloc", "vram"}))
    read_memory_figures(text.substr(open), line.memory);
  return line;
}

std::optional<StepLine> parse_step(std::string_view text) {
  if (text.size() > 2000 || text.empty()) return std::nullopt;
  StepLine line;
  for (const std::string_view key : {std::string_view{"step"}, std::string_view{"iteration"}, std::string_view{"iter"},
                                     std::string_view{"global_step"}, std::string_view{"iterations"},
                                     std::string_view{"it"}, std::string_view{"batch"}, std::string_view{"update"}}) {
    // These count steps only where something was computed: a batch is also a size.
    const bool counts = key.size() > 2 && key != "batch" && key != "update";
    if (!counts && !has_any(text, {"loss", "tok/s", "it/s"})) continue;
    line.step = value_of(text, key);
    if (line.step) break;
  }
  if (!line.step) line.step = count_after_epoch(text);
  if (!line.step && has_text(text, "loss")) line.step = count_before_batch(text);
  // "291112: nGT 77, recall 66, loss: x 2.22": what the line counts stands before it.
  if (!line.step && is_digit(text.front()) && has_text(text, "loss"))
    if (const std::size_t colon = text.find(": "); colon < 12 && text.find_first_not_of("0123456789") == colon)
      line.step = leading_integer(text);
  const bool has_loss = has_any(text, {"loss", "tok/s", "it/s", "tflop", "lr"});
  // A line per epoch stands for its steps.
  const bool per_epoch = !line.step && has_text(text, "loss") && (value_of(text, "epoch") || value_of(text, "ep"));
  if (!line.step && !per_epoch && !(text.starts_with("{'") && has_text(text, "'loss'"))) {
    // Memory without a step is worth keeping only where it is clearly a gauge of the run.
    if (!has_any(text, {"allocated", "reserved", "memory", "mem_", "mem:"}) || text.size() > 300) return std::nullopt;
    read_memory_figures(text, line.memory);
    if (line.memory.empty()) return std::nullopt;
    return line;
  }
  // A step that is gone back to was done by another run.
  if (line.step && !has_text(text, "loss") && has_any(text, {"resum", "restor", "from checkpoint", "checkpoint from"}))
    return std::nullopt;
  if (line.step && has_any(text, {"every", "interval", "warm-up", "warmup", "total", "max_steps"}) && !has_loss)
    return std::nullopt;
  line.epoch = value_of(text, "epoch");
  if (!line.epoch) line.epoch = value_of(text, "ep");
  line.is_start = !has_loss && text.size() < 40;
  line.has_loss = has_text(text, "loss");
  read_memory_figures(text, line.memory);
  line.shape = shape_hash(text);
  return line;
}

std::optional<DeviceProcess> parse_device_process(std::string_view text) {
  if (text.size() < 16 || !is_digit(text.front()) || text.find("MiB |") == kNone || text.find("MiB /") != kNone)
    return std::nullopt;
  DeviceProcess process;
  std::vector<std::string_view> words;
  for (const std::string_view word : split(text, ' '))
    if (!word.empty()) words.push_back(word);
  process.gpu = leading_integer(words.front()).value_or(0);
  bool computes = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (process.pid == 0 && is_digit(words[i].front())) process.pid = leading_integer(words[i]).value_or(0);
    computes = computes || words[i] == "C" || words[i] == "C+G" || words[i] == "G";
    if (words[i].ends_with("MiB")) process.bytes = leading_size(words[i]).value_or(0);
  }
  if (!computes || process.pid <= 0 || process.bytes <= 0) return std::nullopt;
  return process;
}

std::optional<DeviceUse> parse_device_use(std::string_view text) {
  const std::size_t slash = text.find("MiB /");
  if (slash == kNone) return std::nullopt;
  std::size_t begin = slash;
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  const auto used = leading_integer(text.substr(begin));
  const auto total = leading_integer(text.substr(slash + 5));
  if (!used || !total || *total <= 0 || *used < 0 || *total > (std::int64_t{1} << 40)) return std::nullopt;
  return DeviceUse{*used * kMiB, *total * kMiB};
}

}  // namespace plimsoll::why

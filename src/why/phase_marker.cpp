// SPDX-License-Identifier: Apache-2.0
// Lines that announce a phase, read where no frame shows one.
#include <algorithm>
#include <iterator>

#include "why/phase.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

// "Saving batch to x.pt", "saving the images": what was computed or read, not the state of the training.
bool saves_data(std::string_view text) {
  const std::size_t at = find_word(text, "saving ");
  if (at == kNone) return false;
  std::string_view rest = text.substr(at + 7);
  for (const std::string_view article :
       {std::string_view{"the "}, std::string_view{"current "}, std::string_view{"a "}})
    if (find_word(rest.substr(0, article.size()), article) == 0) rest.remove_prefix(article.size());
  static constexpr std::string_view kData[] = {
      "batch",     "sample", "image", "prediction", "plot",      "figure", "result", "feature", "config", "args",
      "tokenizer", "vocab",  "log",   "metric",     "embedding", "cache",  "video",  "audio",   "label",  "dataset"};
  return std::any_of(std::begin(kData), std::end(kData),
                     [&](std::string_view word) { return find_word(rest.substr(0, word.size()), word) == 0; });
}

// "Loading a checkpoint (shards=8)", "loading 30 safetensors shards", "Loading the base model": weights, not data.
bool loads_model(std::string_view text) {
  const std::size_t at = find_word(text, "loading ");
  if (at == kNone) return false;
  std::string_view rest = text.substr(at + 8);
  constexpr int kWords = 4;
  for (int i = 0; i < kWords && !rest.empty(); ++i) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    if (has_any(word, {"data", "token", "config", "extension", "vocab", "index", "from"})) return false;
    if (has_any(word, {"weights", "model", "checkpoint", "pretrained", "safetensors", "shard"})) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

}  // namespace

Phase phase_of_marker(std::string_view whole) {
  // Of a long line the first sentence is the announcement; advice follows it.
  constexpr std::size_t kLongest = 300;
  const std::string_view text = whole.size() > kLongest ? whole.substr(0, whole.find(". ")) : whole;
  if (text.size() > kLongest) return Phase::kUnknown;
  // A setting has its value after a colon, an equals sign or dots; an announcement does not.
  if (has_any(text, {"interval", "_steps", " ....", "every ", "disabled", "will be", "skipp", "enabled",
                     "warning:", ": false", "=false", "= false", ": none", "=none", "= none"}))
    return Phase::kUnknown;
  if (has_any(text, {"finished", "done", "complete", " took ", "saved ", "loaded ", "ready"})) {
    if (has_any(text, {"evaluat", "validat"}) && has_any(text, {"epoch done", "step done"})) return Phase::kEvaluate;
    if (has_any(text, {"forward and backward done", "backward done", "backward pass done"}))
      return Phase::kOptimizerStep;
    if (has_any(text, {"model loaded, ", "sizing the kv"})) return Phase::kKvInit;
    return has_any(text, {"wak", "rollout engine"}) ? Phase::kWakeUp : Phase::kUnknown;
  }
  if (has_any(text, {"initializing optimizer", "initialising optimizer", "creating optimizer states"}))
    return Phase::kOptimizerInit;
  if (has_any(text, {"waking", "wake up", "wake_up"})) return Phase::kWakeUp;
  if (has_any(text, {"capturing"}) && has_any(text, {"graph", "capturing:"})) return Phase::kGraphCapture;
  if (has_any(text, {"kv cache", "kv-cache"}) &&
      has_any(text, {"sizing", "profil", "initializ", "initialis", "allocating"}))
    return Phase::kKvInit;
  if (has_any(text, {"resuming", "restoring"}) ||
      (has_text(text, "loading") && has_any(text, {"optimizer", "checkpoint from", "resume"})))
    return Phase::kResume;
  if (saves_data(text)) return Phase::kUnknown;
  if (has_any(text,
              {"saving", "about to save", "writing checkpoint", "gathering full state", "gathering the full state"}))
    return Phase::kSave;
  if (has_any(text, {"evaluating", "evaluation", "validation", "validating"}) &&
      has_any(text, {"start", "begin", "running", "on the", "***", "evaluating", "validating", "entering"}))
    return Phase::kEvaluate;
  if (loads_model(text)) return Phase::kLoad;
  if (has_any(text, {"begin training", "training start", "start training", "starting training", "running training",
                     "training begins"}))
    return Phase::kTrain;
  return Phase::kUnknown;
}

}  // namespace plimsoll::why

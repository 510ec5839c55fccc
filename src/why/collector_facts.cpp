// SPDX-License-Identifier: Apache-2.0
// The collector's reading of what a run says about itself: settings, options, world size, versions,
// serving budgets, nvidia-smi, the driver.
#include <algorithm>
#include <cctype>

#include "base/bytes.h"
#include "base/text.h"
#include "why/collector.h"
#include "why/signal_readers.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr std::size_t kMostConfig = 4096;

bool is_identifier(std::string_view text) {
  if (text.empty() || text.size() > 80 || is_digit(text.front())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return is_word(c) || c == '.' || c == '-'; });
}

}  // namespace

void Collector::mention(std::string_view text) {
  if (const Framework framework = framework_marked_in(text); framework != Framework::kUnknown)
    ++findings_.frameworks[framework];
}

// The kernel's list at a kill: "[ pid ] uid tgid total_vm rss ... name", then a row for each task, in pages.
void Collector::read_tasks(std::string_view text) {
  constexpr std::int64_t kPage = 4096;
  constexpr std::size_t kMostNames = 64;
  std::vector<std::string_view> words;
  for (const std::string_view word : split(text, ' '))
    if (!word.empty()) words.push_back(word);
  if (has_text(text, "total_vm") && has_text(text, "oom_score_adj")) {
    const auto rss = std::find(words.begin(), words.end(), "rss");
    rss_from_end_ = rss == words.end() ? 0 : static_cast<std::size_t>(words.end() - rss);
    findings_.host_tasks.clear();
    return;
  }
  if (rss_from_end_ == 0) return;
  const auto pages = words.size() > rss_from_end_ ? leading_integer(words[words.size() - rss_from_end_]) : std::nullopt;
  const bool row = pages && *pages >= 0 && *pages < (std::int64_t{1} << 40) && words.size() <= rss_from_end_ + 6 &&
                   is_identifier(words.back());
  if (!row) {
    rss_from_end_ = 0;
    return;
  }
  if (findings_.host_tasks.size() >= kMostNames && !findings_.host_tasks.contains(std::string{words.back()})) return;
  HostTask& task = findings_.host_tasks[std::string{words.back()}];
  ++task.count;
  task.bytes += *pages * kPage;
}

void Collector::read_setting(const Line& line) {
  const std::string_view text = line.text;
  for (const std::string_view name :
       {std::string_view{"pytorch_cuda_alloc_conf"}, std::string_view{"pytorch_alloc_conf"},
        std::string_view{"pytorch_hip_alloc_conf"}}) {
    const std::size_t at = find_word(text, name);
    if (at == kNone) continue;
    const std::string_view before = text.substr(at > 16 ? at - 16 : 0, std::min<std::size_t>(at, 16));
    if (has_any(before, {"setting ", "set ", "consider", "unset ", "#"})) return;  // advice
    std::size_t value = at + name.size();
    while (value < text.size() && (text[value] == '=' || text[value] == ':' || text[value] == '\'' ||
                                   text[value] == '"' || text[value] == ' '))
      ++value;
    std::size_t end = value;
    while (end < text.size() && !is_blank(text[end]) && text[end] != '\'' && text[end] != '"' && text[end] != ';' &&
           text[end] != '}')
      ++end;
    std::string_view found = text.substr(value, end - value);
    while (found.ends_with(',')) found.remove_suffix(1);
    if (found.find(':') == kNone) return;
    std::string key{name};
    std::transform(key.begin(), key.end(), key.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    findings_.settings[key] = {std::string{found}, {line.file, line.number}, std::string{cut_text(text, 200)}};
    return;
  }
}

// An option that says CUDA graphs are on.
void Collector::read_graphs(std::string_view name, std::string_view value, const Line& line) {
  if (findings_.graphs_place || !has_any(name, {"cuda_graph", "cudagraph"})) return;
  if (value.empty() || has_any(value.substr(0, 6), {"false", "none", "0", "null", "off", "[]"})) return;
  findings_.graphs_place = Place{line.file, line.number};
  findings_.graphs_text = std::string{cut_text(line.text, 200)};
}

void Collector::read_config(const Line& line) {
  if (findings_.config.size() >= kMostConfig) return;
  const std::string_view text = line.text;
  if (text.size() > 400) return;
  // Megatron's dump: "  name ........ value".
  if (const std::size_t dots = text.find(" ...."); dots != kNone) {
    const std::string_view name = trim(text.substr(0, dots));
    std::size_t end = dots + 1;
    while (end < text.size() && text[end] == '.') ++end;
    if (is_identifier(name) && end < text.size() && text[end] == ' ') {
      read_graphs(name, trim(text.substr(end)), line);
      findings_.config[std::string{name}] = std::string{cut_text(trim(text.substr(end)), 200)};
    }
    return;
  }
  if (text == "config:" || text == "Config:" || text == "configuration:") {
    in_config_ = true;
    return;
  }
  std::string_view rest = text;
  if (rest.starts_with("cfg "))
    rest.remove_prefix(4);
  else if (!(in_config_ && line.indent >= 2))
    return;
  const std::size_t split = rest.find_first_of(":=");
  if (split == kNone) return;
  const std::string_view name = trim(rest.substr(0, split));
  if (is_identifier(name)) read_graphs(name, trim(rest.substr(split + 1)), line);
  if (is_identifier(name))
    findings_.config[std::string{name}] = std::string{cut_text(trim(rest.substr(split + 1)), 200)};
}

void Collector::read_serving(const Line& line) {
  const std::string_view text = line.text;
  const auto keep = [&](const char* name, std::optional<std::int64_t> value) {
    if (value) findings_.figures[name] = *value;
  };
  for (const std::string_view key :
       {std::string_view{"gpu_memory_utilization"}, std::string_view{"gpu memory utilization ("}}) {
    std::size_t at = find_word(text, key);
    if (at == kNone) continue;
    at += key.size();
    while (at < text.size() && !is_digit(text[at]) && at < find_word(text, key) + key.size() + 24) ++at;
    if (const auto value = leading_number(text.substr(std::min(at, text.size()))); value && *value > 0 && *value <= 1)
      findings_.ratios["gpu_memory_utilization"] = *value;
  }
  keep("weights", size_after(text, "model weights took"));
  keep("kv_available", size_after(text, "kv_cache_size"));
  keep("kv_available", size_after(text, "available kv cache memory ("));
  keep("kv_available", size_after(text, "available kv cache memory:"));
  keep("kv_needed", size_before(text, "kv cache is needed"));
  keep("total", size_after(text, "total_gpu_memory"));
  keep("profile_peak", size_after(text, "peak_torch_memory"));
  if (has_text(text, "free memory on device")) {
    const std::size_t open = text.find('(');
    if (open != kNone) {
      std::size_t used = 0;
      const auto free = leading_number(text.substr(open + 1), &used);
      const std::size_t slash = text.find('/', open);
      if (free && slash != kNone)
        if (const auto total = leading_size(text.substr(slash + 1))) {
          keep("total", total);
          keep("free", static_cast<std::int64_t>(*free * static_cast<double>(kGiB)));
        }
    }
    const std::size_t wish = find_word(text, "utilization (");
    if (wish != kNone) {
      const std::size_t comma = text.find(", ", wish);
      if (comma != kNone) keep("wanted", leading_size(text.substr(comma + 2)));
    }
  }
  keep("max_seq_tokens", integer_after(text, "max seq len ("));
  keep("kv_tokens", integer_after(text, "stored in kv cache ("));
}

void Collector::read_elastic(const Line& line) {
  const std::string_view text = line.text;
  if (has_text(text, "root cause (first")) {
    root_cause_ = true;
    return;
  }
  if (find_word(text, "rank ") == 0 && has_text(text, "(local_rank")) {
    if (const auto rank = integer_after(text, "rank "); rank && *rank >= 0 && *rank < (1 << 24)) {
      elastic_rank_ = static_cast<int>(*rank);
      if (root_cause_) {
        findings_.root_rank = elastic_rank_;
        findings_.root_place = {line.file, line.number};
      }
    }
    return;
  }
  if (find_word(text, "exitcode") == 0 && root_cause_) {
    findings_.root_exit = integer_after(text, "exitcode");
    root_cause_ = false;
    return;
  }
  // The launcher ends the others when one of its processes has failed: there are at least two.
  if (has_text(text, "closing signal")) findings_.world = std::max<std::int64_t>(findings_.world.value_or(0), 2);
  if (has_text(text, "local_rank:"))
    if (const auto rank = integer_after(text, "local_rank:"); rank && *rank >= 0 && *rank < 4096)
      elastic_rank_ = static_cast<int>(*rank);
}

// "torch==2.4.1", "PyTorch version: 2.4.1".
void Collector::read_version(std::string_view text) {
  constexpr std::size_t kLongest = 32;
  for (const std::string_view key :
       {std::string_view{"torch "}, std::string_view{"torch=="}, std::string_view{"pytorch version"}}) {
    std::size_t at = find_word(text, key);
    if (at == kNone) continue;
    at += key.size();
    while (at < text.size() && (is_blank(text[at]) || text[at] == ':')) ++at;
    std::size_t end = at;
    while (end < text.size() && (is_word(text[end]) || text[end] == '.' || text[end] == '+')) ++end;
    if (end > at + 2 && is_digit(text[at]) && text[at + 1] == '.')
      findings_.torch_version = std::string{text.substr(at, std::min(end - at, kLongest))};
  }
}

// How many ranks there are, by the launcher or the framework.
void Collector::read_world(std::string_view text) {
  for (const std::string_view key :
       {std::string_view{"world size"}, std::string_view{"world_size"}, std::string_view{"nproc-per-node"},
        std::string_view{"nproc_per_node"}, std::string_view{"num_processes"}})
    if (const auto value = integer_after(text, key); value && *value > 0 && *value < (1 << 24))
      findings_.world = std::max(findings_.world.value_or(0), *value);
}

// That the same job fitted under another version.
void Collector::read_upgrade(const Line& line) {
  constexpr std::size_t kLongest = 300;
  if (findings_.upgrade_place || line.text.size() >= kLongest ||
      !has_any(line.text, {"last good run", "upgraded from", "after upgrading", "worked with", "worked on version",
                           "previously fit", "fitted on"}))
    return;
  findings_.upgrade_place = Place{line.file, line.number};
  findings_.upgrade_text = std::string{cut_text(line.text, 200)};
}

void Collector::read_facts(const Line& line, Topics topics) {
  const std::string_view text = line.text;
  // The access log of a server: what is asked of it is answered, or was until now.
  if (text.find("\"POST /") != kNone && text.find(" HTTP/") != kNone) ++findings_.figures["requests"];
  if (has(topics, Topic::kElastic) || (root_cause_ && find_word(text, "exitcode") == 0)) read_elastic(line);
  if (has(topics, Topic::kSetting)) read_setting(line);
  if (has(topics, Topic::kServing)) read_serving(line);
  if (has(topics, Topic::kWorld)) read_world(text);
  if (has(topics, Topic::kWorld) || in_config_ || text.starts_with("cfg ") || text.ends_with("onfig:"))
    read_config(line);
  read_memory_facts(line, topics);
  if (rss_from_end_ > 0 || has(topics, Topic::kSummary)) read_tasks(text);
  if (findings_.torch_version.empty()) read_version(text);
  read_upgrade(line);
  // A command, or what a launcher says that it starts.
  if (text.size() < 200 && (text.starts_with("$ ") || text.starts_with("+ ") || has_text(text, "starting: ") ||
                            has_any(text, {"deepspeed ", "vllm ", "torchtitan", "megatron"})))
    mention(text);
}

}  // namespace plimsoll::why

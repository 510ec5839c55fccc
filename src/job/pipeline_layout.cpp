// SPDX-License-Identifier: Apache-2.0
#include "job/pipeline_layout.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "base/per_thread.h"
#include "base/text.h"
#include "job/refusal.h"

namespace plimsoll::job {

namespace {

constexpr std::size_t kMaxSymbols = 1'000'000;

constexpr bool is_symbol(char c) { return c == 't' || c == '|' || c == 'E' || c == 'm' || c == 'L'; }

// Reads "Et*3|(tt|)*29,m|L" and writes every repeat out.
class LayoutReader {
 public:
  explicit LayoutReader(std::string_view text) : text_(text) {}

  Result<std::string> read() {
    PLIMSOLL_TRY(symbols, sequence(0));
    if (at_ != text_.size())
      return bad_input(fmt::format("pipeline_model_parallel_layout: ')' without '(' at {}", at_ + 1));
    return symbols;
  }

 private:
  Result<std::string> sequence(int depth) {
    if (depth > 16) return bad_input("pipeline_model_parallel_layout: parentheses are nested too deeply");
    std::string symbols;
    while (at_ < text_.size() && text_[at_] != ')') {
      const char c = text_[at_++];
      if (c == ',' || c == ' ' || c == '\n' || c == '\t') continue;
      // Searches write layouts out: a symbol that is not repeated is by far the most frequent.
      const bool repeats_next = at_ < text_.size() && text_[at_] == '*';
      if (!repeats_next && is_symbol(c) && symbols.size() < kMaxSymbols) {
        symbols += c;
        continue;
      }
      std::string once(1, c);
      if (c == '(') {
        PLIMSOLL_TRY(inside, sequence(depth + 1));
        if (at_ >= text_.size()) return bad_input("pipeline_model_parallel_layout: '(' without ')'");
        ++at_;
        once = std::move(inside);
      } else if (!is_symbol(c)) {
        return bad_input(
            fmt::format("pipeline_model_parallel_layout: '{}' at {}: wanted E, t, m, L, |, (..)*n or x*n", c, at_));
      }
      PLIMSOLL_TRY(times, repeats());
      if (symbols.size() + once.size() * times > kMaxSymbols)
        return bad_input("pipeline_model_parallel_layout expands beyond any model");
      for (std::size_t i = 0; i < times; ++i) symbols += once;
    }
    return symbols;
  }
  Result<std::size_t> repeats() {
    if (at_ >= text_.size() || text_[at_] != '*') return std::size_t{1};
    std::size_t times = 0;
    const char* const begin = text_.data() + ++at_;
    const auto [end, failure] = std::from_chars(begin, text_.data() + text_.size(), times);
    if (failure != std::errc{} || times > kMaxSymbols)
      return bad_input(fmt::format("pipeline_model_parallel_layout: wanted a number after '*' at {}", at_));
    at_ += static_cast<std::size_t>(end - begin);
    return times;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::int64_t count(std::string_view text, char symbol) { return std::count(text.begin(), text.end(), symbol); }

// Rules R054 to R058 of facts rules.md.
Status check_layout(const Job& job, const std::vector<std::string>& stages) {
  const std::int64_t p = job.parallel.pipeline;
  const auto total = static_cast<std::int64_t>(stages.size());
  if (total % p != 0) return refused("R054");
  const std::string all = std::accumulate(stages.begin(), stages.end(), std::string());
  if (all.empty() || all.front() != 'E' || count(all, 'E') != 1) return refused("R056");
  if (all.back() != 'L' || count(all, 'L') != 1) return refused("R056");
  if (count(all, 't') != job.model.depth() || count(all, 'm') != job.model.mtp_layers) return refused("R057");
  if (const auto mtp = all.find('m'); mtp != std::string::npos && all.find('t', mtp) != std::string::npos)
    return refused("R058");
  const auto holds_mtp = [](const std::string& stage) { return stage.find('m') != std::string::npos; };
  if (std::count_if(stages.begin(), stages.end(), holds_mtp) > 1) return refused("R058");
  const auto mtp_stage = std::find_if(stages.begin(), stages.end(), holds_mtp) - stages.begin();
  if (mtp_stage < total && p > 1 && (mtp_stage % p == 0 || mtp_stage < total - p)) return refused("R058");
  return {};
}

std::vector<Chunk> from_string(const std::vector<std::string>& stages) {
  std::vector<Chunk> chunks;
  std::int64_t next = 0;
  for (const std::string& stage : stages) {
    Chunk chunk{next, count(stage, 't'), count(stage, 'E') > 0, count(stage, 'L') > 0, count(stage, 'm')};
    next += chunk.num_layers;
    chunks.push_back(chunk);
  }
  return chunks;
}

// torchtitan counts embedding and head as a layer each and gives what does not divide to the first stages
// (distributed/pipeline_parallel.py, with one layer less in the first and the last stage).
Result<std::vector<std::int64_t>> dealt_out(std::int64_t layers, std::int64_t stages) {
  const std::int64_t all = layers + 2;
  if (all < stages)
    return bad_input(fmt::format("{} layers, embedding and head do not make {} stages", layers, stages),
                     "use fewer stages");
  std::vector<std::int64_t> per_stage;
  for (std::int64_t i = 0; i < stages; ++i) per_stage.push_back(all / stages + (i < all % stages ? 1 : 0));
  --per_stage.front();
  --per_stage.back();
  return per_stage;
}

// Layers of each stage where no layout string is given.
Result<std::vector<std::int64_t>> counted(const Job& job) {
  const Parallel& parallel = job.parallel;
  if (job.kernels.implementation == Implementation::kTorchtitan && parallel.pipeline > 1)
    return dealt_out(job.model.depth(), parallel.pipeline * parallel.virtual_pipeline);
  const std::int64_t p = parallel.pipeline;
  const std::int64_t v = parallel.virtual_pipeline;
  const std::int64_t layers = job.model.depth();
  std::vector<std::int64_t> per_rank;
  if (parallel.layers_in_first_stage || parallel.layers_in_last_stage) {
    if (parallel.account_for_embedding || parallel.account_for_loss) return refused("R046");
    std::int64_t middle_layers = layers;
    std::int64_t middle_stages = p;
    for (const auto& fixed : {parallel.layers_in_first_stage, parallel.layers_in_last_stage}) {
      if (!fixed) continue;
      if (*fixed < 1) return refused("R047");
      middle_layers -= *fixed;
      --middle_stages;
    }
    if (middle_stages < 0 || middle_layers < 0 || (middle_stages == 0) != (middle_layers == 0)) return refused("R050");
    if (middle_stages > 0 && middle_layers % middle_stages != 0) return refused("R049");
    for (std::int64_t rank = 0; rank < p; ++rank) {
      const bool first = rank == 0 && parallel.layers_in_first_stage.has_value();
      const bool last = rank == p - 1 && parallel.layers_in_last_stage.has_value();
      per_rank.push_back(first  ? *parallel.layers_in_first_stage
                         : last ? *parallel.layers_in_last_stage
                                : middle_layers / middle_stages);
    }
  } else {
    const std::int64_t counted_layers =
        layers + (parallel.account_for_embedding ? 1 : 0) + (parallel.account_for_loss ? 1 : 0);
    if (counted_layers % p != 0) return refused("R035");
    per_rank.assign(static_cast<std::size_t>(p), counted_layers / p);
  }
  for (const std::int64_t here : per_rank)
    if (here % v != 0)
      return refused(parallel.layers_in_first_stage || parallel.layers_in_last_stage ? "R048" : "R036");
  std::vector<std::int64_t> per_stage;
  for (std::int64_t chunk = 0; chunk < v; ++chunk)
    for (const std::int64_t here : per_rank) per_stage.push_back(here / v);
  if (parallel.account_for_embedding) --per_stage.front();
  if (parallel.account_for_loss) --per_stage.back();
  if (per_stage.front() < 0 || per_stage.back() < 0) return refused("R052");
  return per_stage;
}

}  // namespace

Result<std::vector<std::string>> expand_layout(std::string_view layout) {
  PLIMSOLL_TRY(symbols, LayoutReader(layout).read());
  std::vector<std::string> stages;
  stages.reserve(static_cast<std::size_t>(count(symbols, '|')) + 1);
  for (const std::string_view stage : split(symbols, '|')) stages.emplace_back(stage);
  return stages;
}

namespace {

// The written-out layout that this thread read last. A search asks for the same one hundreds of times in a row.
struct Remembered {
  std::string text;
  std::int64_t stages = 0;
  std::int64_t ranks = 0;
  std::int64_t layers = 0;
  std::int64_t mtp_layers = 0;
  PipelineLayout layout;

  [[nodiscard]] bool is_of(const Job& job) const {
    return ranks == job.parallel.pipeline && stages == ranks * job.parallel.virtual_pipeline &&
           layers == job.model.depth() && mtp_layers == job.model.mtp_layers && text == job.parallel.layout;
  }
};

PerThread<Remembered>& remembered() {
  static PerThread<Remembered> last;
  return last;
}

}  // namespace

Result<std::int64_t> layout_stages(std::string_view layout) {
  const std::int64_t known =
      remembered().with([layout](const Remembered& last) { return last.text == layout ? last.stages : 0; });
  if (known > 0) return known;
  PLIMSOLL_TRY(stages, expand_layout(layout));
  return static_cast<std::int64_t>(stages.size());
}

Status check_pipeline_layout(const Job& job) {
  if (job.parallel.layout.empty()) {  // then there are as many stages as ranks have chunks
    if (auto layers = counted(job); !layers) return tl::make_unexpected(std::move(layers.error()));
    return {};
  }
  if (remembered().with([&job](const Remembered& last) { return last.is_of(job); })) return {};
  if (auto layout = pipeline_layout(job); !layout) return tl::make_unexpected(std::move(layout.error()));
  return {};
}

Result<PipelineLayout> pipeline_layout(const Job& job) {
  std::vector<Chunk> stages;
  if (!job.parallel.layout.empty()) {
    auto known = remembered().with(
        [&job](const Remembered& last) { return last.is_of(job) ? std::optional(last.layout) : std::nullopt; });
    if (known) return *std::move(known);
    PLIMSOLL_TRY(texts, expand_layout(job.parallel.layout));
    PLIMSOLL_TRY_STATUS(check_layout(job, texts));
    stages = from_string(texts);
  } else {
    PLIMSOLL_TRY(per_stage, counted(job));
    std::int64_t next = 0;
    for (const std::int64_t layers : per_stage) {
      stages.push_back(Chunk{next, layers, false, false, 0});
      next += layers;
    }
    stages.front().has_embedding = true;
    stages.back().has_loss = true;
    stages.back().mtp_layers = job.model.mtp_layers;
  }
  const auto p = static_cast<std::size_t>(job.parallel.pipeline);
  if (stages.size() != p * static_cast<std::size_t>(job.parallel.virtual_pipeline))
    return bad_input(
        fmt::format("virtual_pipeline_model_parallel_size conflicts with pipeline_model_parallel_layout: "
                    "{} stages for {} ranks of {} chunks",
                    stages.size(), p, job.parallel.virtual_pipeline));
  PipelineLayout result;
  result.ranks.resize(p);
  for (std::size_t i = 0; i < stages.size(); ++i) result.ranks[i % p].push_back(stages[i]);
  if (!job.parallel.layout.empty())
    remembered().with([&](Remembered& last) {
      last = {job.parallel.layout,   static_cast<std::int64_t>(stages.size()),
              job.parallel.pipeline, job.model.depth(),
              job.model.mtp_layers,  result};
    });
  return result;
}

}  // namespace plimsoll::job

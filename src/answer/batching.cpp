// SPDX-License-Identifier: Apache-2.0
#include "answer/batching.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/file.h"
#include "job/readers/resolve.h"
#include "lever/price.h"
#include "rl/lengths.h"
#include "rl/packing.h"
#include "rl/read.h"
#include "rl/trainer.h"

namespace plimsoll::answer {

namespace {

constexpr std::uint64_t kSeed = 21;
constexpr std::int64_t kDrawn = 20'000;        // samples, for averages that settle
constexpr std::int64_t kMostOfStep = 1 << 20;  // samples of one step that are drawn

bool is_said(const job::Batch& batch) { return batch.sample_mean > 0 || !batch.sample_lengths.empty(); }

// The lengths that the key lists, or those in the file that it names.
Result<rl::Lengths> listed(const job::Request& request, const job::Batch& batch) {
  rl::Lengths lengths;
  const std::vector<std::string>& words = batch.sample_lengths;
  std::string text;
  if (words.size() == 1 && words.front().find_first_not_of("0123456789") != std::string::npos) {
    const bool by_file = !request.sets("sample_lengths") && !request.files().empty();
    PLIMSOLL_TRY(path, job::locate(words.front(), by_file ? parent_folder(request.files().front().path) : "."));
    PLIMSOLL_TRY(read, job::read_named_file(path));
    text = std::move(read);
  } else {
    for (const std::string& word : words) text += word + '\n';
  }
  PLIMSOLL_TRY(counts, rl::parse_histogram(text));
  lengths.counts = std::move(counts);
  lengths.maximum = batch.seq_length;
  return lengths;
}

Result<rl::Lengths> lengths_of(const job::Request& request, const job::Batch& batch) {
  if (!batch.sample_lengths.empty()) {
    if (batch.sample_mean > 0 || batch.sample_cv > 0 || batch.sample_max > 0)
      return bad_input("sample_lengths and a sample_mean, sample_cv or sample_max are given", "give one of the two");
    auto lengths = listed(request, batch);
    if (!lengths) return tl::make_unexpected(std::move(lengths.error()).with_context("sample_lengths"));
    return lengths;
  }
  const std::int64_t most = batch.sample_max > 0 ? batch.sample_max : batch.seq_length;
  if (batch.sample_mean < 1 || batch.sample_mean > static_cast<double>(most))
    return bad_input(
        fmt::format("sample_mean: found {}, wanted 1 to {}, the longest that a sample may be", batch.sample_mean, most),
        batch.sample_max > 0 ? "" : "sample_max says how long they are before seq_length cuts them");
  rl::Lengths lengths;
  lengths.mean = batch.sample_mean;
  lengths.cv = batch.sample_cv;
  lengths.maximum = most;
  return lengths;
}

// Samples as the collator gets them.
class Source {
 public:
  Source(const rl::Lengths& lengths, std::int64_t seq_length) : all_(lengths), seq_length_(seq_length) {}
  std::int64_t draw() { return std::min(seq_length_, all_.sample(random_)); }
  [[nodiscard]] std::vector<std::int64_t> draw_many() {
    std::vector<std::int64_t> drawn(static_cast<std::size_t>(kDrawn));
    for (std::int64_t& length : drawn) length = draw();
    return drawn;
  }
  [[nodiscard]] Batching::Samples describe(const rl::Lengths& lengths) const {
    const auto most = static_cast<double>(seq_length_);
    Batching::Samples samples;
    samples.mean = all_.mean();
    samples.median = std::min(most, all_.quantile(0.5));
    samples.p95 = std::min(most, all_.quantile(0.95));
    samples.longest = std::llround(std::min(most, all_.quantile(1)));
    // A distribution that ends at seq_length was cut there.
    samples.cut_share = lengths.maximum > seq_length_ ? 1 - all_.cumulative(most) : all_.cut_share();
    return samples;
  }

 private:
  rl::Distribution all_;
  rl::Random random_{kSeed};
  std::int64_t seq_length_;
};

// A multiple that sequences have under the job's split.
std::int64_t unit_of(const job::Job& job) {
  return (job.parallel.context > 1 ? 2 * job.parallel.context : 1) *
         (job.parallel.sequence_parallel ? job.parallel.tensor : 1);
}

Result<job::Job> at_length(const job::Job& job, double tokens) {
  job::Job shorter = job;
  const std::int64_t unit = unit_of(job);
  const auto wanted = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(tokens)));
  shorter.batch.seq_length = std::min(job.batch.seq_length, round_up(wanted, unit));
  if (auto done = job::complete(shorter); !done) return tl::make_unexpected(std::move(done.error()));
  return shorter;
}

// Megatron's packed format and FlashAttention's kernels are told where samples begin; SDPA attends across them.
bool has_flash_attention(const job::Job& job) {
  const auto stated = job.stated.find("attn_implementation");
  return stated != job.stated.end() && stated->second.starts_with("flash_attention");
}
bool attends_within_samples(const job::Job& job) { return job.is_megatron() || has_flash_attention(job); }

// Seconds of a step of the job whose attention has this share of what whole sequences cost.
Result<double> seconds_of(const job::Job& job, double attention, const lever::World& world) {
  PLIMSOLL_TRY(time, lever::time_of(job, world));
  if (attention >= 1) return time.seconds;
  rl::scale_attention(time.parts, job, attention);
  return time.parts.sum();
}

// Squares of drawn lengths, for the attention of kernels that leave padding out.
class Squares {
 public:
  explicit Squares(std::vector<std::int64_t> lengths) : lengths_(std::move(lengths)) {
    std::sort(lengths_.begin(), lengths_.end());
    double sum = 0;
    for (const std::int64_t length : lengths_) {
      sum += static_cast<double>(length) * static_cast<double>(length);
      sums_.push_back(sum);
    }
  }
  // The mean square of the samples up to this length.
  [[nodiscard]] double mean_to(double length) const {
    const auto after = std::upper_bound(lengths_.begin(), lengths_.end(), length,
                                        [](double at, std::int64_t one) { return at < static_cast<double>(one); });
    const auto count = static_cast<std::size_t>(after - lengths_.begin());
    return count == 0 ? 0 : sums_[count - 1] / static_cast<double>(count);
  }

 private:
  std::vector<std::int64_t> lengths_;
  std::vector<double> sums_;
};

// Seconds of a step whose micro-batches have a longest sample of this length: straight lines between computed points.
// With `unpadded` the attention of the shorter ones ends where they end.
class SecondsOfLength {
 public:
  static Result<SecondsOfLength> make(const job::Job& job, const lever::World& world, const Squares* unpadded) {
    SecondsOfLength seconds;
    for (int i = 1; i <= kPoints; ++i) {
      PLIMSOLL_TRY(at, at_length(job, static_cast<double>(job.batch.seq_length) * i / kPoints));
      const auto length = static_cast<double>(at.batch.seq_length);
      if (!seconds.points_.empty() && seconds.points_.back().first >= length) continue;
      double attention = 1;
      if (unpadded != nullptr) {
        const auto others = static_cast<double>(job.batch.micro_batch - 1);
        attention = (1 + others * unpadded->mean_to(length) / (length * length)) / (1 + others);
      }
      PLIMSOLL_TRY(taken, seconds_of(at, attention, world));
      seconds.points_.emplace_back(length, taken);
    }
    return seconds;
  }
  [[nodiscard]] double at(double length) const {
    if (length <= points_.front().first) {
      if (points_.size() == 1) return points_.front().second;
      return std::max(0.0, between(points_[0], points_[1], length));
    }
    for (std::size_t i = 1; i < points_.size(); ++i)
      if (length <= points_[i].first) return between(points_[i - 1], points_[i], length);
    return points_.back().second;
  }

 private:
  using Point = std::pair<double, double>;
  static constexpr int kPoints = 16;
  static double between(const Point& a, const Point& b, double length) {
    return a.second + (b.second - a.second) * (length - a.first) / (b.first - a.first);
  }
  std::vector<Point> points_;
};

// FSDP and ZeRO 3 gather every layer from all ranks, so that no rank runs ahead within a micro-batch.
bool gathers_weights(const job::Job& job) {
  const job::ShardingKind kind = job.sharding.kind;
  return kind == job::ShardingKind::kFsdp1 || kind == job::ShardingKind::kFsdp2 ||
         (kind == job::ShardingKind::kZero && job.sharding.zero_stage == 3) ||
         (kind == job::ShardingKind::kMegatronFsdp &&
          job.sharding.megatron_strategy == job::MegatronFsdpStrategy::kOptimGradsParams);
}

struct Padded {
  double seconds = 0;  // of a step, on average
  double tokens = 0;   // of a micro-batch's longest sample, on average
  double real = 0;     // of a sample, on average
};

// Steps of drawn samples: a micro-batch is as long as its longest sample, a step as the ranks wait for one another.
Padded draw_padded(const job::Job& job, Source& source, const SecondsOfLength& seconds) {
  const std::int64_t of_rank = std::max<std::int64_t>(1, job.micro_batches) * job.batch.micro_batch;
  const std::int64_t ranks = std::clamp<std::int64_t>(kMostOfStep / of_rank, 1, job.data_parallel);
  const std::int64_t steps = std::clamp<std::int64_t>(kDrawn / (ranks * of_rank), 1, kDrawn);
  const std::int64_t micro_batches = std::min<std::int64_t>(of_rank, kMostOfStep) / job.batch.micro_batch;
  const bool together = gathers_weights(job);
  Padded padded;
  std::vector<double> of_step(static_cast<std::size_t>(ranks));
  for (std::int64_t s = 0; s < steps; ++s) {
    std::fill(of_step.begin(), of_step.end(), 0.0);
    double waited = 0;
    for (std::int64_t m = 0; m < std::max<std::int64_t>(1, micro_batches); ++m) {
      double slowest = 0;
      for (double& rank : of_step) {
        std::int64_t longest = 0;
        for (std::int64_t i = 0; i < job.batch.micro_batch; ++i) {
          const std::int64_t length = source.draw();
          padded.real += static_cast<double>(length);
          longest = std::max(longest, length);
        }
        const double taken = seconds.at(static_cast<double>(longest));
        rank += taken;
        slowest = std::max(slowest, taken);
        padded.tokens += static_cast<double>(longest);
      }
      waited += slowest;
    }
    padded.seconds += together ? waited : *std::max_element(of_step.begin(), of_step.end());
  }
  const double passes = static_cast<double>(steps) * static_cast<double>(std::max<std::int64_t>(1, micro_batches));
  padded.seconds /= passes;
  padded.tokens /= passes * static_cast<double>(ranks);
  padded.real /= passes * static_cast<double>(ranks) * static_cast<double>(job.batch.micro_batch);
  return padded;
}

class Comparison {
 public:
  Comparison(const job::Request& request, const job::Job& job, const lever::World& world, Source& source)
      : request_(request), job_(job), world_(world), source_(source) {
    sequences_ =
        static_cast<double>(job.data_parallel * job.batch.micro_batch) * static_cast<double>(job.micro_batches);
  }

  Status run(Batching& batching) {
    if (job_.batch.sample_max > job_.batch.seq_length) {  // the mean is that before seq_length cuts
      double sum = 0;
      for (const std::int64_t length : source_.draw_many()) sum += static_cast<double>(length);
      batching.samples.mean = sum / static_cast<double>(kDrawn);
    }
    mean_ = batching.samples.mean;
    // Batches of samples that are all alike hold no padding.
    const bool alike = batching.samples.longest == std::llround(mean_) && batching.samples.median >= mean_;
    // FlashAttention takes no mask: it leaves padding out.
    const bool masked = !attends_within_samples(job_) && (job_.batch.padding_mask || !alike);
    PLIMSOLL_TRY_STATUS(padded(masked, batching));
    PLIMSOLL_TRY_STATUS(packed(batching));
    const double fixed = batching.rows.front().tokens_per_second;
    for (Batching::Row& row : batching.rows) row.times_as_fast = fixed > 0 ? row.tokens_per_second / fixed : 0;
    return {};
  }

 private:
  Result<job::Job> with(bool packs, bool masked) const {
    job::Settings settings = {{"packed_sequences", packs ? "true" : "false"}};
    if (masked != job_.batch.padding_mask) settings.emplace_back("padding_mask", masked ? "true" : "false");
    return job::resolve(request_.with(settings));
  }
  Status weigh(const job::Job& job, std::int64_t& device_used, bool& fits) const {
    memory::AskedRanks asked;
    asked.figures_only = true;
    PLIMSOLL_TRY(price, lever::price(job, world_, asked));
    device_used = price.worst().device_used;
    fits = price.fits();
    return {};
  }
  // Of a sequence: its samples' own tokens, and all that are computed.
  void rate(Batching::Row& row, double real, double tokens, double seconds) const {
    row.tokens = tokens;
    row.real_share = tokens > 0 ? std::min(1.0, real / tokens) : 0;
    row.seconds = seconds;
    row.tokens_per_second = seconds > 0 ? sequences_ * real / seconds / static_cast<double>(job_.cluster.gpus) : 0;
  }

  Status padded(bool masked, Batching& batching) {
    Batching::Row fixed;
    fixed.name = "fixed";
    Batching::Row each;
    each.name = "padded";
    PLIMSOLL_TRY(job, with(false, masked));
    const Squares squares(source_.draw_many());
    const bool leaves_padding = has_flash_attention(job) && !job.is_megatron();
    PLIMSOLL_TRY(seconds, SecondsOfLength::make(job, world_, leaves_padding ? &squares : nullptr));
    PLIMSOLL_TRY_STATUS(weigh(job, fixed.device_used, fixed.fits));
    fixed.usual = fixed.device_used;
    const auto whole = static_cast<double>(job.batch.seq_length);
    const double attention = leaves_padding ? squares.mean_to(whole) / (whole * whole) : 1;
    PLIMSOLL_TRY(fixed_seconds, seconds_of(job, attention, world_));
    fixed.samples = each.samples = 1;
    rate(fixed, mean_, whole, fixed_seconds);
    const Padded drawn = draw_padded(job, source_, seconds);
    rate(each, drawn.real, drawn.tokens, drawn.seconds);
    PLIMSOLL_TRY(longest, at_length(job, static_cast<double>(batching.samples.longest)));
    PLIMSOLL_TRY_STATUS(weigh(longest, each.device_used, each.fits));
    PLIMSOLL_TRY(usual, at_length(job, drawn.tokens));
    bool ignored = false;
    PLIMSOLL_TRY_STATUS(weigh(usual, each.usual, ignored));
    batching.waits_each_micro_batch = gathers_weights(job) && job.data_parallel > 1;
    batching.rows = {fixed, each};
    return {};
  }

  Status packed(Batching& batching) {
    Batching::Row row;
    row.name = "packed";
    const auto job = with(true, false);
    if (!job) {
      row.refused = to_string(job.error());
      batching.rows.push_back(row);
      return {};
    }
    const rl::Packed bins =
        rl::pack(source_.draw_many(), {.seq_len = job->batch.seq_length, .pad_to_multiple_of = 1, .enabled = true},
                 unit_of(*job), 1);
    const double tokens = bins.padded_tokens / static_cast<double>(bins.bins);
    PLIMSOLL_TRY(filled, at_length(*job, tokens));
    batching.within_samples = attends_within_samples(*job);
    const auto length = static_cast<double>(filled.batch.seq_length);
    const double whole = static_cast<double>(bins.bins) * length * length;
    PLIMSOLL_TRY(seconds, seconds_of(filled, batching.within_samples ? bins.square_tokens / whole : 1, world_));
    PLIMSOLL_TRY_STATUS(weigh(*job, row.device_used, row.fits));
    row.usual = row.device_used;
    row.samples = static_cast<double>(bins.samples) / static_cast<double>(bins.bins);
    rate(row, bins.tokens / static_cast<double>(bins.bins), tokens, seconds);
    batching.rows.push_back(row);
    return {};
  }

  const job::Request& request_;
  const job::Job& job_;
  const lever::World& world_;
  Source& source_;
  double mean_ = 0;
  double sequences_ = 0;  // of a step
};

}  // namespace

Result<std::optional<Batching>> batching(const job::Request& request, const job::Job& job, const lever::World& world) {
  if (!is_said(job.batch)) {
    if (job.batch.sample_cv > 0 || job.batch.sample_max > 0)
      return bad_input("sample_cv and sample_max say nothing without the mean", "give sample_mean = 500, say");
    return std::nullopt;
  }
  PLIMSOLL_TRY(lengths, lengths_of(request, job.batch));
  Source source(lengths, job.batch.seq_length);
  Batching answer;
  answer.samples = source.describe(lengths);
  PLIMSOLL_TRY_STATUS(Comparison(request, job, world, source).run(answer));
  return answer;
}

}  // namespace plimsoll::answer

// SPDX-License-Identifier: Apache-2.0
#include "rl/packing.h"

#include <algorithm>
#include <functional>

#include "base/checked.h"

namespace plimsoll::rl {

namespace {

// Room left in every bin, as a tree of maxima: the first bin that holds a length is found in log(bins).
class Rooms {
 public:
  Rooms(std::size_t most, std::int64_t capacity) : capacity_(capacity) {
    while (leaves_ < most) leaves_ *= 2;
    tree_.assign(2 * leaves_, capacity);
  }

  // Takes `length` from the first bin with room; answers its number.
  std::size_t take(std::int64_t length) {
    std::size_t node = 1;
    while (node < leaves_) node = tree_[2 * node] >= length ? 2 * node : 2 * node + 1;
    tree_[node] -= length;
    const std::size_t bin = node - leaves_;
    for (node /= 2; node > 0; node /= 2) tree_[node] = std::max(tree_[2 * node], tree_[2 * node + 1]);
    return bin;
  }
  [[nodiscard]] std::int64_t used(std::size_t bin) const { return capacity_ - tree_[leaves_ + bin]; }

 private:
  std::int64_t capacity_;
  std::size_t leaves_ = 1;
  std::vector<std::int64_t> tree_;
};

}  // namespace

double Packed::efficiency(std::int64_t ranks) const {
  if (bins == 0) return 0;
  const double computed = padded_tokens / static_cast<double>(bins) * static_cast<double>(per_rank * ranks);
  return computed > 0 ? tokens / computed : 0;
}

Packed pack(std::vector<std::int64_t> lengths, const Packing& packing, std::int64_t pad, std::int64_t ranks) {
  Packed packed;
  packed.samples = static_cast<std::int64_t>(lengths.size());
  for (std::int64_t& length : lengths) {
    if (length > packing.seq_len) {
      ++packed.truncated;
      packed.lost_tokens += static_cast<double>(length - packing.seq_len);
      length = packing.seq_len;
    }
    packed.tokens += static_cast<double>(length);
    packed.square_tokens += static_cast<double>(length) * static_cast<double>(length);
  }
  if (packing.enabled) {
    std::sort(lengths.begin(), lengths.end(), std::greater<>{});
    Rooms rooms(std::max<std::size_t>(1, lengths.size()), packing.seq_len);
    for (const std::int64_t length : lengths)
      packed.bins = std::max(packed.bins, static_cast<std::int64_t>(rooms.take(length)) + 1);
    for (std::int64_t bin = 0; bin < packed.bins; ++bin)
      packed.padded_tokens +=
          static_cast<double>(std::min(packing.seq_len, round_up(rooms.used(static_cast<std::size_t>(bin)), pad)));
  } else {
    packed.bins = packed.samples;
    packed.padded_tokens = static_cast<double>(packed.samples) * static_cast<double>(packing.seq_len);
  }
  packed.per_rank = ceil_div(std::max<std::int64_t>(1, packed.bins), ranks);
  packed.dealt = packed.per_rank * ranks;
  return packed;
}

Packed typical_packing(const Run& run, std::int64_t pad, std::int64_t ranks) {
  constexpr std::uint64_t kSeed = 20;
  constexpr std::int64_t kDrawn = 20'000;  // samples, for averages that settle
  const Distribution prompts(run.prompt);
  const Distribution completions(run.completion);
  const std::int64_t samples = run.samples_per_step();
  const bool constant = prompts.is_constant() && completions.is_constant();
  const std::int64_t batches = constant ? 1 : std::clamp<std::int64_t>(kDrawn / samples, 1, 16);
  Random random(kSeed);
  Packed sum;
  std::vector<std::int64_t> lengths;
  for (std::int64_t b = 0; b < batches; ++b) {
    lengths.clear();
    for (std::int64_t p = 0; p < run.algorithm.prompts_per_step; ++p) {
      const std::int64_t prompt = prompts.sample(random);
      for (std::int64_t s = 0; s < run.algorithm.group_size; ++s)
        lengths.push_back(prompt + completions.sample(random));
    }
    const Packed one = pack(lengths, run.packing, pad, ranks);
    sum.samples += one.samples;
    sum.truncated += one.truncated;
    sum.lost_tokens += one.lost_tokens;
    sum.tokens += one.tokens;
    sum.bins += one.bins;
    sum.padded_tokens += one.padded_tokens;
    sum.square_tokens += one.square_tokens;
  }
  const auto n = static_cast<double>(batches);
  Packed mean;
  mean.samples = samples;
  mean.truncated = (sum.truncated + batches / 2) / batches;
  mean.lost_tokens = sum.lost_tokens / n;
  mean.tokens = sum.tokens / n;
  mean.bins = std::max<std::int64_t>(1, (sum.bins + batches / 2) / batches);
  const double scale = static_cast<double>(mean.bins) / static_cast<double>(std::max<std::int64_t>(1, sum.bins));
  mean.padded_tokens = sum.padded_tokens * scale;
  mean.square_tokens = sum.square_tokens / n;
  mean.per_rank = ceil_div(mean.bins, ranks);
  mean.dealt = mean.per_rank * ranks;
  return mean;
}

}  // namespace plimsoll::rl

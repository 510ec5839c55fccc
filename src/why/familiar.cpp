// SPDX-License-Identifier: Apache-2.0
#include "why/familiar.h"

#include <array>
#include <bit>

#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr std::int32_t kOften = 1024;
constexpr std::int32_t kEvery = 256;  // of the later ones that are read, for the course of memory over the steps
constexpr std::int32_t kTelling = -1;
constexpr std::size_t kMostShapes = 8192;

// Random words, one per byte (splitmix64).
constexpr std::array<std::uint64_t, 256> kBytes = [] {
  std::array<std::uint64_t, 256> words{};
  std::uint64_t state = 0x243F6A8885A308D3ULL;
  for (std::uint64_t& word : words) {
    state += 0x9E3779B97F4A7C15ULL;
    word = (state ^ (state >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    word = (word ^ (word >> 27U)) * 0x94D049BB133111EBULL;
    word ^= word >> 31U;
  }
  return words;
}();

}  // namespace

std::uint64_t words_hash(std::string_view text) {
  // A rotation and a sum: the chain from byte to byte is two cycles long, a product's would be four.
  std::uint64_t hash = 0;
  for (const char c : text) {
    const std::uint64_t next = std::rotl(hash, 7) + kBytes[static_cast<unsigned char>(c)];
    hash = is_digit(c) ? hash : next;
  }
  return hash;
}

FamiliarLines::Worth FamiliarLines::worth_of(std::uint64_t words) {
  const auto found = seen_.find(words);
  if (found == seen_.end() || found->second < kOften) return Worth::kNew;
  if (++found->second < kOften + kEvery) return Worth::kNothing;
  found->second = kOften;
  return Worth::kSample;
}

void FamiliarLines::was_read(std::uint64_t words, bool told) {
  const auto found = seen_.find(words);
  const bool is_known = found != seen_.end() && found->second >= kOften && !told;
  streak_ = is_known ? streak_ + 1 : 0;
  if (found == seen_.end()) {
    if (seen_.size() < kMostShapes) seen_.emplace(words, told ? kTelling : 1);
    return;
  }
  if (told) found->second = kTelling;
  if (found->second != kTelling && found->second < kOften) ++found->second;
}

}  // namespace plimsoll::why

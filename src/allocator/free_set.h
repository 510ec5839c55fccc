// SPDX-License-Identifier: Apache-2.0
// The free blocks of one pool and stream in order of size, then address: what best fit searches. Keys lie in
// chunks of bounded length, so that a search touches few cache lines and an insertion moves few bytes.
// Invariant: no chunk is empty, and the keys are ascending within and across chunks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "allocator/driver.h"

namespace plimsoll::allocator {

class FreeSet {
 public:
  struct Key {
    std::int64_t size;
    Address address;
    std::int32_t block;

    // Without branches: which way a search goes cannot be foretold.
    bool operator<(const Key& other) const {
      const auto less = static_cast<unsigned>(size < other.size);
      const auto same = static_cast<unsigned>(size == other.size);
      return (less | (same & static_cast<unsigned>(address < other.address))) != 0;
    }
  };
  // Valid until the next change of the set.
  struct Position {
    std::size_t chunk;
    std::size_t index;

    bool operator==(const Position&) const = default;
  };

  [[nodiscard]] bool empty() const { return chunks_.empty(); }
  [[nodiscard]] Position begin() const { return {0, 0}; }
  [[nodiscard]] Position end() const { return {chunks_.size(), 0}; }
  [[nodiscard]] const Key& at(Position p) const { return chunks_[p.chunk][p.index]; }
  [[nodiscard]] const Key& largest() const { return chunks_.back().back(); }

  [[nodiscard]] Position next(Position p) const {
    return p.index + 1 < chunks_[p.chunk].size() ? Position{p.chunk, p.index + 1} : Position{p.chunk + 1, 0};
  }
  // Not for begin().
  [[nodiscard]] Position previous(Position p) const {
    return p.index > 0 ? Position{p.chunk, p.index - 1} : Position{p.chunk - 1, chunks_[p.chunk - 1].size() - 1};
  }

  // The first key of at least this size and address.
  [[nodiscard]] Position lower_bound(std::int64_t size, Address address = 0) const {
    const Key key{size, address, 0};
    const std::size_t chunk = chunk_of(key);
    if (chunk == chunks_.size()) return end();
    return {chunk, index_of(chunks_[chunk], key)};
  }

  void insert(const Key& key) {
    if (chunks_.empty()) {
      chunks_.emplace_back().reserve(kLongest);
      chunks_.back().push_back(key);
      return;
    }
    const std::size_t chunk = std::min(chunk_of(key), chunks_.size() - 1);
    Chunk& keys = chunks_[chunk];
    keys.insert(keys.begin() + static_cast<std::ptrdiff_t>(index_of(keys, key)), key);
    if (keys.size() < kLongest) return;
    Chunk upper;
    upper.reserve(kLongest);
    upper.assign(keys.begin() + kLongest / 2, keys.end());
    keys.resize(kLongest / 2);
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(chunk) + 1, std::move(upper));
  }

  void erase(Position p) {
    Chunk& keys = chunks_[p.chunk];
    keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(p.index));
    if (keys.empty()) chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(p.chunk));
  }
  // The key is in the set.
  void erase(std::int64_t size, Address address) { erase(lower_bound(size, address)); }

 private:
  using Chunk = std::vector<Key>;
  static constexpr std::size_t kLongest = 128;

  // The first key of the chunk that is not below.
  [[nodiscard]] static std::size_t index_of(const Chunk& keys, const Key& key) {
    const Key* base = keys.data();
    for (std::size_t left = keys.size(); left > 0;) {
      const std::size_t half = left / 2;
      const bool above = base[half] < key;
      base += above ? half + 1 : 0;
      left = above ? left - half - 1 : half;
    }
    return static_cast<std::size_t>(base - keys.data());
  }

  // The first chunk whose last key is not below.
  [[nodiscard]] std::size_t chunk_of(const Key& key) const {
    if (chunks_.size() == 1) return chunks_.front().back() < key ? 1 : 0;
    const auto at = std::lower_bound(chunks_.begin(), chunks_.end(), key,
                                     [](const Chunk& chunk, const Key& k) { return chunk.back() < k; });
    return static_cast<std::size_t>(at - chunks_.begin());
  }

  std::vector<Chunk> chunks_;
};

}  // namespace plimsoll::allocator

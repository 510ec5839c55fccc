// SPDX-License-Identifier: Apache-2.0
// A set of names that is asked far more often than it changes, mostly for names that it does not have: a few bits of a
// name answer that without comparing any. Ordered, as std::set is.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

class NameSet {
 public:
  NameSet() = default;
  NameSet(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) insert(name);
  }

  [[nodiscard]] bool contains(std::string_view name) const {
    if (!may_hold(name)) return false;
    const auto at = place_of(name);
    return at != names_.end() && *at == name;
  }
  void insert(std::string_view name) {
    const auto at = place_of(name);
    if (at != names_.end() && *at == name) return;
    names_.emplace(at, name);
    mark(name);
  }
  // Two names in braces are two names, and not the ends of one.
  void insert(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) insert(name);
  }
  void erase(std::string_view name) {
    const auto at = place_of(name);
    if (at == names_.end() || *at != name) return;
    names_.erase(at);
    marks_ = {};
    for (const std::string& left : names_) mark(left);
  }

  [[nodiscard]] auto begin() const { return names_.begin(); }
  [[nodiscard]] auto end() const { return names_.end(); }
  [[nodiscard]] std::size_t size() const { return names_.size(); }
  [[nodiscard]] bool empty() const { return names_.empty(); }
  friend bool operator==(const NameSet& a, const NameSet& b) { return a.names_ == b.names_; }

 private:
  // Keys share beginnings and endings, less so their middles and lengths.
  [[nodiscard]] static std::size_t bit_of(std::string_view name) {
    if (name.empty()) return 0;
    const auto letter = [name](std::size_t at) { return static_cast<unsigned char>(name[at]); };
    return (name.size() * 37 + letter(0) * 5U + letter(name.size() / 2) * 11U + letter(name.size() - 1) * 3U +
            letter(name.size() / 3) * 17U) %
           kBits;
  }
  void mark(std::string_view name) { marks_[bit_of(name) / 64] |= std::uint64_t{1} << (bit_of(name) % 64); }
  [[nodiscard]] bool may_hold(std::string_view name) const {
    const std::size_t bit = bit_of(name);
    return (marks_[bit / 64] >> (bit % 64) & 1U) != 0;
  }
  [[nodiscard]] std::vector<std::string>::const_iterator place_of(std::string_view name) const {
    return std::lower_bound(names_.begin(), names_.end(), name);
  }

  static constexpr std::size_t kBits = 512;
  std::vector<std::string> names_;  // sorted
  std::array<std::uint64_t, kBits / 64> marks_{};
};

}  // namespace plimsoll

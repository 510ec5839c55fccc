// SPDX-License-Identifier: Apache-2.0
// A set of names that is asked far more often than it changes, mostly for names that it does not have: a few letters of
// a name answer that without comparing any, or say which one to compare. Ordered, as std::set is.
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
    const std::uint8_t place = places_[slot_of(name)];
    if (place == kNone) return false;
    if (place != kSeveral) return place < names_.size() && names_[place] == name;  // fewer names: moved from
    const auto at = place_of(name);
    return at != names_.end() && *at == name;
  }
  void insert(std::string_view name) {
    const auto at = place_of(name);
    if (at != names_.end() && *at == name) return;
    const auto place = static_cast<std::size_t>(at - names_.begin());
    names_.emplace(at, name);
    for (std::uint8_t& later : places_)
      if (later >= place && later < kSeveral) ++later;  // the last place becomes kSeveral
    mark(name, place);
  }
  // Two names in braces are two names, and not the ends of one.
  void insert(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) insert(name);
  }
  void erase(std::string_view name) {
    const auto at = place_of(name);
    if (at == names_.end() || *at != name) return;
    names_.erase(at);
    places_.fill(kNone);
    for (std::size_t place = 0; place < names_.size(); ++place) mark(names_[place], place);
  }

  [[nodiscard]] auto begin() const { return names_.begin(); }
  [[nodiscard]] auto end() const { return names_.end(); }
  [[nodiscard]] std::size_t size() const { return names_.size(); }
  [[nodiscard]] bool empty() const { return names_.empty(); }
  friend bool operator==(const NameSet& a, const NameSet& b) { return a.names_ == b.names_; }

 private:
  // Keys share beginnings and endings, less so their middles and lengths.
  [[nodiscard]] static std::size_t slot_of(std::string_view name) {
    if (name.empty()) return 0;
    const auto letter = [name](std::size_t at) { return static_cast<unsigned char>(name[at]); };
    return (name.size() * 37 + letter(0) * 5U + letter(name.size() / 2) * 11U + letter(name.size() - 1) * 3U +
            letter(name.size() / 3) * 17U) %
           kSlots;
  }
  void mark(std::string_view name, std::size_t place) {
    std::uint8_t& slot = places_[slot_of(name)];
    slot = slot == kNone && place < kSeveral ? static_cast<std::uint8_t>(place) : kSeveral;
  }
  [[nodiscard]] std::vector<std::string>::const_iterator place_of(std::string_view name) const {
    return std::lower_bound(names_.begin(), names_.end(), name);
  }

  static constexpr std::size_t kSlots = 512;
  static constexpr std::uint8_t kNone = 255;     // no name has this slot
  static constexpr std::uint8_t kSeveral = 254;  // some do: look for it among all
  [[nodiscard]] static std::array<std::uint8_t, kSlots> no_places() {
    std::array<std::uint8_t, kSlots> places;
    places.fill(kNone);
    return places;
  }
  std::vector<std::string> names_;                         // sorted
  std::array<std::uint8_t, kSlots> places_ = no_places();  // of the one name that has the slot
};

}  // namespace plimsoll

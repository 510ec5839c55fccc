// SPDX-License-Identifier: Apache-2.0
// Where segments come to lie, against where CUDA's driver put them in recorded runs. What matters is which of two lies
// lower; where kernels are loaded in between is not known, so that not every pair can be right.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "allocator/address_space.h"
#include "base/bytes.h"
#include "base/file.h"
#include "document/node.h"

namespace plimsoll::allocator {
namespace {

struct Segment {
  std::int64_t recorded = 0;
  Address ours = 0;
  std::int64_t falling = 0;  // each below the one before, what was assumed until this was recorded
};

struct Share {
  double right = 0;
  double falling = 0;
  std::int64_t pairs = 0;
};

std::vector<Segment> place(const document::Node& recorded) {
  std::vector<Segment> segments;
  std::map<std::int64_t, Address> live;
  AddressSpace space;
  std::int64_t lowest = 0;
  for (const document::Node& item : recorded.items) {
    const std::int64_t mib = item.items[0].integer;
    const std::int64_t address = item.items[1].integer;
    if (mib < 0) {
      space.give_back(live.at(address), -mib * kMiB);
      live.erase(address);
      continue;
    }
    lowest -= (mib + 31) / 32;
    segments.push_back({address, space.place(mib * kMiB), lowest});
    live[address] = segments.back().ours;
  }
  return segments;
}

Share compare(const std::vector<Segment>& segments) {
  Share share;
  for (std::size_t i = 0; i < segments.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const bool is_below = segments[i].recorded < segments[j].recorded;
      share.right += is_below == (segments[i].ours < segments[j].ours) ? 1 : 0;
      share.falling += is_below == (segments[i].falling < segments[j].falling) ? 1 : 0;
      ++share.pairs;
    }
  return share;
}

TEST(AddressSpace, orders_segments_as_the_driver_did_also_where_it_was_not_looked_at) {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/allocator/segments-h200.json";
  const document::Node root = document::parse_json(read_file(path).value()).value();
  std::map<std::pair<std::string, bool>, std::pair<double, double>> sums;
  std::map<std::pair<std::string, bool>, int> runs;
  for (const document::Node& run : root.find("runs")->items) {
    const Share share = compare(place(*run.find("segments")));
    ASSERT_GT(share.pairs, 0);
    const auto group = std::pair(run.find("kind")->text, run.find("seen") != nullptr);
    sums[group].first += share.right / static_cast<double>(share.pairs);
    sums[group].second += share.falling / static_cast<double>(share.pairs);
    ++runs[group];
  }
  for (const auto& [group, sum] : sums) {
    const double right = sum.first / runs[group];
    const double falling = sum.second / runs[group];
    fmt::print("{} {}: {} runs, pairs in order {:.4f}, were they falling {:.4f}\n", group.first,
               group.second ? "seen" : "blind", runs[group], right, falling);
    if (group.second) continue;
    EXPECT_GE(right, group.first == "megatron" ? 0.98 : 0.94);
    EXPECT_GT(right, falling);
  }
}

}  // namespace
}  // namespace plimsoll::allocator

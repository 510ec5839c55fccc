// SPDX-License-Identifier: Apache-2.0
#include "base/choices.h"

#include <gtest/gtest.h>

namespace plimsoll {

namespace boats {
enum class Rig { kSloop, kTopsailSchooner };
constexpr Spelling<Rig> kRigs[] = {
    {Rig::kSloop, "sloop"},
    {Rig::kTopsailSchooner, "topsail-schooner", "schooner two_master"},
};
std::span<const Spelling<Rig>> spellings_of(Rig) { return kRigs; }
}  // namespace boats

namespace {

using boats::Rig;

TEST(Choices, the_first_name_is_printed_and_every_name_is_read) {
  EXPECT_EQ(name_of(Rig::kTopsailSchooner), "topsail-schooner");
  for (const char* name : {"topsail-schooner", "Topsail_Schooner", "schooner", "two-master", " two_master "})
    EXPECT_EQ(from_name<Rig>(name), Rig::kTopsailSchooner) << name;
}

TEST(Choices, what_is_no_name_is_none) {
  for (const char* name : {"", " ", "sloops", "schooner two_master"}) EXPECT_EQ(from_name<Rig>(name), std::nullopt);
  EXPECT_EQ(name_of(static_cast<Rig>(7)), "unknown");
}

TEST(Choices, a_message_lists_the_printed_names) { EXPECT_EQ(choices<Rig>(), "sloop, topsail-schooner"); }

}  // namespace
}  // namespace plimsoll

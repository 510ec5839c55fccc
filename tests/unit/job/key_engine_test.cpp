// SPDX-License-Identifier: Apache-2.0
// The engine of keys on a target of its own; the tables of jobs and runs have tests of theirs.
#include "job/key_engine.h"

#include <gtest/gtest.h>

namespace plimsoll::job {

namespace {

struct Boat {
  std::int64_t length = 7;
  int masts = 1;
  std::optional<double> draught;
  bool has_keel = true;
  std::vector<std::string> crew;
  std::string colour;
};

using BoatField = FieldOf<Boat, std::int64_t, int, std::optional<double>, bool, std::vector<std::string>>;

const BoatField kLength = +[](Boat& boat) -> auto& { return boat.length; };
const BoatField kMasts = +[](Boat& boat) -> auto& { return boat.masts; };
const BoatField kDraught = +[](Boat& boat) -> auto& { return boat.draught; };
const BoatField kKeel = +[](Boat& boat) -> auto& { return boat.has_keel; };
const BoatField kCrew = +[](Boat& boat) -> auto& { return boat.crew; };
const BoatField kColour = CustomField<Boat>{[](Boat& boat, const document::Node& value) -> Status {
                                              boat.colour = document::to_text(value);
                                              return {};
                                            },
                                            "a colour", [](const Boat& boat) { return boat.colour; }};
constexpr Range kAny{0, 100};

TEST(KeyEngine, what_is_set_is_told_again) {
  Boat boat;
  ASSERT_TRUE(set_field(boat, kLength, kAny, text_node("12")));
  ASSERT_TRUE(set_field(boat, kMasts, kAny, integer_node(2)));
  ASSERT_TRUE(set_field(boat, kDraught, kAny, text_node("1.5")));
  ASSERT_TRUE(set_field(boat, kKeel, kAny, text_node("no")));
  ASSERT_TRUE(set_field(boat, kCrew, kAny, text_node("anne, bob")));
  ASSERT_TRUE(set_field(boat, kColour, kAny, text_node("red")));

  EXPECT_EQ(get_field(boat, kLength)->as_real(), 12);
  EXPECT_EQ(get_field(boat, kMasts)->as_real(), 2);
  EXPECT_EQ(get_field(boat, kDraught)->as_real(), 1.5);
  EXPECT_FALSE(get_field(boat, kKeel)->boolean);
  EXPECT_EQ(boat.crew, (std::vector<std::string>{"anne", "bob"}));
  EXPECT_EQ(document::to_text(*get_field(boat, kColour)), "red");
}

TEST(KeyEngine, null_resets_what_may_be_unset_and_is_refused_elsewhere) {
  Boat boat;
  boat.draught = 2;
  ASSERT_TRUE(set_field(boat, kDraught, kAny, document::Node{}));
  EXPECT_FALSE(boat.draught);
  EXPECT_TRUE(get_field(boat, kDraught)->is_null());
  EXPECT_FALSE(set_field(boat, kLength, kAny, document::Node{}));
  EXPECT_EQ(boat.length, 7);
  EXPECT_TRUE(takes_null<Boat>(kDraught));
  EXPECT_FALSE(takes_null<Boat>(kLength));
}

TEST(KeyEngine, a_value_out_of_range_leaves_the_field_as_it_was) {
  Boat boat;
  EXPECT_FALSE(set_field(boat, kMasts, kAny, integer_node(101)));
  EXPECT_FALSE(set_field(boat, kMasts, kAny, text_node("two")));
  EXPECT_EQ(boat.masts, 1);
}

TEST(KeyEngine, types_are_named_for_the_reference) {
  EXPECT_EQ(type_name<Boat>(kLength), "integer");
  EXPECT_EQ(type_name<Boat>(kMasts), "integer");
  EXPECT_EQ(type_name<Boat>(kDraught), "number");
  EXPECT_EQ(type_name<Boat>(kKeel), "boolean");
  EXPECT_EQ(type_name<Boat>(kCrew), "list");
  EXPECT_EQ(type_name<Boat>(kColour), "a colour");
}

TEST(KeyEngine, unknown_names_get_the_nearest_or_the_shortest_that_holds_them) {
  const std::vector<std::string> names = {"micro_batch_size", "eval_micro_batch_size", "seq_length"};
  EXPECT_EQ(unknown_name("--seq-lenght", names).hint, "did you mean 'seq_length'?");
  EXPECT_EQ(unknown_name("micro_batch", names).hint, "did you mean 'micro_batch_size'?");
  EXPECT_EQ(unknown_name("rudder", names).hint, "");
}

TEST(KeyEngine, bundles_come_first_and_in_their_own_order) {
  constexpr std::string_view kBundles[] = {"recipe", "gpu"};
  const std::vector<std::string> given = {"tp", "gpu", "pp", "recipe"};
  std::vector<std::string> seen;
  const auto done = for_each_bundle_first(
      given, kBundles, [](const std::string& one) { return one; },
      [&seen](const std::string& one) -> Status { return seen.push_back(one), Status{}; });
  ASSERT_TRUE(done);
  EXPECT_EQ(seen, (std::vector<std::string>{"recipe", "gpu", "tp", "pp"}));
}

}  // namespace
}  // namespace plimsoll::job

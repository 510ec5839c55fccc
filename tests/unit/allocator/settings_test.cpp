// SPDX-License-Identifier: Apache-2.0
// What PYTORCH_CUDA_ALLOC_CONF says and how requests are rounded (facts pytorch-allocator.md 1, 2).
#include "allocator/settings.h"

#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::allocator {
namespace {

using test::settings;

std::string error_of(std::string_view text) {
  const auto parsed = parse_settings(text);
  return parsed ? "no error" : to_string(parsed.error());
}
std::string hint_of(std::string_view text) {
  const auto parsed = parse_settings(text);
  return parsed ? "no error" : parsed.error().hint;
}

TEST(Settings, nothing_means_the_defaults_of_pytorch) {
  for (const char* text : {"", "  "}) {
    const Settings s = settings(text);
    EXPECT_FALSE(s.expandable_segments);
    EXPECT_EQ(s.max_split_size, std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(s.max_non_split_rounding, 20 * kMiB);
    EXPECT_EQ(s.large_segment, 20 * kMiB);
    EXPECT_EQ(s.gc_threshold, 0);
    EXPECT_FALSE(s.fraction);
    for (const std::int64_t divisions : s.divisions) EXPECT_EQ(divisions, 0);
    EXPECT_TRUE(s.ignored.empty());
  }
}

TEST(Settings, every_setting_that_changes_sizes_is_read) {
  const Settings s = settings(
      "expandable_segments:True,max_split_size_mb:128,max_non_split_rounding_mb:64,large_segment_size_mb:32,"
      "garbage_collection_threshold:0.6,per_process_memory_fraction:0.5,roundup_power2_divisions:8");
  EXPECT_TRUE(s.expandable_segments);
  EXPECT_EQ(s.max_split_size, 128 * kMiB);
  EXPECT_EQ(s.max_non_split_rounding, 64 * kMiB);
  EXPECT_EQ(s.large_segment, 32 * kMiB);
  EXPECT_DOUBLE_EQ(s.gc_threshold, 0.6);
  EXPECT_EQ(s.fraction, 0.5);
  for (const std::int64_t divisions : s.divisions) EXPECT_EQ(divisions, 8);
}

TEST(Settings, spaces_around_names_and_values_do_not_matter) {
  const Settings s = settings("  expandable_segments : true , max_split_size_mb : 64 ");
  EXPECT_TRUE(s.expandable_segments);
  EXPECT_EQ(s.max_split_size, 64 * kMiB);
}

TEST(Settings, the_last_of_two_equal_settings_wins) {
  EXPECT_FALSE(settings("expandable_segments:True,expandable_segments:False").expandable_segments);
}

TEST(Settings, settings_without_effect_on_sizes_are_kept_by_name) {
  const Settings s = settings("backend:native,pinned_use_cuda_host_register:True,release_lock_on_cudamalloc:True");
  EXPECT_EQ(s.ignored, (std::vector<std::string>{"pinned_use_cuda_host_register", "release_lock_on_cudamalloc"}));
}

// Entry i is for sizes from 2^i MiB.
TEST(Settings, a_division_list_fills_below_its_first_key_and_from_its_last_key_on) {
  const Settings s = settings("roundup_power2_divisions:[256:1,512:2,1024:4,>:8],expandable_segments:True");
  for (std::size_t i = 0; i <= 8; ++i) EXPECT_EQ(s.divisions[i], 1) << i;  // up to 256 MiB
  EXPECT_EQ(s.divisions[9], 2);                                            // 512 MiB
  // '>' includes the last key's own entry, so 1024:4 is overwritten.
  for (std::size_t i = 10; i < 16; ++i) EXPECT_EQ(s.divisions[i], 8) << i;
  EXPECT_TRUE(s.expandable_segments) << "the comma inside the list does not end it";
}

TEST(Settings, entries_between_two_keys_of_a_division_list_stay_off) {
  const Settings s = settings("roundup_power2_divisions:[4:2,64:4]");
  EXPECT_EQ(s.divisions, (std::array<std::int64_t, 16>{2, 2, 2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Settings, a_key_of_a_division_list_above_32_gib_is_the_last_entry) {
  const Settings s = settings("roundup_power2_divisions:[1048576:4]");
  for (const std::int64_t divisions : s.divisions) EXPECT_EQ(divisions, 4);
}

TEST(Settings, an_unknown_setting_is_refused_with_its_nearest_name) {
  EXPECT_EQ(error_of("expandable_segment:True"), "unknown allocator setting 'expandable_segment'");
  EXPECT_EQ(hint_of("expandable_segment:True"), "did you mean expandable_segments?");
  EXPECT_EQ(error_of(":1"), "unknown allocator setting ''");
}

TEST(Settings, a_setting_without_a_value_is_refused_with_an_example) {
  EXPECT_EQ(error_of("expandable_segments"), "allocator setting 'expandable_segments' has no value; wanted name:value");
  EXPECT_EQ(hint_of("expandable_segments"), "write it as in expandable_segments:True,max_split_size_mb:128");
}

TEST(Settings, values_that_pytorch_refuses_are_refused_by_name) {
  struct Case {
    const char* text;
    const char* names;
  };
  for (const Case& c : {
           Case{"expandable_segments:yes", "expandable_segments: 'yes'"},
           Case{"expandable_segments:", "expandable_segments: ''"},
           Case{"max_split_size_mb:19", "max_split_size_mb: 19 is too small"},
           Case{"max_split_size_mb:-1", "max_split_size_mb: '-1'"},
           Case{"max_split_size_mb:64MB", "max_split_size_mb: '64MB'"},
           Case{"max_split_size_mb:64.5", "max_split_size_mb: '64.5'"},
           Case{"max_split_size_mb:nan", "max_split_size_mb: 'nan'"},
           Case{"max_split_size_mb:1e300", "max_split_size_mb: '1e300'"},
           Case{"max_non_split_rounding_mb:10", "max_non_split_rounding_mb: 10 is too small"},
           Case{"large_segment_size_mb:1", "large_segment_size_mb: 1 is too small"},
           Case{"garbage_collection_threshold:0", "garbage_collection_threshold: 0"},
           Case{"garbage_collection_threshold:1", "garbage_collection_threshold: 1"},
           Case{"per_process_memory_fraction:0", "per_process_memory_fraction: 0"},
           Case{"per_process_memory_fraction:1.5", "per_process_memory_fraction: 1.5"},
           Case{"roundup_power2_divisions:3", "roundup_power2_divisions: 3"},
           Case{"roundup_power2_divisions:2.5", "roundup_power2_divisions: '2.5'"},
           Case{"roundup_power2_divisions:[256:3]", "roundup_power2_divisions: 3"},
           Case{"roundup_power2_divisions:[100:2]", "roundup_power2_divisions: size 100"},
           Case{"roundup_power2_divisions:[256]", "roundup_power2_divisions: '256'"},
           Case{"roundup_power2_divisions:[]", "roundup_power2_divisions: ''"},
           Case{"roundup_power2_divisions:[256:1", "roundup_power2_divisions: '[256:1'"},
       })
    EXPECT_NE(error_of(c.text).find(c.names), std::string::npos) << c.text << ": " << error_of(c.text);
}

TEST(Rounding, requests_become_multiples_of_512) {
  const Settings s;
  EXPECT_EQ(round_size(s, 1), 512);
  EXPECT_EQ(round_size(s, 511), 512);
  EXPECT_EQ(round_size(s, 512), 512);
  EXPECT_EQ(round_size(s, 513), 1024);
  EXPECT_EQ(round_size(s, kMiB), kMiB);
  EXPECT_EQ(round_size(s, kMiB + 1), kMiB + 512);
  EXPECT_EQ(round_size(s, 130 * kGiB - 1), 130 * kGiB);
}

TEST(Rounding, four_divisions_round_to_a_quarter_of_the_power_below) {
  const Settings s = settings("roundup_power2_divisions:4");
  EXPECT_EQ(round_size(s, 1000), 1024) << "not above 4 x 512: multiples of 512";
  EXPECT_EQ(round_size(s, 2048), 2048);
  EXPECT_EQ(round_size(s, 2049), 2560) << "floor 2048, step 512";
  EXPECT_EQ(round_size(s, 1200), 1536);
  EXPECT_EQ(round_size(s, 16 * kMiB), 16 * kMiB) << "a power of two stays";
  EXPECT_EQ(round_size(s, 17 * kMiB), 20 * kMiB) << "floor 16 MiB, step 4 MiB";
  EXPECT_EQ(round_size(s, 20 * kMiB), 20 * kMiB);
  EXPECT_EQ(round_size(s, 31 * kMiB), 32 * kMiB);
  EXPECT_EQ(round_size(s, 130 * kGiB), 160 * kGiB) << "floor 128 GiB, step 32 GiB";
}

TEST(Rounding, one_division_has_no_effect) {
  EXPECT_EQ(round_size(settings("roundup_power2_divisions:1"), 17 * kMiB), 17 * kMiB);
}

TEST(Rounding, every_size_below_2_mib_uses_the_first_division_and_from_32_gib_the_last) {
  const Settings s = settings("roundup_power2_divisions:[1:2,32768:4]");
  EXPECT_EQ(round_size(s, 5000), 6144) << "2 divisions: floor 4096, step 2048";
  EXPECT_EQ(round_size(s, 3 * kMiB + 1), 3 * kMiB + 512) << "2 MiB has no entry";
  EXPECT_EQ(round_size(s, 33 * kGiB), 40 * kGiB) << "4 divisions: floor 32 GiB, step 8 GiB";
  EXPECT_EQ(round_size(s, 65 * kGiB), 80 * kGiB);
}

TEST(Rounding, rounding_twice_is_rounding_once) {
  for (const char* text :
       {"", "roundup_power2_divisions:2", "roundup_power2_divisions:4", "roundup_power2_divisions:16"}) {
    const Settings s = settings(text);
    for (std::int64_t size = 1; size < 3 * kGiB; size = size * 5 / 4 + 1) {
      const std::int64_t rounded = round_size(s, size);
      EXPECT_GE(rounded, size);
      EXPECT_EQ(rounded % 512, 0) << size;
      EXPECT_EQ(round_size(s, rounded), rounded) << size;
    }
  }
}

}  // namespace
}  // namespace plimsoll::allocator

// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "capture/capture_samples.h"

namespace plimsoll::capture {
namespace {

using testing::HasSubstr;

TEST(ReadCapture, a_small_capture_is_read_whole) {
  const Result<Capture> capture = read_text(small_capture());
  ASSERT_TRUE(capture) << to_string(capture.error());
  EXPECT_EQ(capture->batch, 2);
  EXPECT_EQ(capture->sequence, 8);
  EXPECT_EQ(capture->parameter_elements, 1024);
  ASSERT_EQ(capture->events.size(), 14U);
  const Event& sum = capture->events[8];
  EXPECT_EQ(capture->name_of(sum), "aten.add.Tensor");
  EXPECT_TRUE(sum.by_engine);
  EXPECT_EQ(sum.inputs, 2U);
  EXPECT_EQ(capture->elements_of(capture->inputs_of(sum)[0]), 1024);
  EXPECT_EQ(capture->width_of(capture->inputs_of(sum)[0]), 4);
}

TEST(ReadCapture, cut_at_every_byte_it_is_an_error) {
  const std::string whole = small_capture();
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(read_text(std::string_view{whole}.substr(0, length))) << length;
}

TEST(ReadCapture, with_any_byte_changed_it_is_an_error_or_a_capture) {
  const std::string whole = small_capture();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char c : {'\0', '[', ']', '9', '-', ',', '\n'}) {
      std::string changed = whole;
      changed[i] = c;
      const Result<Capture> capture = read_text(changed);
      if (!capture) continue;
      EXPECT_EQ(capture->events.size(), 14U);
    }
  }
}

struct Wrong {
  std::string_view from;
  std::string_view to;
  std::string_view says;
};

TEST(ReadCapture, the_error_names_the_line_and_what_was_wanted) {
  const std::vector<Wrong> cases = {
      {"[1,2,4096]", "[1,7,4096]", "line 7, column 5: wanted the next storage and its bytes"},
      {"[1,2,4096]", "[1,2,-4]", "wanted the next storage and its bytes"},
      {"[2,2]", "[2,9]", "line 12, column 5: wanted a storage that is alive"},
      {"[2,3]", "[2,2]", "wanted a storage that is alive"},
      {"[3,4]", "[3,40]", "wanted the name of a phase"},
      {"[3,4]", "[7,4]", "wanted [0 to 5"},
      {"[3,4]", "[5,-1]", "wanted the number of a stream"},
      {"\"events\":14", "\"events\":15", "14 events; line 1 says 15"},
      {"\"events\":14", "\"events\":3", "more than the 3 events"},
      {"\"events\":14", "\"events\":99999999999", "wanted at most 20,000,000"},
      {"capture-1", "capture-9", "wanted plimsoll-capture-1"},
      {"[256,4],[4,1]", "[256,4],[4]", "an operation"},
  };
  for (const Wrong& wrong : cases) {
    std::string text = small_capture();
    text.replace(text.find(wrong.from), wrong.from.size(), wrong.to);
    const Result<Capture> capture = read_text(text);
    ASSERT_FALSE(capture) << wrong.to;
    EXPECT_THAT(to_string(capture.error()), HasSubstr(std::string(wrong.says)));
  }
}

TEST(ReadCapture, a_recorded_file_is_recognised_and_other_files_are_not) {
  EXPECT_TRUE(is_capture(data_file("size-2x64.capture")));
  EXPECT_FALSE(is_capture(std::string(PLIMSOLL_SOURCE_DIR) + "/README.md"));
  EXPECT_FALSE(is_capture("no-such-file"));
}

}  // namespace
}  // namespace plimsoll::capture

// SPDX-License-Identifier: Apache-2.0
// Templates that a script fills in with sed before it starts.
#include <gtest/gtest.h>

#include "job/readers/shell.h"

namespace plimsoll::job {
namespace {

// What the script writes into out.json, or "none".
std::string written(const std::string& script) {
  ShellOptions options;
  options.read_file = [](const std::string& path) -> std::optional<std::string> {
    if (path != "template.json") return std::nullopt;
    return "{\"batch\": BATCH, \"stage\": STAGE,\n\"again\": BATCH BATCH}";
  };
  const auto shell = read_shell(script, options);
  if (!shell) return "error: " + shell.error().message;
  const auto found = shell->files.find("out.json");
  return found == shell->files.end() ? "none" : found->second;
}

TEST(Sed, a_template_is_filled_in_through_pipes) {
  EXPECT_EQ(written("B=8\nOUT=out.json\nsed \"s/BATCH/${B}/\" template.json | sed 's/STAGE/1/' > $OUT"),
            "{\"batch\": 8, \"stage\": 1,\n\"again\": 8 BATCH}");
  EXPECT_EQ(written("sed -e 's|BATCH|8|g' -e 's|STAGE|1|' template.json > out.json"),
            "{\"batch\": 8, \"stage\": 1,\n\"again\": 8 8}");
}

TEST(Sed, what_is_not_known_or_more_than_words_is_not_guessed) {
  EXPECT_EQ(written("sed \"s/BATCH/$NOBODY_SETS/\" template.json > out.json"), "none");
  EXPECT_EQ(written("sed 's/B.*H/8/' template.json > out.json"), "none");
  EXPECT_EQ(written("sed -i 's/BATCH/8/' template.json"), "none");
  EXPECT_EQ(written("sed 's/BATCH/8/' other.json > out.json"), "none");
  EXPECT_EQ(written("sed 's/BATCH/8/' template.json | grep x | sed 's/STAGE/1/' > out.json"), "none");
}

}  // namespace
}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
#include "cluster/cublas_workspace.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace plimsoll::cluster {
namespace {

constexpr std::int64_t kSmall = 8 * kMiB + 128 * kKiB;
constexpr std::int64_t kLarge = 32 * kMiB;

TEST(CublasWorkspace, hopper_has_a_large_one_in_every_release) {
  for (const Version torch : {Version{2, 6}, Version{2, 11}, Version{2, 12}})
    EXPECT_EQ(cublas_workspace(Architecture::kHopper, "", torch), kLarge);
}

TEST(CublasWorkspace, blackwell_has_it_from_torch_2_12_on) {
  EXPECT_EQ(cublas_workspace(Architecture::kBlackwell, "", Version{2, 11}), kSmall);
  EXPECT_EQ(cublas_workspace(Architecture::kBlackwell, "", Version{2, 12}), kLarge);
  EXPECT_EQ(cublas_workspace(Architecture::kBlackwell, "", {}), kLarge) << "the newest where none is named";
}

TEST(CublasWorkspace, older_parts_have_a_small_one) {
  for (const Architecture part : {Architecture::kAmpere, Architecture::kAda, Architecture::kTuring})
    EXPECT_EQ(cublas_workspace(part, "", Version{2, 12}), kSmall);
}

TEST(CublasWorkspace, the_variable_overrules_all) {
  EXPECT_EQ(cublas_workspace(Architecture::kAmpere, ":4096:8", {}), kLarge);
  EXPECT_EQ(cublas_workspace(Architecture::kHopper, ":16:8", {}), 128 * kKiB);
  EXPECT_EQ(cublas_workspace(Architecture::kHopper, ":4096:2:16:8", {}), kSmall);
}

TEST(CublasWorkspace, a_variable_that_torch_cannot_parse_changes_nothing) {
  for (const char* bad : {"4096:8", ":4096", ":4096:8:", ":x:8", ":-1:8", ":4096:99999999", "::", ":1000000:1000000"})
    EXPECT_EQ(cublas_workspace(Architecture::kAmpere, bad, {}), kSmall) << bad;
}

}  // namespace
}  // namespace plimsoll::cluster

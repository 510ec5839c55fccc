// SPDX-License-Identifier: Apache-2.0
// What srun keeps from the program: --export of srun and sbatch, SLURM_EXPORT_ENV.
#include "job/readers/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::job {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr const char* kExports = "export A=1\nexport B=2\n";

std::vector<std::string> lost_in(const std::string& text) { return pass_on(text).lost; }

TEST(Slurm, everything_is_passed_on_by_default) {
  EXPECT_THAT(lost_in(std::string(kExports) + "srun python train.py"), IsEmpty());
  EXPECT_THAT(lost_in(std::string(kExports) + "srun --export=ALL python train.py"), IsEmpty());
  EXPECT_THAT(lost_in(std::string("#SBATCH --export=NONE\n") + kExports + "torchrun train.py"), IsEmpty())
      << "the script itself runs torchrun";
}

TEST(Slurm, none_keeps_what_the_script_exports_from_the_program) {
  EXPECT_THAT(lost_in(std::string(kExports) + "srun --export=NONE python train.py"), ElementsAre("A", "B"));
  EXPECT_THAT(lost_in(std::string(kExports) + "srun -N 2 \\\n --export NONE \\\n python train.py"),
              ElementsAre("A", "B"));
}

TEST(Slurm, a_list_passes_on_what_it_names) {
  const PassedOn passed = pass_on(std::string(kExports) + "srun --export=A,C=3 python train.py");
  EXPECT_THAT(passed.lost, ElementsAre("B"));
  EXPECT_THAT(passed.environment, ElementsAre(Pair("A", "1"), Pair("C", "3")));
  EXPECT_THAT(lost_in(std::string(kExports) + "srun --export=ALL,A=5 python train.py"), IsEmpty());
}

TEST(Slurm, the_option_of_the_batch_script_reaches_srun_unless_it_is_unset) {
  const std::string batch = std::string("#!/bin/bash\n#SBATCH --export=NONE\n") + kExports;
  EXPECT_THAT(lost_in(batch + "srun python train.py"), ElementsAre("A", "B"));
  EXPECT_THAT(lost_in(batch + "unset SLURM_EXPORT_ENV\nsrun python train.py"), IsEmpty());
  EXPECT_THAT(lost_in(batch + "export SLURM_EXPORT_ENV=ALL\nsrun python train.py"), IsEmpty());
  EXPECT_THAT(lost_in(batch + "srun --export=ALL python train.py"), IsEmpty());
}

TEST(Slurm, a_shell_between_srun_and_the_program_is_not_judged) {
  EXPECT_THAT(lost_in("srun --export=NONE bash -c 'export A=1; python train.py'"), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::job

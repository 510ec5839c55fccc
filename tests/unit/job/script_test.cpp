// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "job/readers/shell.h"
#include "job/readers/shell_arithmetic.h"
#include "support.h"

namespace plimsoll::job {
namespace {

using test::on;
using test::read_text;
using test::text_of;

// The words of the last command, joined by '|'; unknown parts as <name>.
std::string last(const std::string& script) {
  const auto shell = read_shell(script);
  if (!shell) return "error: " + shell.error().message;
  if (shell->commands.empty()) return "";
  std::string text;
  for (const ShellWord& word : shell->commands.back().words) {
    if (!text.empty()) text += "|";
    text += word.text;
    for (const std::string& unknown : word.unknown) text += "<" + unknown + ">";
  }
  return text;
}

TEST(Shell, words_are_split_quoted_and_continued) {
  EXPECT_EQ(last("run a 'b c' \"d e\" f\\ g"), "run|a|b c|d e|f g");
  EXPECT_EQ(last("run a \\\n  b \\\n c # comment\n"), "run|a|b|c");
  EXPECT_EQ(last("run a;run b"), "run|b");
  EXPECT_EQ(last("run a 2>&1 | tee log.txt"), "tee|log.txt");
  EXPECT_EQ(last("run a > out.txt 2>/dev/null"), "run|a");
  EXPECT_EQ(last("cat <<EOF\nrun --a 1\nEOF\nrun b"), "run|b");
}

TEST(Shell, variables_and_defaults_expand) {
  EXPECT_EQ(last("A=1\nrun $A ${A} \"x$A\" ${B:-2} ${B-3} ${A:+set}"), "run|1|1|x1|2|3|set");
  EXPECT_EQ(last("A='b c'\nrun $A \"$A\""), "run|b|c|b c");
  EXPECT_EQ(last("A=\nrun $A end ${A:-5}"), "run|end|5");
  EXPECT_EQ(last("A=4\nB=$((A*2 + 1))\nrun $B $(($A%3))"), "run|9|1");
  EXPECT_EQ(last("A=x\nA+=y\nrun $A"), "run|xy");
}

TEST(Shell, arrays_expand_to_their_words) {
  EXPECT_EQ(last("A=(\n  --x 1 # one\n  --y \"2 3\"\n)\nrun ${A[@]} \"${A[@]}\""), "run|--x|1|--y|2 3|--x|1|--y|2 3");
  EXPECT_EQ(last("A=(1)\nA+=(2 3)\nrun ${A[@]}"), "run|1|2|3");
}

TEST(Shell, what_the_script_does_not_say_is_named) {
  EXPECT_EQ(
      last("run $A ${B} $1 $(date) `date` ${C%x}"),
      "run|<A>|<B>|<$1 of the script>|<the output of a command>|<the output of a command>|<C (edited by ${C%x})>");
}

TEST(Shell, a_variable_that_a_branch_sets_is_not_known) {
  EXPECT_EQ(last("A=1\nif [ -n \"$X\" ]; then\n  A=2\nfi\nrun $A"), "run|<A (set inside a condition)>");
  EXPECT_EQ(last("A=1\n[ -z \"$X\" ] && A=2\nrun $A"), "run|<A (set inside a condition)>");
  EXPECT_EQ(last("case $X in\n  a) A=1 ;;\n  b) A=2 ;;\nesac\nrun $A"), "run|<A (set inside a condition)>");
  EXPECT_EQ(last("f() {\n A=1\n}\nrun $A"), "run|<A (set inside a condition)>");
  EXPECT_EQ(last("A=1\nif true; then A=1; fi\nrun $A"), "run|1");
  EXPECT_EQ(last("A=(1)\nif true; then A+=(2); fi\nrun ${A[@]}"), "run|1|<A (extended inside a condition)>");
}

TEST(Shell, unclosed_quotes_and_brackets_are_errors) {
  for (const char* script : {"run 'a", "run \"a", "A=(1 2", "run ${A", "run $(date", "run \"${A\"", "A=(1 (2))"})
    EXPECT_EQ(last(script).substr(0, 6), "error:") << script;
}

TEST(Shell, variables_that_double_each_other_do_not_fill_memory) {
  std::string script = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 100; ++i) script += "A=$A$A\n";
  EXPECT_FALSE(read_shell(script + "run $A"));
  std::string arrays = "A=(x x)\n";
  for (int i = 0; i < 100; ++i) arrays += "A=(${A[@]} ${A[@]})\n";
  EXPECT_FALSE(read_shell(arrays + "run ${A[@]}"));
  std::string appends = "A=x\n";
  for (int i = 0; i < 100; ++i) appends += "A+=$A\n";
  EXPECT_NE(last(appends + "run $A").find("too long"), std::string::npos);
}

TEST(Shell, exports_become_the_environment) {
  const auto shell = read_shell("export A=1\nB=2\nexport B\nexport C=$D\nE=5 run x\n");

  ASSERT_TRUE(shell);
  EXPECT_EQ(shell->environment, (std::map<std::string, std::string>{{"A", "1"}, {"B", "2"}, {"E", "5"}}));
}

TEST(Arithmetic, integers_only_and_never_overflow) {
  EXPECT_EQ(evaluate_arithmetic("2 * (3 + 4) - 10 / 3 % 2"), 13);
  EXPECT_EQ(evaluate_arithmetic("-5"), -5);
  for (const char* text : {"", "1 +", "1 / 0", "9223372036854775807 + 1", "9223372036854775807 * 2", "x", "(1", "1 2",
                           "-9223372036854775808 / -1"})
    EXPECT_EQ(evaluate_arithmetic(text), std::nullopt) << text;
  EXPECT_EQ(evaluate_arithmetic(std::string(10'000, '(')), std::nullopt);
  EXPECT_EQ(evaluate_arithmetic(std::string(10'000, '-')), std::nullopt);
}

TEST(MegatronScript, a_launch_script_is_read_whole) {
  const auto job = test::read({"launch.sh"}, on("h100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 16);
  EXPECT_EQ(job->model.hidden, 4096);
  EXPECT_EQ(job->model.layer(0).ffn.width, 11008);
  EXPECT_EQ(job->model.vocab, 32001);
  EXPECT_EQ(job->parallel.tensor, 2);
  EXPECT_TRUE(job->parallel.sequence_parallel);
  EXPECT_EQ(job->micro_batches, 64);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
  EXPECT_EQ(job->environment.at("PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True");
  EXPECT_TRUE(job->warnings.empty()) << job->warnings.front();
}

constexpr const char* kFlags =
    "--num-layers 2 --hidden-size 64 --num-attention-heads 8 --vocab-size 100 --seq-length 16 "
    "--max-position-embeddings 16 --micro-batch-size 1 ";

TEST(MegatronScript, bare_flags_are_enough) {
  const auto job =
      read_text(std::string(kFlags) + "--bf16 --recompute-modules core_attn mlp --recompute-granularity=selective",
                on("h100", 1));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(job->recompute.modules.core_attn && job->recompute.modules.mlp);
  EXPECT_EQ(job->precision.params, DType::kBf16);
}

TEST(MegatronScript, slurm_gives_the_gpus_where_torchrun_does_not) {
  auto job = read_text(
      std::string("#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gres=gpu:a100:8\nsrun python pretrain_gpt.py ") + kFlags,
      on("a100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 32);

  job = read_text(
      std::string("#!/bin/bash\nsrun -N 2 --ntasks-per-node=4 bash -c \"python pretrain_gpt.py ") + kFlags + "\"\n",
      on("a100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 8);
}

TEST(MegatronScript, unresolved_variables_matter_only_where_memory_does) {
  auto job =
      read_text(std::string("#!/bin/bash\npython pretrain_gpt.py ") + kFlags + "--save $DIR --lr $LR", on("a100", 1));
  ASSERT_TRUE(job) << text_of(job);

  const std::string script = std::string("#!/bin/bash\npython pretrain_gpt.py ") + kFlags + "--ffn-hidden-size $FFN";
  job = read_text(script, on("a100", 1));
  EXPECT_NE(text_of(job).find("its value needs FFN, which the script does not set"), std::string::npos) << text_of(job);

  job = read_text(script, on("a100", 1, {{"ffn-hidden-size", "128"}}));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.layer(0).ffn.width, 128);

  job = read_text(std::string("#!/bin/bash\npython pretrain_gpt.py ") + kFlags + "--bf16 $EXTRA_ARGS", on("a100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(test::warns(*job, "EXTRA_ARGS: not set in the script"));
}

TEST(MegatronScript, mistakes_are_named) {
  struct Case {
    std::string text;
    const char* message;
  };
  const std::string run = "#!/bin/bash\npython pretrain_gpt.py ";
  for (const Case& c : {Case{"#!/bin/bash\necho hello\n", "no command with Megatron-LM flags"},
                        Case{run + "--num-layer 3 --bf16\n", "did you mean 'num_layers'?"},
                        Case{run + kFlags + "\n" + run.substr(12) + kFlags, "not the only training command"},
                        Case{"#!/bin/bash\npython pretrain_t5.py --bf16\n", "encoder"},
                        Case{run + "--num-layers twelve\n", "wanted an integer"},
                        Case{run + "--num-layers 'unclosed\n", "is not closed"}}) {
    const auto job = read_text(c.text, on("a100", 1));
    EXPECT_NE(text_of(job).find(c.message), std::string::npos) << c.text << " gave: " << text_of(job);
  }
}

}  // namespace
}  // namespace plimsoll::job

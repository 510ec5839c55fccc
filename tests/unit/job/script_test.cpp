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
  EXPECT_EQ(last("run a 2>&1 | tee log.txt"), "run|a");  // what only shows text is no command here
  EXPECT_EQ(last("run a > out.txt 2>/dev/null"), "run|a");
  EXPECT_EQ(last("cat <<EOF\nrun --a 1\nEOF\nrun b"), "run|b");
}

TEST(Shell, values_to_fill_in_are_words) {
  EXPECT_EQ(last("run --out <OUT-DIR> \\\n --model <PATH-TO-X> --n 4"),
            "run|--out|<OUT-DIR>|--model|<PATH-TO-X>|--n|4");
  EXPECT_EQ(last("run a < in > out b"), "run|a|b");
}

TEST(Shell, arithmetic_in_square_brackets_is_that_of_old_scripts) {
  EXPECT_EQ(last("A=128\nB=$[$A/(2*8*2)]\nrun $B \"n$[B + 1]\""), "run|4|n5");
  EXPECT_EQ(last("run \"^a$[0\" b$[1"), "run|^a$[0|b$[1");  // not closed: text
}

TEST(Shell, scripts_that_the_script_writes_are_followed) {
  EXPECT_EQ(last("C=$(cat <<EOM\nrun --a 1 \\\n  \\$B\nEOM\n)\necho \"$C\" > w.sh\nB=2\nsrun bash w.sh"),
            "srun|bash|run|--a|1|<B>");  // B is not exported
  EXPECT_EQ(last("cat <<'EOF' > w.sh\nrun $1 $B\nEOF\nexport B=2\nbash -x w.sh 7"), "bash|-x|run|7|2");
  EXPECT_EQ(last("cat <<'EOF' > w.sh\nA=9\nexit 0\nEOF\nA=1\nbash w.sh\nrun $A"), "run|1");
  EXPECT_EQ(last("bash other.sh 1"), "bash|other.sh|1");  // it lies elsewhere
}

TEST(Shell, other_scripts_are_followed_where_that_is_asked_for) {
  ShellOptions options;
  options.read_file = [](const std::string& path) -> std::optional<std::string> {
    return path == "other.sh" ? std::optional<std::string>("run --n $1") : std::nullopt;
  };
  EXPECT_EQ(read_shell("bash other.sh 3", options)->commands.back().words.front().text, "bash");
  options.follows_scripts = true;
  const auto shell = read_shell("bash other.sh 3", options);
  ASSERT_TRUE(shell);
  EXPECT_EQ(shell->commands.back().words.back().text, "3");
  EXPECT_EQ(shell->commands.back().words.size(), 4U);  // bash run --n 3
}

TEST(Shell, variables_and_defaults_expand) {
  EXPECT_EQ(last("A=1\nrun $A ${A} \"x$A\" ${B:-2} ${B-3} ${A:+set}"), "run|1|1|x1|2|3|set");
  EXPECT_EQ(last("A='b c'\nrun $A \"$A\""), "run|b|c|b c");
  EXPECT_EQ(last("A=\nrun $A end ${A:-5}"), "run|end|5");
  EXPECT_EQ(last("A=4\nB=$((A*2 + 1))\nrun $B $(($A%3))"), "run|9|1");
  EXPECT_EQ(last("A=x\nA+=y\nrun $A"), "run|xy");
}

TEST(Shell, arrays_expand_to_their_words) {
  EXPECT_EQ(last("A=(\n  --x 1 # one\n  --y \"2 3\"\n)\nrun ${A[@]} \"${A[@]}\""), "run|--x|1|--y|2|3|--x|1|--y|2 3");
  EXPECT_EQ(last("A=(1)\nA+=(2 3)\nrun ${A[@]}"), "run|1|2|3");
}

TEST(Shell, what_the_script_does_not_say_is_named) {
  EXPECT_EQ(
      last("run $A ${B} $1 $(date) `date` ${C%x}"),
      "run|<A>|<B>|<$1 of the script>|<the output of a command>|<the output of a command>|<C (edited by ${C%x})>");
}

TEST(Shell, a_variable_that_branches_leave_different_is_not_known) {
  EXPECT_EQ(last("A=1\nif nvidia-smi; then\n  A=2\nfi\nrun $A"), "run|<A (set inside a condition)>");
  EXPECT_EQ(last("A=1\nif nvidia-smi; then\n  A=2\nelse\n  A=2\nfi\nrun $A"), "run|2");
  EXPECT_EQ(last("A=(1)\nif nvidia-smi; then A+=(2); fi\nrun ${A[@]}"), "run|1|<A (extended inside a condition)>");
  EXPECT_EQ(last("B=$(date)\ncase $B in\n  a) A=1 ;;\n  b) A=2 ;;\nesac\nrun $A"), "run|<A (set inside a condition)>");
  EXPECT_EQ(last("for i in $(ls); do A=$i; done\nrun $A"), "run|<A (set inside a condition)>");
}

TEST(Shell, conditions_that_the_script_decides_are_followed) {
  EXPECT_EQ(last("A=1\nif [ $A = 1 ]; then B=yes; else B=no; fi\nrun $B"), "run|yes");
  EXPECT_EQ(last("A=8\nif [[ $A -gt 4 && $A != 9 ]]; then B=big; fi\nrun $B"), "run|big");
  EXPECT_EQ(last("A=x\nif [ $A = y ]; then B=1; elif [ $A = x ]; then B=2; else B=3; fi\nrun $B"), "run|2");
  EXPECT_EQ(last("M=llama-7b\ncase $M in\n  gpt*) B=1 ;;\n  llama-*|opt) B=2 ;;\n  *) B=3 ;;\nesac\nrun $B"), "run|2");
  EXPECT_EQ(last("A=(1)\nif true; then A+=(2); fi\nrun ${A[@]}"), "run|1|2");
  EXPECT_EQ(last("[ -z \"$X\" ] && A=2\nrun $A"), "run|2");
  EXPECT_EQ(last("if (( 2 * 3 > 5 )); then A=1; fi\nrun $A"),
            "run|<A (set inside a condition)>");  // comparisons in arithmetic are not worked out
  EXPECT_EQ(last("false && A=1\nfalse || B=2\nrun ${A:-x} $B"), "run|x|2");
}

TEST(Shell, loops_functions_and_arguments_are_followed) {
  EXPECT_EQ(last("A=\nfor i in 1 2 3; do A+=$i; done\nrun $A"), "run|123");
  EXPECT_EQ(last("go() {\n run --n $1 ${2:-7}\n}\ngo 4"), "run|--n|4|7");
  EXPECT_EQ(last("function go { A=1; return; A=2; }\ngo\nrun $A"), "run|1");
  EXPECT_EQ(last("set -- a b c\nshift\nrun $1 $# $@"), "run|b|2|b|c");
  ShellOptions options;
  options.arguments = {"N=3", "x", "y z"};
  const auto shell = read_shell("run $N $1 \"$2\" $3", options);
  ASSERT_TRUE(shell);
  ASSERT_EQ(shell->commands.front().words.size(), 4U);
  EXPECT_EQ(shell->commands.front().words[3].text, "y z");
}

TEST(Shell, a_script_that_is_started_without_arguments_takes_its_defaults) {
  const auto shell = read_shell("STAGE=$2\nif [ \"$STAGE\" == \"\" ]; then\n  STAGE=3\nfi\nrun $STAGE");
  ASSERT_TRUE(shell);
  EXPECT_EQ(shell->commands.front().words[1].text, "3");
  EXPECT_EQ(shell->assumed_unset, std::vector<std::string>{"$2"});
}

TEST(Shell, variables_are_edited) {
  EXPECT_EQ(last("A=/x/y/model.tar.gz\nrun ${A##*/} ${A%/*} ${A%%.*} ${A%.gz} ${#A}"),
            "run|model.tar.gz|/x/y|/x/y/model|/x/y/model.tar|17");
  EXPECT_EQ(last("A=a-b-c\nrun ${A/-/+} ${A//-/} ${A^^} ${A:2:1}"), "run|a+b-c|abc|A-B-C|b");
  EXPECT_EQ(last("A=(x y z)\nrun ${A[1]} ${#A[@]} ${A[-1]}"), "run|y|3|z");
  EXPECT_EQ(last("declare -A M\nM[7b]=32\nM[70b]=80\nS=70b\nrun ${M[$S]}"), "run|80");
  EXPECT_EQ(last("A=B\nB=5\nrun ${!A} $(basename /a/b.sh .sh) $(echo \"2 * 8\" | bc)"), "run|5|b|16");
}

TEST(Shell, a_text_that_is_run_as_a_script_keeps_what_is_unknown_in_its_place) {
  EXPECT_EQ(last("CMD=\"run --a $A --b 2\"\neval $CMD"), "run|--a|<A>|--b|2");
  EXPECT_EQ(last("srun -N 2 bash -c \"cd x && run --a $(date) --b 2\""),
            "srun|-N|2|bash|run|--a|<the output of a command>|--b|2");
}

TEST(Shell, sourced_files_are_read_and_missing_ones_noted) {
  ShellOptions options;
  options.read_file = [](const std::string& path) -> std::optional<std::string> {
    return path == "env.sh" ? std::optional<std::string>("A=1\n") : std::nullopt;
  };
  const auto shell = read_shell("source env.sh\n. gone.sh\nrun $A", options);
  ASSERT_TRUE(shell);
  EXPECT_EQ(shell->commands.front().words[1].text, "1");
  ASSERT_EQ(shell->notes.size(), 1U);
  EXPECT_NE(shell->notes.front().find("source gone.sh: not found"), std::string::npos);
}

TEST(Shell, a_here_document_with_a_target_is_a_file) {
  const auto shell =
      read_shell("S=2\ncat <<EOT > $S.json\n{\"stage\": $S, \"name\": \"x\"}\nEOT\ncat > q <<'E'\n$S\nE\nrun");
  ASSERT_TRUE(shell);
  EXPECT_EQ(shell->files.at("2.json"), "{\"stage\": 2, \"name\": \"x\"}\n");
  EXPECT_EQ(shell->files.at("q"), "$S\n");
}

TEST(Shell, blocks_that_are_not_closed_are_errors) {
  for (const char* script :
       {"if true; then run", "for i in 1; do run", "while true; do", "case x in a) run ;;", "f() {\nrun", "{ run",
        "( run", "[[ a", "fi", "run (", "((1", "case", "for", "function", "esac", "a ||| b"})
    EXPECT_EQ(last(script).substr(0, 6), "error:") << script;
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
  EXPECT_FALSE(read_shell(appends + "run $A"));
  std::string commands = "A=" + std::string(100'000, 'x') + "\n";
  for (int i = 0; i < 1000; ++i) commands += "run $A\n";
  EXPECT_FALSE(read_shell(commands));
  EXPECT_FALSE(read_shell("f() { f; f; }\nf"));
  EXPECT_FALSE(read_shell(
      "for a in 1 2 3 4 5 6 7 8; do for b in 1 2 3 4 5 6 7 8; do for c in 1 2 3 4 5 6 7 8; do for d in 1 2 3 "
      "4 5 6 7 8; do for e in 1 2 3 4 5 6 7 8; do run; done; done; done; done; done"));
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
                        Case{run + kFlags + "\n" + run.substr(12) + kFlags + "--bf16", "not the only training command"},
                        Case{run + "--num-layers twelve\n", "wanted an integer"},
                        Case{run + "--num-layers 'unclosed\n", "is not closed"}}) {
    const auto job = read_text(c.text, on("a100", 1));
    EXPECT_NE(text_of(job).find(c.message), std::string::npos) << c.text << " gave: " << text_of(job);
  }
}

}  // namespace
}  // namespace plimsoll::job

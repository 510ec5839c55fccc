// SPDX-License-Identifier: Apache-2.0
// Configurations that are written in Python: what their names hold is worked out, nothing is run.
#include "job/readers/python_module.h"

#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::job {
namespace {

using test::on;
using test::text_of;

// The module as one line of JSON.
std::string values(std::string_view text) {
  const auto root = read_python_module(text);
  return root ? document::to_json(*root) : "error: " + root.error().message;
}

TEST(PythonModule, literals_and_what_is_made_of_them) {
  EXPECT_EQ(values("a = 2 ** 10\nb = a // 3\nc = 8 / 4\nd = -a + 1_000"), R"({"a":1024,"b":341,"c":2,"d":-24})");
  EXPECT_EQ(values("a = 'x' \"y\"\nb = f\"{a}-z\"\nc = a + '/c'"), R"({"a":"xy","b":"xy-z","c":"xy/c"})");
  EXPECT_EQ(values("a = [1, 'b', None]\nb = a[1]\nc = {'k': True}\nd = c['k']"),
            R"({"a":[1,"b",null],"b":"b","c":{"k":true},"d":true})");
  EXPECT_EQ(values("a = (1, 2)\nb = 1 if a else 2\nc = not a\nd = 3 > 2 and 'x'"),
            R"({"a":[1,2],"b":1,"c":false,"d":"x"})");
  EXPECT_EQ(values("a = int(7 / 2)\nb = max(a, 9)\nc = 4\nc *= 2"), R"({"a":3,"b":9,"c":8})");
}

TEST(PythonModule, dict_is_a_table_and_a_class_its_name) {
  EXPECT_EQ(values("r = 8\nm = dict(type=Lora, r=r, inner=dict(dtype=torch.float16))"),
            R"({"r":8,"m":{"type":"Lora","r":8,"inner":{"dtype":"torch.float16"}}})");
  EXPECT_EQ(values("a = dict(x=1)\nb = dict(**a, y=2)"), R"({"a":{"x":1},"b":{"x":1,"y":2}})");
  EXPECT_EQ(values("p = os.path.join('a', 'b')"), R"({"p":{"_target_":"os.path.join","_args_":["a","b"]}})");
}

TEST(PythonModule, branches_that_the_file_decides_are_followed) {
  EXPECT_EQ(values("a = 0\nif a:\n    b = 1\nelif a == 0:\n    b = 2\nelse:\n    b = 3\n"), R"({"a":0,"b":2})");
  EXPECT_NE(values("if is_big():\n    b = 1\nelse:\n    b = 2\n").find("decided by a branch"), std::string::npos);
  EXPECT_EQ(values("def f(x):\n    y = 1\n\nclass A:\n    z = 2\n\na = 1"), R"({"a":1})");
}

TEST(PythonModule, what_is_more_than_that_stays_text) {
  EXPECT_EQ(values("a = [x for x in y]\nb = 1"), R"({"a":"[x for x in y]","b":1})");
  EXPECT_EQ(values("a = lambda x: x\n"), R"({"a":"lambda x: x"})");
  EXPECT_EQ(values("s = 'x'\na = s.upper\n"), R"({"s":"x","a":"s.upper"})");
}

// Copies of copies, lists of lists and nests that grow from line to line.
TEST(PythonModule, a_hostile_file_ends_soon) {
  std::string doubles = "a = [1, 2, 3, 4]\n";
  std::string nests = "a = 1\n";
  std::string texts = "a = 'abcdefgh'\n";
  for (int i = 0; i < 200; ++i) {
    doubles += "a = [a, a]\n";
    nests += "a = [a]\n";
    texts += "a = a + a\n";
  }
  for (const std::string& text : {doubles, nests, texts, std::string("a = [[0] * 10000] * 10000"),
                                  "a = " + std::string(5000, '('), "a = " + std::string(5000, '-') + "1"})
    EXPECT_LT(values(text).size(), 40'000'000U);
}

TEST(PythonConfig, xtuner_is_read_through_its_sections) {
  const auto job = test::read({"xtuner.py"}, on("a100", 8));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "llama3.2-1b");
  EXPECT_EQ(job->batch.seq_length, 2048);
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->batch.accumulation, 4);
  EXPECT_EQ(job->adapter.rank, 64);
  EXPECT_TRUE(job->adapter.quantized_base);
  EXPECT_TRUE(job->adapter.prepared_for_kbit);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
}

TEST(PythonConfig, xtuners_projector_is_trained_between_a_tower_and_a_frozen_model) {
  const std::string text =
      "from transformers import AutoModelForCausalLM, CLIPVisionModel\n"
      "from xtuner.model import LLaVAModel\n"
      "max_length = int(2048 - (336 / 14)**2)\n"
      "model = dict(type=LLaVAModel, freeze_llm=True, freeze_visual_encoder=True,\n"
      "    llm=dict(type=AutoModelForCausalLM.from_pretrained, pretrained_model_name_or_path='Qwen/Qwen2-0.5B'),\n"
      "    visual_encoder=dict(type=CLIPVisionModel.from_pretrained,\n"
      "        pretrained_model_name_or_path='openai/clip-vit-large-patch14-336'))\n"
      "train_dataloader = dict(batch_size=4, num_workers=0, dataset=dict(type='LLaVADataset', max_length=max_length))\n"
      "optim_wrapper = dict(type='AmpOptimWrapper', optimizer=dict(type='AdamW', lr=1e-3), dtype='float16')\n";
  const auto job = test::read_text(text, on("a100", 8));

  ASSERT_TRUE(job) << text_of(job);
  ASSERT_NE(job->model.vision, nullptr);
  EXPECT_TRUE(job->batch.images.freeze_tower);
  EXPECT_TRUE(job->batch.images.freeze_language);
  EXPECT_FALSE(job->batch.images.freeze_projector);
  EXPECT_EQ(job->batch.seq_length, 2048 - 1);  // the image stands for one token of the text's 1472
}

TEST(PythonConfig, internevo_is_read_as_megatrons_layers) {
  const auto job = test::read({"internevo.py"}, on("a100", 8));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.kinds.front().ffn.width, 5632);  // 8/3 of 2048, rounded up to 256
  EXPECT_EQ(job->parallel.tensor, 2);
  EXPECT_TRUE(job->parallel.sequence_parallel);
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->batch.accumulation, 4);
}

TEST(PythonConfig, weights_that_internevo_gathers_are_refused) {
  std::string text = test::data_file("internevo.py").text;
  text.replace(text.find("msp"), 3, "isp");
  const auto job = test::read_text(text, on("a100", 8));
  EXPECT_NE(text_of(job).find("isp"), std::string::npos) << text_of(job);
}

TEST(Manifest, replicas_add_up_and_their_environment_is_put_in) {
  const auto job = test::read({"manifest.yaml"}, on("h100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "llama3.2-1b");
  EXPECT_EQ(job->cluster.gpus, 32);
  EXPECT_EQ(job->batch.micro_batch, 2);
}

TEST(Manifest, a_shells_text_is_the_script) {
  const auto job = test::read_text(
      "apiVersion: batch/v1\nkind: Job\nspec:\n  parallelism: 2\n  template:\n    spec:\n      containers:\n"
      "      - command: [/bin/bash, -c]\n        args:\n        - |\n          set -e\n"
      "          torchrun --nnodes=2 --nproc_per_node=4 t.py --model_name_or_path qwen2.5-7b --max_length 1024 \\\n"
      "            --per_device_train_batch_size 1 --bf16 true --output_dir o\n"
      "        resources: {limits: {nvidia.com/gpu: 4}}\n",
      on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 8);
}

TEST(Manifest, what_starts_no_training_says_so) {
  const std::string start = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: x\n";
  EXPECT_NE(text_of(test::read_text(start + "    command: [sleep, '9']\n", on("h100"))).find("no container"),
            std::string::npos);
  EXPECT_NE(text_of(test::read_text(start + "    command: {{ .Values.command }}\n", on("h100"))).find("template"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll::job

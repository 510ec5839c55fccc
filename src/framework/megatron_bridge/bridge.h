// SPDX-License-Identifier: Apache-2.0
// What Bridge's two forms, YAML and cfg.x = y lines, have in common: the tree of its ConfigContainer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "job/draft.h"
#include "job/readers/shell.h"

namespace plimsoll::job {

// Reads the sections (model, train, optimizer, ddp, mixed_precision, ...) of a Bridge configuration.
[[nodiscard]] Status read_bridge_tree(const document::Node& root, Draft& draft);

// Recipes: the name behind --model and --mode of its launcher, and what a recipe sets by path
// ("model.seq_length"); nothing where it is not known.
[[nodiscard]] std::string bridge_recipe_name(std::string_view model, std::string_view mode);
[[nodiscard]] std::vector<std::pair<std::string, document::Node>> bridge_recipe_settings(std::string_view name);

// What a recipe sets, as the tree of a ConfigContainer; its model is named in the draft, its number of GPUs assumed.
[[nodiscard]] Result<document::Node> bridge_recipe(std::string_view name, Draft& draft);

// A recipe (`flavor`) with arguments that stand beside one another, as Primus writes them.
[[nodiscard]] Status read_bridge_recipe(const document::Node& arguments, const std::string& model, Draft& draft);

// run_recipe.py --recipe NAME model.x=y ..., or --model STEM --mode MODE instead of the recipe's whole name.
[[nodiscard]] bool names_bridge_recipe(std::string_view program, const std::vector<ShellWord>& words);
[[nodiscard]] Status read_recipe_command(const std::vector<ShellWord>& words, Draft& draft);
// The shortest name of a recipe that begins so; empty where none does.
[[nodiscard]] std::string shortest_bridge_recipe(std::string_view stem);

// What the harness looks a recipe up by: llama3_8b, pretrain, 8, h100, fp8cs. Nothing where it has none.
struct HarnessWorkload {
  std::string model;
  std::string task;
  std::int64_t gpus = 0;  // 0: not known; the recipe for the most GPUs then
  std::string gpu;
  std::string precision;
};
[[nodiscard]] Result<std::optional<document::Node>> bridge_harness_recipe(const HarnessWorkload& asked, Draft& draft);

// The performance harness: run_script.py -m FAMILY -mr MODEL -g GPU -ng GPUS, with its long or its short flags.
[[nodiscard]] bool names_bridge_harness(const std::vector<ShellWord>& words);
[[nodiscard]] Status read_harness_command(const std::vector<ShellWord>& words, Draft& draft);

[[nodiscard]] const std::vector<Alias>& bridge_aliases();

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
// What Bridge's two forms, YAML and cfg.x = y lines, have in common: the tree of its ConfigContainer.
#pragma once

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

[[nodiscard]] const std::vector<Alias>& bridge_aliases();

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
// Towers for images that a program puts before a language model of its own choice, as LLaVA's and its relatives do:
// the tower by its name, the projector by its kind.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/vision.h"

namespace plimsoll::model {

struct NamedTower {
  std::shared_ptr<const Vision> vision;
  std::string known_as;  // the tower whose sizes are counted
  bool is_known = true;  // false: nobody knows the name, and the usual tower stands for it
};

// By the last part of a hub name or path ("openai/clip-vit-large-patch14-336"). The projector is linear, mlp2x_gelu or
// mlp_downsample; an empty word is mlp2x_gelu.
[[nodiscard]] Result<NamedTower> tower_named(std::string_view name, std::string_view projector,
                                             const Architecture& language);

// Whether the word names a projector that tower_named() knows.
[[nodiscard]] bool is_projector(std::string_view word);

}  // namespace plimsoll::model

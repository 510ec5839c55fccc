// SPDX-License-Identifier: Apache-2.0
// The part of a vision-language model that turns images into tokens of its language model: a tower of layers over
// patches, and a projector that brings their features to the width of the text. Sizes only; what the code of a family
// does with them is in step/transformers/tower*.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/architecture.h"

namespace plimsoll::model {

enum class TowerKind : std::uint8_t {
  kClip,      // class token, table of positions, norm before the layers
  kSiglip,    // table of positions, norm after the layers; Idefics 3 and SmolVLM too
  kInternVl,  // class token, positions as a parameter, outputs of blocks are scaled per channel
  kQwen2Vl,   // images of any size end to end, rotary positions
  kQwen25Vl,  // the same with RMS norms, gated MLPs and windows
  kPixtral,   // images end to end, RMS norms, gated MLPs, rotary positions and a mask between images
  kQwen3Vl,   // the same with a table of positions that is interpolated
  kLlama4,    // class token at the end, positions as a parameter and rotary, norms around the layers
};

enum class Projector : std::uint8_t {
  kMlp,          // linear, activation, linear (LLaVA)
  kMerger,       // norm, merge x merge patches side by side, linear, GELU, linear (Qwen)
  kShuffledMlp,  // merge x merge patches side by side, norm, linear, activation, linear (InternVL)
  kShuffled,     // merge x merge patches side by side, linear (Idefics 3, SmolVLM)
  kUnfolded,     // norm, merge x merge patches side by side, two linears, activation, linear (Mistral 3)
  kPooled,       // average over a square of patches, norm, product (Gemma 3)
  kAdapter,      // merge x merge patches side by side, linear, GELU, linear, GELU, then a linear (Llama 4)
  kLinear,       // one linear (LLaVA's first release)
};

struct Vision {
  Architecture tower;  // hidden, layers, norm; patch_values of one patch; position_rows
  TowerKind kind = TowerKind::kClip;
  Projector projector = Projector::kMlp;
  std::string model_type;         // of the whole file
  std::int64_t image_size = 0;    // pixels of a side that the tower was made for; 0: any
  std::int64_t largest_side = 0;  // of images of any size, where the tower has a limit; 0: none
  std::int64_t patch_size = 0;
  std::int64_t merge = 1;  // patches of a side that become one token
  bool newline = false;    // a learned token at the end of each row of patches (LLaVA-NeXT)
  bool class_token = false;
  bool drops_class_token = false;  // before the projector
  bool patch_bias = false;
  bool projector_bias = true;
  // A program put it before a language model of its own choice: its adapters leave tower and projector out, and the
  // projector is trained beside them.
  bool apart = false;
  Activation projector_activation = Activation::kGelu;
  bool skips_last_layer = false;           // features are those before the last layer, which no gradient reaches
  std::int64_t adapter = 0;                // width inside and behind a kAdapter
  std::int64_t pooling_head = 0;           // parameters of a head that is there and not used (SigLIP)
  std::int64_t window = 0;                 // pixels of a side of a window (Qwen 2.5); 0: none
  std::vector<std::int64_t> whole_layers;  // layers that look beyond their window
  std::vector<std::int64_t> deepstack;     // layers whose features enter the text's first layers (Qwen 3)

  // Patches of all images are one sequence.
  [[nodiscard]] bool joins_images() const {
    return kind == TowerKind::kPixtral || kind == TowerKind::kQwen2Vl || kind == TowerKind::kQwen25Vl ||
           kind == TowerKind::kQwen3Vl;
  }
  // Patches and tokens of an image of so many pixels.
  [[nodiscard]] std::int64_t patches(std::int64_t height, std::int64_t width) const {
    return (height / patch_size) * (width / patch_size);
  }
  [[nodiscard]] std::int64_t tokens(std::int64_t height, std::int64_t width) const {
    return patches(height, width) / (merge * merge);
  }
};

}  // namespace plimsoll::model

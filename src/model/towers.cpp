// SPDX-License-Identifier: Apache-2.0
#include "model/towers.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "document/node.h"
#include "model/hf_vision.h"

namespace plimsoll::model {

namespace {

// vision_config of the towers' own config.json on the Hub, as remembered; tests/unit/model/towers_test.cpp holds their
// parameter counts to the published ones.
struct Sizes {
  std::string_view names;  // parts of a name, separated by blanks, all of which it has; the first row that fits counts
  std::string_view type;
  std::int64_t hidden;
  std::int64_t width;
  std::int64_t depth;
  std::int64_t heads;
  std::int64_t image;
  std::int64_t patch;
  std::string_view more = {};  // members of its own
};

constexpr std::string_view kClip = "clip_vision_model";
constexpr std::string_view kSiglip = "siglip_vision_model";
constexpr std::string_view kIntern = "intern_vit_6b";

constexpr Sizes kTowers[] = {
    {"siglip so400m 384", kSiglip, 1152, 4304, 27, 16, 384, 14},
    {"siglip so400m 448", kSiglip, 1152, 4304, 27, 16, 448, 14},
    {"siglip so400m patch16 512", kSiglip, 1152, 4304, 27, 16, 512, 16},
    {"siglip so400m patch16 256", kSiglip, 1152, 4304, 27, 16, 256, 16},
    {"siglip so400m", kSiglip, 1152, 4304, 27, 16, 224, 14},
    {"siglip large 384", kSiglip, 1024, 4096, 24, 16, 384, 16},
    {"siglip large", kSiglip, 1024, 4096, 24, 16, 256, 16},
    {"siglip base 512", kSiglip, 768, 3072, 12, 12, 512, 16},
    {"siglip base 384", kSiglip, 768, 3072, 12, 12, 384, 16},
    {"siglip base 256", kSiglip, 768, 3072, 12, 12, 256, 16},
    {"siglip base", kSiglip, 768, 3072, 12, 12, 224, 16},
    {"clip vit bigg", kClip, 1664, 8192, 48, 16, 224, 14},
    {"clip vit h 14", kClip, 1280, 5120, 32, 16, 224, 14},
    {"clip vit large 336", kClip, 1024, 4096, 24, 16, 336, 14},
    {"clip vit l 336", kClip, 1024, 4096, 24, 16, 336, 14},
    {"clip vit large", kClip, 1024, 4096, 24, 16, 224, 14},
    {"clip vit l 14", kClip, 1024, 4096, 24, 16, 224, 14},
    {"clip vit base patch16", kClip, 768, 3072, 12, 12, 224, 16},
    {"clip vit base", kClip, 768, 3072, 12, 12, 224, 32},
    {"languagebind image", kClip, 1024, 4096, 24, 16, 224, 14},
    {"internvit 300m", kIntern, 1024, 4096, 24, 16, 448, 14, R"(,"attention_bias":true)"},
    {"internvit 6b 448", kIntern, 3200, 12800, 45, 25, 448, 14, R"(,"norm_type":"rms_norm","use_qk_norm":true)"},
    {"internvit 6b", kIntern, 3200, 12800, 48, 25, 224, 14, R"(,"norm_type":"rms_norm","use_qk_norm":true)"},
};
constexpr std::string_view kUsual = "clip-vit-large-patch14-336";

bool has_all(const std::string& name, std::string_view parts) {
  for (const std::string_view part : split(parts, ' ')) {
    // A letter or a number alone is a word: "l" is not in "clip".
    std::size_t at = name.find(part);
    const auto is_word = [&] {
      const auto inside = [&name](std::size_t i) {
        return i < name.size() && ((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9'));
      };
      return !(at > 0 && inside(at - 1)) && !inside(at + part.size());
    };
    while (at != std::string::npos && part.size() <= 2 && !is_word()) at = name.find(part, at + 1);
    if (at == std::string::npos) return false;
  }
  return true;
}

const Sizes* find_tower(std::string_view name) {
  const std::string word = lower(name);
  for (const Sizes& sizes : kTowers)
    if (has_all(word, sizes.names)) return &sizes;
  return nullptr;
}

struct ProjectorRow {
  std::string_view name;
  Projector projector;
  std::int64_t merge;
};
constexpr ProjectorRow kProjectors[] = {
    {"mlp2x_gelu", Projector::kMlp, 1},
    {"linear", Projector::kLinear, 1},
    {"mlp_downsample", Projector::kShuffledMlp, 2},
    {"mlp_downsample_2x2_fix", Projector::kShuffledMlp, 2},
    {"mlp_downsample_3x3_fix", Projector::kShuffledMlp, 3},
};

}  // namespace

bool is_projector(std::string_view word) {
  return std::any_of(std::begin(kProjectors), std::end(kProjectors),
                     [word](const ProjectorRow& row) { return row.name == word; });
}

Result<NamedTower> tower_named(std::string_view name, std::string_view projector, const Architecture& language) {
  NamedTower result;
  const Sizes* sizes = find_tower(name);
  result.is_known = sizes != nullptr;
  if (sizes == nullptr) sizes = find_tower(kUsual);
  result.known_as = result.is_known ? std::string(name.substr(name.rfind('/') + 1)) : std::string(kUsual);
  const bool is_intern = sizes->type == kIntern;
  const std::string text =
      fmt::format(R"({{"model_type":"{}","vision_config":{{"model_type":"{}","hidden_size":{},"intermediate_size":{},)"
                  R"("num_hidden_layers":{},"num_attention_heads":{},"image_size":{},"patch_size":{}{}}}}})",
                  is_intern ? "internvl" : "llava", sizes->type, sizes->hidden, sizes->width, sizes->depth,
                  sizes->heads, sizes->image, sizes->patch, sizes->more);
  PLIMSOLL_TRY(config, document::parse_json(text));
  PLIMSOLL_TRY(read, read_vision(config, language));
  Vision vision = *read;
  vision.apart = true;
  vision.model_type = result.known_as;
  const ProjectorRow* row = std::find_if(std::begin(kProjectors), std::end(kProjectors),
                                         [projector](const ProjectorRow& one) { return one.name == projector; });
  // InternVL's own projector comes with its tower, unless another is named.
  const bool keeps = is_intern && (projector.empty() || row == std::end(kProjectors));
  if (!keeps) {
    if (row == std::end(kProjectors)) row = kProjectors;
    vision.projector = row->projector;
    vision.merge = row->merge;
    vision.skips_last_layer = true;
  }
  result.vision = std::make_shared<const Vision>(std::move(vision));
  return result;
}

}  // namespace plimsoll::model

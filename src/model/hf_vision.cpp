// SPDX-License-Identifier: Apache-2.0
#include "model/hf_vision.h"

#include <utility>

#include <fmt/format.h>

#include "model/hf_family.h"
#include "model/limits.h"

namespace plimsoll::model {

namespace {

using document::Node;

constexpr std::int64_t kMostPixels = 1 << 16;  // of a side

// A number, or a list of two equal ones: [448, 448].
std::int64_t side(Fields& in, std::string_view key, std::int64_t fallback) {
  if (!in.is_list(key)) return in.size_or(key, kMostPixels, fallback);
  const auto sides = in.integers(key, kMostPixels);
  if (sides && sides->size() == 2 && sides->front() == sides->back() && sides->front() > 0) return sides->front();
  in.fail(fmt::format("{}: wanted one number or two equal ones", key));
  return fallback;
}

struct TowerDefaults {
  std::int64_t hidden;
  std::int64_t width;
  std::int64_t depth;
  std::int64_t heads;
  std::int64_t image;
  std::int64_t patch;
  std::string_view activation;
};

// What every tower says of itself; the defaults are those of the class in Transformers 5.
Draft start_tower(Fields& in, const TowerDefaults& d, Vision& vision) {
  Draft draft;
  draft.model.hidden = in.size_or("embed_dim|hidden_size", limits::kHidden, d.hidden);
  draft.depth = in.size_or("num_hidden_layers|depth", limits::kDepth, d.depth);
  Attention& attention = draft.layer.attention;
  attention.heads = attention.kv_heads = in.size_or("num_attention_heads|num_heads", limits::kHeads, d.heads);
  attention.head_dim = divided_head_dim(in, draft.model.hidden, attention.heads);
  attention.causal = false;
  attention.qkv_bias = attention.out_bias = true;
  draft.layer.ffn.gated = false;
  draft.layer.ffn.bias = true;
  draft.layer.ffn.width = in.size_or("intermediate_size", limits::kWidth, d.width);
  draft.layer.ffn.activation = activation(in, "hidden_act", d.activation);
  draft.model.norm = NormKind::kLayer;
  draft.model.rope = false;
  draft.model.attention_dropout = in.probability("attention_dropout", 0);
  vision.image_size = side(in, "image_size", d.image);
  vision.patch_size = side(in, "patch_size", d.patch);
  const std::int64_t channels = in.size_or("num_channels|in_channels", limits::kWidth, 3);
  draft.model.patch_values = channels * vision.patch_size * vision.patch_size;
  return draft;
}

void set_positions(Fields& in, Architecture& tower, const Vision& vision) {
  if (!in.ok()) return;
  if (vision.image_size % vision.patch_size != 0 && vision.image_size < vision.patch_size)
    return in.fail(fmt::format("an image of {} pixels has no patch of {}", vision.image_size, vision.patch_size));
  tower.position_rows = vision.patches(vision.image_size, vision.image_size) + (vision.class_token ? 1 : 0);
}

Draft read_clip(Fields& in, Vision& vision) {
  vision.kind = TowerKind::kClip;
  Draft draft = start_tower(in, {768, 3072, 12, 12, 224, 32, "quick_gelu"}, vision);
  vision.class_token = true;
  draft.model.embedding_norm = true;
  draft.model.final_norm = true;  // of the pooled token alone
  set_positions(in, draft.model, vision);
  return draft;
}

Draft read_siglip(Fields& in, Vision& vision) {
  vision.kind = TowerKind::kSiglip;
  Draft draft = start_tower(in, {768, 3072, 12, 12, 224, 16, "gelu_pytorch_tanh"}, vision);
  vision.patch_bias = true;
  draft.model.final_norm = true;
  set_positions(in, draft.model, vision);
  if (in.flag("vision_use_head", true)) {
    const std::int64_t h = draft.model.hidden;
    const std::int64_t width = draft.layer.ffn.width;
    vision.pooling_head = h + 4 * h * h + 4 * h + 2 * h + 2 * h * width + width + h;
  }
  return draft;
}

Draft read_idefics(Fields& in, Vision& vision) {
  vision.kind = TowerKind::kSiglip;
  Draft draft = start_tower(in, {1152, 3072, 12, 16, 224, 32, "gelu_pytorch_tanh"}, vision);
  vision.patch_bias = true;
  draft.model.final_norm = true;
  set_positions(in, draft.model, vision);
  return draft;
}

Draft read_internvl(Fields& in, Vision& vision) {
  vision.kind = TowerKind::kInternVl;
  Draft draft = start_tower(in, {1024, 4096, 24, 16, 448, 14, "gelu"}, vision);
  vision.class_token = true;
  vision.patch_bias = true;
  draft.layer.attention.qkv_bias = in.flag("attention_bias", false);
  if (in.text("norm_type", "layer_norm") == "rms_norm") draft.model.norm = NormKind::kRms;
  if (in.flag("use_qk_norm", false)) draft.layer.attention.qk_norm = QkNorm::kFull;
  draft.model.hidden_dropout = in.probability("hidden_dropout_prob", 0);
  draft.model.final_norm = !in.flag("use_mean_pooling", true);
  set_positions(in, draft.model, vision);
  return draft;
}

Draft read_pixtral(Fields& in, Vision& vision) {
  vision.kind = TowerKind::kPixtral;
  Draft draft = start_tower(in, {1024, 4096, 24, 16, 1024, 16, "gelu"}, vision);
  draft.layer.attention.qkv_bias = draft.layer.attention.out_bias = false;
  draft.layer.ffn.gated = true;
  draft.layer.ffn.bias = false;
  draft.model.norm = NormKind::kRms;
  draft.model.rope = true;
  draft.model.embedding_norm = true;
  draft.model.final_norm = false;
  vision.largest_side = std::exchange(vision.image_size, 0);
  return draft;
}

// Positions twice: a parameter that is added, and rotation.
Draft read_llama4_tower(Fields& in, Vision& vision) {
  vision.kind = TowerKind::kLlama4;
  Draft draft = start_tower(in, {768, 5632, 34, 16, 448, 14, "gelu"}, vision);
  vision.class_token = vision.drops_class_token = true;
  draft.model.rope = true;
  draft.model.embedding_norm = true;
  draft.model.final_norm = true;
  set_positions(in, draft.model, vision);
  vision.projector = Projector::kAdapter;
  vision.projector_bias = false;
  vision.merge = static_cast<std::int64_t>(1 / in.positive_or("pixel_shuffle_ratio", 1, 0.5));
  vision.adapter = in.size_or("projector_output_dim", limits::kWidth, 4096);
  const std::int64_t between = in.size_or("projector_input_dim", limits::kWidth, 4096);
  const std::int64_t leaving = in.size_or("vision_output_dim", limits::kWidth, 7680);
  if (in.ok() && (between != vision.adapter || leaving != vision.adapter))
    in.fail(fmt::format("projector_input_dim {}, projector_output_dim {} and vision_output_dim {} differ", between,
                        vision.adapter, leaving));
  return draft;
}

// The three generations share packed projections, rotary positions and the merger.
Draft read_qwen(Fields& in, TowerKind kind, Vision& vision) {
  vision.kind = kind;
  const bool second = kind == TowerKind::kQwen2Vl;
  const bool third = kind == TowerKind::kQwen3Vl;
  const TowerDefaults defaults = second  ? TowerDefaults{1280, 5120, 32, 16, 0, 14, "quick_gelu"}
                                 : third ? TowerDefaults{1152, 4304, 27, 16, 0, 16, "gelu_pytorch_tanh"}
                                         : TowerDefaults{3584, 3420, 32, 16, 0, 14, "silu"};
  // Qwen2-VL's hidden_size is the width of the text.
  Draft draft;
  draft.model.hidden = in.size_or(second ? "embed_dim" : "hidden_size", limits::kHidden, defaults.hidden);
  draft.depth = in.size_or("depth", limits::kDepth, defaults.depth);
  Attention& attention = draft.layer.attention;
  attention.heads = attention.kv_heads = in.size_or("num_heads", limits::kHeads, defaults.heads);
  attention.head_dim = divided_head_dim(in, draft.model.hidden, attention.heads);
  attention.causal = false;
  attention.fused_qkv = attention.qkv_bias = attention.out_bias = true;
  FeedForward& ffn = draft.layer.ffn;
  ffn.bias = true;
  ffn.gated = kind == TowerKind::kQwen25Vl;
  ffn.width = second ? draft.model.hidden * in.size_or("mlp_ratio", 64, 4)
                     : in.size_or("intermediate_size", limits::kWidth, defaults.width);
  ffn.activation = activation(in, "hidden_act", defaults.activation);
  draft.model.norm = kind == TowerKind::kQwen25Vl ? NormKind::kRms : NormKind::kLayer;
  draft.model.rope = true;
  draft.model.final_norm = false;
  vision.patch_size = side(in, "patch_size", defaults.patch);
  vision.merge = in.size_or("spatial_merge_size", 64, 2);
  const std::int64_t frames = in.size_or("temporal_patch_size", 64, 2);
  draft.model.patch_values =
      in.size_or("in_channels", limits::kWidth, 3) * frames * vision.patch_size * vision.patch_size;
  vision.patch_bias = third;
  if (third) draft.model.position_rows = in.size_or("num_position_embeddings", limits::kPositionRows, 2304);
  if (kind == TowerKind::kQwen25Vl) {
    vision.window = in.size_or("window_size", kMostPixels, 112);
    vision.whole_layers =
        in.integers("fullatt_block_indexes", limits::kDepth).value_or(std::vector<std::int64_t>{7, 15, 23, 31});
  }
  if (third)
    vision.deepstack =
        in.integers("deepstack_visual_indexes", limits::kDepth).value_or(std::vector<std::int64_t>{8, 16, 24});
  vision.projector = Projector::kMerger;
  return draft;
}

// Which features of the tower go on, and through what (LLaVA and its relatives).
void read_llava(Fields& outer, Vision& vision) {
  vision.projector = Projector::kMlp;
  vision.projector_bias = outer.flag("multimodal_projector_bias", true);
  vision.projector_activation = activation(outer, "projector_hidden_act", "gelu");
  vision.drops_class_token = vision.class_token && outer.text("vision_feature_select_strategy", "default") == "default";
  if (outer.is_list("vision_feature_layer"))
    return outer.fail("vision_feature_layer: a list of layers is not modelled; wanted one number");
  // Absent is -2: the features before the last layer. The file says -1 for the last.
  vision.skips_last_layer = outer.size_or("vision_feature_layer", -1, -2, -2) == -2;
}

struct TowerRow {
  std::string_view model_type;  // of the whole file
  std::string_view tower_type;  // of its vision_config; empty: any
  Draft (*read)(Fields& in, Vision& vision);
  void (*connect)(Fields& outer, Vision& vision);
};

void connect_gemma(Fields& outer, Vision& vision) {
  vision.projector = Projector::kPooled;
  const std::int64_t tokens = outer.size_or("mm_tokens_per_image", 1 << 20, 256);
  const std::int64_t per_side = vision.patch_size > 0 ? vision.image_size / vision.patch_size : 0;
  std::int64_t wanted = 1;
  while (wanted * wanted < tokens) ++wanted;
  if (wanted * wanted != tokens || per_side % wanted != 0)
    return outer.fail(
        fmt::format("mm_tokens_per_image {}: {} patches of a side cannot be pooled to it", tokens, per_side));
  vision.merge = per_side / wanted;
}

void connect_internvl(Fields& outer, Vision& vision) {
  read_llava(outer, vision);
  vision.projector = Projector::kShuffledMlp;
  vision.projector_bias = true;
  vision.skips_last_layer = outer.size_or("vision_feature_layer", -1, -1, -2) == -2;
  const double ratio = outer.positive_or("downsample_ratio", 1, 0.5);
  vision.merge = static_cast<std::int64_t>(1 / ratio);
}

void connect_llava_next(Fields& outer, Vision& vision) {
  read_llava(outer, vision);
  vision.newline = true;
}

void connect_mistral(Fields& outer, Vision& vision) {
  vision.projector = Projector::kUnfolded;
  vision.projector_bias = outer.flag("multimodal_projector_bias", false);
  vision.projector_activation = activation(outer, "projector_hidden_act", "gelu");
  vision.merge = outer.size_or("spatial_merge_size", 64, 2);
  vision.skips_last_layer = outer.size_or("vision_feature_layer", -1, -1, -2) == -2;
}

void connect_idefics(Fields& outer, Vision& vision) {
  vision.projector = Projector::kShuffled;
  vision.merge = outer.size_or("scale_factor", 64, 2);
}

void connect_nothing(Fields&, Vision&) {}

Draft read_qwen2(Fields& in, Vision& v) { return read_qwen(in, TowerKind::kQwen2Vl, v); }
Draft read_qwen25(Fields& in, Vision& v) { return read_qwen(in, TowerKind::kQwen25Vl, v); }
Draft read_qwen3(Fields& in, Vision& v) { return read_qwen(in, TowerKind::kQwen3Vl, v); }

constexpr TowerRow kTowers[] = {
    {"llava", "clip_vision_model", read_clip, read_llava},
    {"llava", "siglip_vision_model", read_siglip, read_llava},
    {"llava", "pixtral", read_pixtral, read_llava},
    {"llava_next", "clip_vision_model", read_clip, connect_llava_next},
    {"llava_next", "siglip_vision_model", read_siglip, connect_llava_next},
    {"mistral3", "pixtral", read_pixtral, connect_mistral},
    {"gemma3", "", read_siglip, connect_gemma},
    {"internvl", "", read_internvl, connect_internvl},
    {"idefics3", "", read_idefics, connect_idefics},
    {"smolvlm", "", read_idefics, connect_idefics},
    {"llama4", "", read_llama4_tower, connect_nothing},
    {"qwen2_vl", "", read_qwen2, connect_nothing},
    {"qwen2_5_vl", "", read_qwen25, connect_nothing},
    {"qwen3_vl", "", read_qwen3, connect_nothing},
};

const TowerRow* find_tower(const std::string& type, const std::string& tower) {
  for (const TowerRow& row : kTowers)
    if (row.model_type == type && (row.tower_type.empty() || row.tower_type == tower)) return &row;
  return nullptr;
}

}  // namespace

Result<std::shared_ptr<const Vision>> read_vision(const Node& root, const Architecture& language) {
  const Node* config = root.find("vision_config");
  const Node* type = root.find("model_type");
  if (config == nullptr || !config->is_object() || type == nullptr || !type->is_string()) return nullptr;
  const Node* tower_type = config->find("model_type");
  std::string tower = tower_type != nullptr && tower_type->is_string() ? tower_type->text : "";
  if (tower.empty() && type->text.starts_with("llava")) tower = "clip_vision_model";
  if (tower.empty() && type->text == "mistral3") tower = "pixtral";
  const TowerRow* row = find_tower(type->text, tower);
  if (row == nullptr) return nullptr;
  Vision vision;
  vision.model_type = type->text;
  Fields in(*config);
  Draft draft = row->read(in, vision);
  Fields outer(root);
  row->connect(outer, vision);
  Status status = in.status();
  if (status) status = outer.status();
  if (!status) return tl::make_unexpected(std::move(status.error()).with_context("vision_config"));
  // A tower has neither words nor a loss; what checks every architecture gets the text's.
  draft.model.vocab = language.vocab;
  draft.model.patches = 1;
  vision.tower = stack(std::move(draft));
  vision.tower.model_type = tower.empty() ? type->text + "_vision" : tower;
  if (Status valid = validate(vision.tower); !valid)
    return tl::make_unexpected(std::move(valid.error()).with_context("vision_config"));
  return std::make_shared<const Vision>(std::move(vision));
}

}  // namespace plimsoll::model

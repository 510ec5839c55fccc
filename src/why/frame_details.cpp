// SPDX-License-Identifier: Apache-2.0
#include "why/frame_details.h"

#include <algorithm>

#include "base/text.h"
#include "why/frame_words.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

using F = const Frame&;

// "state = framework.load(args.pretrained_model)": a file of weights, by what it is called.
bool loads_weights(std::string_view code) {
  const std::size_t at = code.find(".load(");
  return at != kNone && has_any(code.substr(at), {"pretrain", "weight", "checkpoint", "ckpt", "model_path", "params"});
}

// A line that makes one tensor of others: an operator between two of them, or a function that has no other use.
bool is_expression(std::string_view code) {
  if (has_any(code, {"load", "open(", ".to(", ".cuda(", "import ", "print(", "return f.", "\"", "'"})) return false;
  const bool operates =
      has_any(code, {" * ", " / ", " + ", " - ", " @ ", " ** ", " += "}) && has_any(code, {" = ", "return ", " += "});
  return operates ||
         has_any(code, {"torch.cat(",  "torch.stack(",  "torch.matmul(", "torch.bmm(",    "torch.norm(", "torch.tril(",
                        "torch.triu(", "torch.where(",  "torch.exp(",    "torch.einsum(", ".unsqueeze(", ".expand(",
                        ".repeat(",    ".permute(",     ".softmax(",     ".contiguous(",  ".clamp(",     "[:, none]",
                        "torch.topk(", ".masked_fill(", ".item()",       ".asnumpy(",     ".asscalar("});
}

// One row per detail: any frame of a traceback that says so.
struct Detail {
  bool FramesPhase::* field;
  bool (*says)(const Frame&);
};

const Detail kDetails[] = {
    {&FramesPhase::pins,
     [](F f) {
       return has_any(f.path, {"pin_memory"}) || has_any(f.function, {"pin_memory", "host_register", "pinned"}) ||
              has_any(f.code, {"pin_memory(", "pin_memory=true", "cudahostalloc", "cudahostregister", "is_pinned"});
     }},
    {&FramesPhase::semaphore,
     [](F f) {
       return has_any(f.code, {"semlock(", "ctx.lock(", "ctx.semaphore("}) ||
              has_any(f.path, {"multiprocessing/synchronize", "multiprocessing\\synchronize"});
     }},
    {&FramesPhase::managed,
     [](F f) { return has_any(f.code, {"managed", "get_paged"}) || has_any(f.function, {"get_paged", "managed"}); }},
    {&FramesPhase::converts, converts},
    {&FramesPhase::wraps,
     [](F f) {
       return has_any(f.function, {"_auto_wrap", "_recursive_wrap", "fully_shard", "_sync_module", "prepare_model",
                                   "_prepare_deepspeed", "_broadcast_model", "_configure_distributed_model"}) ||
              has_any(f.code, {"fsdp(", "fully_shard(", "deepspeed.initialize(", "distributeddataparallel("});
     }},
    {&FramesPhase::profiles,
     [](F f) {
       return name_has(f.function, "profile") || (name_has(f.function, "dummy") && name_has(f.function, "run"));
     }},
    {&FramesPhase::generates,
     [](F f) {
       return name_has_any(f.function, {"generate", "infer", "inference", "sample"}) ||
              has_any(f.code, {".generate(", "pipe(", "pipeline(", "session.run("}) ||
              has_text(f.path, "diffusers/pipelines");
     }},
    {&FramesPhase::memory_saver,
     [](F f) { return has_any(f.path, {"memory_saver"}) || has_text(f.code, "memory_saver"); }},
    {&FramesPhase::serving, [](F f) { return has_any(f.path, {"/vllm/", "\\vllm\\", "sglang", "tensorrt_llm"}); }},
    {&FramesPhase::deepspeed, [](F f) { return has_text(f.path, "deepspeed"); }},
    {&FramesPhase::fsdp, [](F f) { return has_any(f.path, {"fsdp", "_composable"}); }},
    {&FramesPhase::shard_load, is_shard_load},
    {&FramesPhase::moves_module,
     [](F f) {
       return (has_any(f.code, {".to(device", ".to(", ".cuda("}) && !has_text(f.code, "batch")) ||
              f.function == "_apply" || f.function == "convert";
     }},
    // A layer's own constructor, or the session that makes every variable.
    {&FramesPhase::builds_module,
     [](F f) {
       return (f.function == "__init__" &&
               (has_any(f.code, {"Linear(", "linear(", "embedding(", "layer", "mlp", "attention"}) ||
                has_any(f.path, {"nn/modules", "nn\\modules"}))) ||
              has_text(f.code, "variables_initializer(") || f.function == "reset_parameters" ||
              has_text(f.code, "factory_kwargs");
     }},
    {&FramesPhase::foreach_optimizer,
     [](F f) { return has_any(f.code, {"_foreach_"}) || has_text(f.function, "_multi_tensor_"); }},
    {&FramesPhase::offload_hook,
     [](F f) { return name_has_any(f.function, {"onload", "offload"}) || has_text(f.path, "offload"); }},
    {&FramesPhase::checks_config, is_config},
    {&FramesPhase::custom_all_reduce,
     [](F f) {
       return has_any(f.path, {"custom_all_reduce"}) || has_any(f.code, {"custom_all_reduce", "customallreduce"}) ||
              has_text(f.function, "custom_all_reduce");
     }},
};

// What the innermost frames were computing.
void read_innermost(const std::vector<Frame>& frames, FramesPhase& found) {
  // A cache of keys and values that grows: text is being generated, nothing is trained.
  if (has_text(frames.back().code, "cat(") &&
      has_any(frames.back().code, {"past_key", "past_value", "kv_cache", "layer_past"}))
    found.generates = true;
  // Who raises the error has only been told of it.
  const auto told = [](const Frame& frame) { return frame.code.starts_with("raise "); };
  const auto failed = std::find_if_not(frames.rbegin(), frames.rend(), told);
  found.computes = failed != frames.rend() && is_expression(failed->code);
  found.convolution = has_any(file_name(frames.back().path), {"conv.py", "conv_"}) ||
                      has_any(frames.back().code, {"conv1d(", "conv2d(", "conv3d(", "conv_transpose", "convolution("});
  const std::string_view file = file_name(frames.back().path);
  found.device_allocator = has_any(file, {"cuda", "gpu", "hip", "_amd", "device", "metal", "opencl", "_nv."}) &&
                           (has_text(frames.back().function, "alloc") || has_text(frames.back().code, "alloc"));
  // Only the innermost frames speak of the tensor that failed.
  const std::size_t first = frames.size() > 3 ? frames.size() - 3 : 0;
  for (std::size_t i = first; i < frames.size(); ++i) {
    const Frame& frame = frames[i];
    if (has_any(frame.code, {"attention_scores", "attn_scores", " scores", "(scores", "attn_weights", "attention_probs",
                             "attn_mask", "transpose(-1, -2)", "q @ k", "baddbmm", "score_shape", "transpose(2, 3)",
                             "causal_mask"}) ||
        (has_text(frame.path, "attention") && has_any(frame.code, {"matmul", "softmax", "bmm", "einsum"})))
      found.attention_scores = true;
    if (has_any(frame.code, {"cross_entropy", "log_softmax", "logits.float", "lm_head", "logits"}) &&
        !has_any(frame.code, {"nn.linear(", "resize"}))  // a head that is made computes nothing
      found.loss = true;
  }
}

}  // namespace

bool is_shard_load(const Frame& frame) {
  if (loads_weights(frame.code)) return true;
  // A model in another program's form is read as a checkpoint is: "import_model_from_hf_name", "import_ckpt".
  if (name_has(frame.function, "import") &&
      name_has_any(frame.function, {"model", "weights", "ckpt", "checkpoint", "hf", "params"}))
    return true;
  return has_any(frame.function, {"from_pretrained", "load_state_dict", "_load_pretrained", "load_weights",
                                  "load_shard", "load_model", "load_sharded", "load_pipeline"}) ||
         has_any(frame.code, {"from_pretrained(", "load_state_dict(", "load_weights(", "safetensors", "torch.load("});
}

bool is_config(const Frame& frame) {
  return has_any(frame.function, {"validate_args", "__post_init__", "parse_args", "check_options", "check_config",
                                  "verify_and_update", "validate_config", "_sanity_check", "sanity_check"}) ||
         has_any(frame.path, {"arguments.py", "transformer_config.py", "parallel_state.py", "model_parallel_config.py",
                              "parallel_dims.py", "config.py", "configs.py", "microbatches_calculator"}) ||
         (name_has_any(frame.function, {"validate", "check", "verify"}) &&
          !name_has_any(frame.function, {"epoch", "call", "status", "error", "cuda"})) ||
         has_any(frame.code, {"cfg.validate(", "config.validate(", "validate_args("});
}

bool converts(const Frame& frame) {
  return has_any(frame.function, {"process_weights", "convert_", "quantize_", "repack", "after_loading", "dequant",
                                  "_convert", "merge_and_unload", "get_delta_weight"}) ||
         has_text(frame.code, "merge_and_unload(");
}

void read_details(const std::vector<Frame>& frames, FramesPhase& found) {
  for (const Frame& frame : frames)
    for (const Detail& detail : kDetails)
      if (detail.says(frame)) found.*detail.field = true;
  if (!frames.empty()) read_innermost(frames, found);
}

}  // namespace plimsoll::why

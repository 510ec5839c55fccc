// SPDX-License-Identifier: Apache-2.0
// Facts that follow from the job's fields. They compute from what was asked for, not from what complete()
// filled in, so that a job which does not hold together can be judged too.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "base/checked.h"
#include "base/per_thread.h"
#include "cluster/architecture.h"
#include "job/pipeline_layout.h"
#include "rules/facts.h"

namespace plimsoll::rules {

namespace {

using job::Job;

Value positive(std::int64_t number) { return number > 0 ? Value::of(number) : Value{}; }
Value known(const std::optional<std::int64_t>& number) { return number ? Value::of(*number) : Value{}; }
Value named(std::string_view name) { return name.empty() ? Value{} : Value::of(name); }

// The whole quotient of the GPUs and a product of parallel sizes; nothing where it does not divide them.
std::optional<std::int64_t> share(std::int64_t gpus, std::int64_t a, std::int64_t b, std::int64_t c) {
  const auto two = checked_mul(a, b);
  const auto all = two ? checked_mul(*two, c) : two;
  if (!all || *all < 1 || gpus < 1 || gpus % *all != 0) return std::nullopt;
  return gpus / *all;
}
std::optional<std::int64_t> data_parallel(const Job& job) {
  return share(job.cluster.gpus, job.parallel.tensor, job.parallel.pipeline, job.parallel.context);
}
std::optional<std::int64_t> micro_batches(const Job& job) {
  if (!job.batch.global_batch) return job.batch.accumulation;
  const auto ranks = data_parallel(job);
  const auto at_once = ranks ? checked_mul(*ranks, job.batch.micro_batch) : ranks;
  if (!at_once || *at_once < 1 || *job.batch.global_batch % *at_once != 0) return std::nullopt;
  return *job.batch.global_batch / *at_once;
}

// CUDA compute capability times ten.
Value capability(const Job& job) {
  if (const auto known = cluster::compute_capability(job.cluster.gpu.architecture))
    return Value::of(std::int64_t{*known});
  if (job.cluster.gpu.architecture == cluster::Architecture::kAmd) return {};
  // A GPU that the catalogue does not have may be given by its capability: 7.5.
  const auto stated = job.stated.find("compute_capability");
  if (stated == job.stated.end()) return {};
  const document::Node number = document::parse_scalar(stated->second);
  constexpr double kMost = 1000;
  if (!number.is_number() || !(number.as_real() > 0 && number.as_real() < kMost)) return {};
  return Value::of(std::int64_t{std::lround(number.as_real() * 10)});
}

Value lacks_bf16(const Job& job) {
  if (cluster::lacks_bf16(job.cluster.gpu)) return Value::of(true);
  constexpr double kAmpere = 80;
  const Value known = capability(job);
  return Value::of(known.is_number() && known.as_real() < kAmpere);
}

// The first layer kind with what a fact is about.
const model::FeedForward* experts_of(const Job& job) {
  for (const model::Layer& kind : job.model.kinds)
    if (kind.ffn.is_moe()) return &kind.ffn;
  return nullptr;
}
const model::Attention* attention_of(const Job& job, model::AttentionKind wanted) {
  for (const model::Layer& kind : job.model.kinds)
    if (kind.attention.kind == wanted) return &kind.attention;
  return nullptr;
}
const model::Attention* softmax_attention(const Job& job) {
  const model::Attention* found = attention_of(job, model::AttentionKind::kGqa);
  return found != nullptr ? found : attention_of(job, model::AttentionKind::kMla);
}
std::int64_t moe_layers(const Job& job) {
  std::int64_t count = 0;
  for (const std::uint8_t kind : job.model.layers)
    if (kind < job.model.kinds.size() && job.model.kinds[kind].ffn.is_moe()) ++count;
  return count;
}
std::string_view name_of(model::Activation activation) {
  switch (activation) {
    case model::Activation::kSilu:
      return "silu";
    case model::Activation::kGelu:
    case model::Activation::kGeluNew:
    case model::Activation::kQuickGelu:
    case model::Activation::kGeluFast:
    case model::Activation::kBloomGelu:
      return "gelu";
    case model::Activation::kRelu:
      return "relu";
    case model::Activation::kSquaredRelu:
      return "squared_relu";
    case model::Activation::kXielu:
      return "xielu";
  }
  return {};
}
const model::FeedForward* front_ffn(const Job& job) {
  return job.model.kinds.empty() ? nullptr : &job.model.kinds.front().ffn;
}

// All lists that a set of switches can make, so that reading one allocates nothing.
template <std::size_t kCount>
class Lists {
 public:
  explicit Lists(const std::array<const char*, kCount>& names) {
    for (std::size_t mask = 0; mask < lists_.size(); ++mask)
      for (std::size_t i = 0; i < kCount; ++i)
        if ((mask >> i & 1) != 0) lists_[mask].emplace_back(names[i]);
  }
  [[nodiscard]] Value of(const std::array<bool, kCount>& on) const {
    std::size_t mask = 0;
    for (std::size_t i = 0; i < kCount; ++i)
      if (on[i]) mask |= std::size_t{1} << i;
    return Value::of(&lists_[mask]);
  }

 private:
  std::array<List, std::size_t{1} << kCount> lists_;
};

Value recompute_modules(const Job& job) {
  static const Lists<7> kLists({"core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"});
  const job::RecomputeModules& m = job.recompute.modules;
  // Modules act in selective recompute only.
  if (job.recompute.granularity != job::RecomputeGranularity::kSelective) return kLists.of({});
  return kLists.of({m.core_attn, m.layernorm, m.mla_up_proj, m.mlp, m.moe, m.moe_act, m.shared_experts});
}
Value offload_modules(const Job& job) {
  static const Lists<7> kLists(
      {"attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"});
  const job::OffloadModules& m = job.offload.modules;
  return kLists.of({m.attn_norm, m.qkv_linear, m.core_attn, m.attn_proj, m.mlp_norm, m.expert_fc1, m.moe_act});
}
Value cp_comm_types(const Job& job) {
  static const Lists<4> kLists({"p2p", "all_gather", "a2a", "a2a+p2p"});
  std::array<bool, 4> on{};
  for (const job::CpCommType type : job.parallel.cp_comm_type) on[static_cast<std::size_t>(type)] = true;
  return kLists.of(on);
}

// local + scope full_iteration is the old way to write impl full_iteration (facts rules.md, renames).
bool captures_iteration(const Job& job) {
  const auto& modules = job.kernels.cuda_graph_modules;
  return job.kernels.cuda_graphs == job::CudaGraphs::kFullIteration ||
         (job.kernels.cuda_graphs == job::CudaGraphs::kPerLayer &&
          std::find(modules.begin(), modules.end(), "full_iteration") != modules.end());
}
Value cuda_graph_impl(const Job& job) {
  if (job.kernels.cuda_graphs == job::CudaGraphs::kNone) return Value::of("none");
  if (captures_iteration(job)) return Value::of("full_iteration");
  const auto written = job.stated.find("cuda_graph_impl");
  return Value::of(written != job.stated.end() && written->second == "local" ? "local" : "transformer_engine");
}
Value cuda_graph_modules(const Job& job) {
  static const List kNothing;
  const bool old_form = job.kernels.cuda_graphs != job::CudaGraphs::kFullIteration && captures_iteration(job);
  const bool off = job.kernels.cuda_graphs == job::CudaGraphs::kNone;
  return Value::of(old_form || off ? &kNothing : &job.kernels.cuda_graph_modules);
}

Value dispatcher(const Job& job) {
  const job::DispatcherKind kind = job.moe.dispatcher;
  if (job.asked.flex_dispatcher || kind == job::DispatcherKind::kDeepEp || kind == job::DispatcherKind::kHybridEp)
    return Value::of("flex");
  return Value::of(job::name_of(kind));
}

// The symbols of a layout that can be read, stage after stage. A search asks many rules about one layout: the last one
// is remembered.
using Stages = std::shared_ptr<const std::vector<std::string>>;
Stages stages_of(const Job& job) {
  struct Remembered {
    std::string layout;
    Stages stages;
  };
  static PerThread<Remembered> remembered;
  if (job.parallel.layout.empty()) return nullptr;
  return remembered.with([&job](Remembered& last) {
    if (last.layout == job.parallel.layout) return last.stages;
    auto read = job::expand_layout(job.parallel.layout);
    Stages stages = read ? std::make_shared<const std::vector<std::string>>(*std::move(read)) : nullptr;
    last = {job.parallel.layout, stages};
    return stages;
  });
}
std::int64_t count(const std::vector<std::string>& stages, char symbol) {
  std::int64_t total = 0;
  for (const std::string& stage : stages) total += std::count(stage.begin(), stage.end(), symbol);
  return total;
}
template <char kSymbol>
Value layout_count(const Job& job) {
  const Stages stages = stages_of(job);
  return stages ? Value::of(count(*stages, kSymbol)) : Value{};
}
Value layout_begins(const Job& job) {
  const Stages stages = stages_of(job);
  if (!stages) return {};
  const auto first = std::find_if(stages->begin(), stages->end(), [](const auto& stage) { return !stage.empty(); });
  return Value::of(first != stages->end() && first->front() == 'E' && count(*stages, 'E') == 1);
}
Value layout_ends(const Job& job) {
  const Stages stages = stages_of(job);
  if (!stages) return {};
  const auto last = std::find_if(stages->rbegin(), stages->rend(), [](const auto& stage) { return !stage.empty(); });
  return Value::of(last != stages->rend() && last->back() == 'L' && count(*stages, 'L') == 1);
}
// After every decoder layer, on one stage, in the last chunk of a pipeline rank other than the first.
Value layout_mtp_is_placed(const Job& job) {
  const Stages stages = stages_of(job);
  if (!stages) return {};
  const auto pp = static_cast<std::size_t>(std::max<std::int64_t>(1, job.parallel.pipeline));
  std::size_t holders = 0;
  bool placed = true;
  for (std::size_t i = 0; i < stages->size(); ++i) {
    const std::string& stage = (*stages)[i];
    const std::size_t mtp = stage.find('m');
    if (mtp == std::string::npos) {
      if (holders > 0 && stage.find('t') != std::string::npos) placed = false;
      continue;
    }
    ++holders;
    if (stage.find('t', mtp) != std::string::npos) placed = false;
    if (pp > 1 && (i % pp == 0 || i + pp < stages->size())) placed = false;
  }
  return Value::of(placed && holders <= 1);
}

// Layers that share a pipeline rank where the split is even, embedding and loss counted where they are asked to.
std::int64_t counted_layers(const Job& job) {
  return job.model.depth() + (job.parallel.account_for_embedding ? 1 : 0) + (job.parallel.account_for_loss ? 1 : 0);
}

// The frameworks' switch, or the dtype of a job whose fields were filled without it.
bool trains_in(const Job& job, job::DType type, bool switched_on) {
  return switched_on || (!job.derives && job.precision.params == type);
}

template <class Pointer, class Read>
Value if_any(const Pointer* thing, const Read& read) {
  return thing == nullptr ? Value{} : read(*thing);
}

const DerivedFact kFacts[] = {
    {"framework", Type::kText, [](const Job& j) { return Value::of(job::name_of(j.framework)); }, "the framework",
     true},
    {"is_read", Type::kBoolean, [](const Job& j) { return Value::of(j.derives); }, "the job comes from files or flags",
     true},
    {"launch_is_whole", Type::kBoolean, [](const Job& j) { return Value::of(j.launch_is_whole); },
     "read from a launch script: flags and variables that it does not set are not set", true},
    {"gpu_lacks_bf16", Type::kBoolean, lacks_bf16, "the GPU computes fp16 and not bf16: older than Ampere", true},
    {"world_size", Type::kNumber, [](const Job& j) { return positive(j.cluster.gpus); }, "GPUs of the job"},
    {"nvlink_domain", Type::kNumber, [](const Job& j) { return positive(j.cluster.nvlink_domain()); },
     "GPUs that NVLink joins: a node, or a rack of NVL72", true},
    {"nvlink_rack", Type::kNumber,
     [](const Job& j) { return positive(std::max(j.cluster.gpu.rates.rack_gpus, j.cluster.nvlink_domain())); },
     "GPUs that NVLink could join: 72 of NVL72", true},
    {"gpu", Type::kText, [](const Job& j) { return named(j.cluster.gpu.id); }, "catalogue name of the GPU", true},
    {"sm", Type::kNumber, capability, "compute capability times ten: 90 is Hopper, 100 Blackwell", true},
    {"tp", Type::kNumber, [](const Job& j) { return Value::of(j.parallel.tensor); }, "tensor-parallel size"},
    {"pp", Type::kNumber, [](const Job& j) { return Value::of(j.parallel.pipeline); }, "pipeline-parallel size"},
    {"vpp", Type::kNumber, [](const Job& j) { return Value::of(j.parallel.virtual_pipeline); },
     "model chunks per pipeline rank"},
    {"cp", Type::kNumber, [](const Job& j) { return Value::of(j.parallel.context); }, "context-parallel size"},
    {"ep", Type::kNumber, [](const Job& j) { return Value::of(j.parallel.expert); }, "expert-parallel size"},
    {"etp", Type::kNumber, [](const Job& j) { return Value::of(j.expert_tensor()); }, "expert-tensor-parallel size"},
    {"dp", Type::kNumber, [](const Job& j) { return known(data_parallel(j)); }, "data-parallel size"},
    {"edp", Type::kNumber,
     [](const Job& j) {
       return known(share(j.cluster.gpus, j.expert_tensor(), j.parallel.expert, j.parallel.pipeline));
     },
     "data-parallel size of the experts"},
    {"mbs", Type::kNumber, [](const Job& j) { return Value::of(j.batch.micro_batch); }, "micro-batch size"},
    {"gbs", Type::kNumber, [](const Job& j) { return known(j.batch.global_batch); }, "global batch size"},
    {"micro_batches", Type::kNumber, [](const Job& j) { return known(micro_batches(j)); },
     "micro-batches per step and data-parallel rank"},
    {"seq_length", Type::kNumber, [](const Job& j) { return positive(j.batch.seq_length); }, "tokens of a sequence"},
    {"sequence_parallel", Type::kBoolean, [](const Job& j) { return Value::of(j.parallel.sequence_parallel); },
     "sequence parallelism acts"},
    {"sequence_parallel_asked", Type::kBoolean, [](const Job& j) { return Value::of(j.asked.sequence_parallel); },
     "sequence parallelism is switched on"},
    {"cp_comm_type", Type::kList, cp_comm_types, "how context parallelism exchanges, each kind once"},
    {"cp_comm_type_count", Type::kNumber,
     [](const Job& j) { return Value::of(static_cast<std::int64_t>(j.parallel.cp_comm_type.size())); },
     "entries of cp_comm_type"},

    {"layers", Type::kNumber, [](const Job& j) { return positive(j.model.depth()); }, "decoder layers", true},
    {"counted_layers", Type::kNumber, [](const Job& j) { return positive(counted_layers(j)); },
     "decoder layers, plus one each where embedding and loss count as layers"},
    {"hidden", Type::kNumber, [](const Job& j) { return positive(j.model.hidden); }, "width of the residual stream",
     true},
    {"ffn", Type::kNumber,
     [](const Job& j) { return if_any(front_ffn(j), [](const auto& f) { return positive(f.width); }); },
     "width of a dense MLP", true},
    {"heads", Type::kNumber,
     [](const Job& j) { return if_any(softmax_attention(j), [](const auto& a) { return positive(a.heads); }); },
     "attention heads", true},
    {"kv_heads", Type::kNumber,
     [](const Job& j) {
       return if_any(attention_of(j, model::AttentionKind::kGqa), [](const auto& a) { return positive(a.kv_heads); });
     },
     "key and value heads (query groups)", true},
    {"head_dim", Type::kNumber,
     [](const Job& j) { return if_any(softmax_attention(j), [](const auto& a) { return positive(a.head_dim); }); },
     "size of one head", true},
    {"mla", Type::kBoolean,
     [](const Job& j) { return Value::of(attention_of(j, model::AttentionKind::kMla) != nullptr); },
     "multi-head latent attention", true},
    {"linear_key_heads", Type::kNumber,
     [](const Job& j) {
       return if_any(attention_of(j, model::AttentionKind::kLinear),
                     [](const auto& a) { return positive(a.linear_key_heads); });
     },
     "key heads of linear attention (gated delta net)", true},
    {"linear_value_heads", Type::kNumber,
     [](const Job& j) {
       return if_any(attention_of(j, model::AttentionKind::kLinear),
                     [](const auto& a) { return positive(a.linear_value_heads); });
     },
     "value heads of linear attention", true},
    {"sparse_attention", Type::kBoolean,
     [](const Job& j) {
       return Value::of(std::any_of(j.model.kinds.begin(), j.model.kinds.end(),
                                    [](const model::Layer& kind) { return kind.attention.index_heads > 0; }));
     },
     "an indexer chooses keys (DSA)", true},
    {"sliding_window", Type::kBoolean,
     [](const Job& j) {
       return Value::of(std::any_of(j.model.kinds.begin(), j.model.kinds.end(),
                                    [](const model::Layer& kind) { return kind.attention.sliding_window > 0; }));
     },
     "some layer attends to a window", true},
    {"experts", Type::kNumber,
     [](const Job& j) { return if_any(experts_of(j), [](const auto& f) { return positive(f.experts); }); },
     "routed experts of a MoE layer; none in a dense model", true},
    {"moe", Type::kBoolean, [](const Job& j) { return Value::of(experts_of(j) != nullptr); }, "some layer has experts",
     true},
    {"topk", Type::kNumber,
     [](const Job& j) { return if_any(experts_of(j), [](const auto& f) { return positive(f.experts_per_token); }); },
     "experts that a token visits", true},
    {"expert_bias", Type::kBoolean,
     [](const Job& j) {
       const model::FeedForward* ffn = experts_of(j);
       return Value::of(ffn != nullptr && ffn->expert_bias);
     },
     "experts have biases", true},
    {"shared_experts", Type::kBoolean,
     [](const Job& j) {
       const model::FeedForward* ffn = experts_of(j);
       return Value::of(ffn != nullptr && ffn->shared_width > 0);
     },
     "MoE layers have shared experts", true},
    {"dense_layers", Type::kNumber,
     [](const Job& j) { return j.model.layers.empty() ? Value{} : Value::of(j.model.depth() - moe_layers(j)); },
     "layers without experts", true},
    {"linear_bias", Type::kBoolean,
     [](const Job& j) {
       const model::FeedForward* ffn = front_ffn(j);
       return Value::of(ffn != nullptr && (ffn->bias || ffn->expert_bias));
     },
     "linear layers have biases", true},
    {"swiglu", Type::kBoolean,
     [](const Job& j) {
       const model::FeedForward* ffn = front_ffn(j);
       return Value::of(ffn != nullptr && ffn->gated && ffn->activation == model::Activation::kSilu);
     },
     "the MLP is SwiGLU", true},
    {"gated", Type::kBoolean,
     [](const Job& j) {
       const model::FeedForward* ffn = front_ffn(j);
       return Value::of(ffn != nullptr && ffn->gated);
     },
     "the MLP has a gate projection", true},
    {"activation", Type::kText,
     [](const Job& j) { return if_any(front_ffn(j), [](const auto& f) { return Value::of(name_of(f.activation)); }); },
     "activation of the MLP: silu, gelu, relu or squared_relu", true},
    {"attention_output_gate", Type::kBoolean,
     [](const Job& j) {
       return Value::of(std::any_of(j.model.kinds.begin(), j.model.kinds.end(),
                                    [](const model::Layer& kind) { return kind.attention.output_gate; }));
     },
     "the output of attention is gated", true},
    {"tied_embeddings", Type::kBoolean, [](const Job& j) { return Value::of(j.model.tied_embeddings); },
     "embedding and head are one weight", true},
    {"rope", Type::kBoolean, [](const Job& j) { return Value::of(j.model.rope); }, "positions are rotary", true},
    {"max_positions", Type::kNumber, [](const Job& j) { return positive(j.model.max_positions); },
     "longest sequence of the model", true},
    {"position_rows", Type::kNumber, [](const Job& j) { return positive(j.model.position_rows); },
     "rows of the learned position table", true},
    {"mtp_layers", Type::kNumber, [](const Job& j) { return Value::of(j.model.mtp_layers); },
     "multi-token prediction depths", true},
    {"vocab", Type::kNumber, [](const Job& j) { return positive(j.model.vocab); }, "rows of the vocabulary", true},
    {"hidden_dropout", Type::kNumber, [](const Job& j) { return Value::of(j.model.hidden_dropout); },
     "dropout after attention and MLP", true},
    {"attention_dropout", Type::kNumber, [](const Job& j) { return Value::of(j.model.attention_dropout); },
     "dropout of attention scores", true},

    {"recompute_modules", Type::kList, recompute_modules, "modules that selective recompute makes again"},
    {"offload_modules", Type::kList, offload_modules, "modules whose inputs move to the host"},
    {"bf16", Type::kBoolean, [](const Job& j) { return Value::of(trains_in(j, job::DType::kBf16, j.asked.bf16)); },
     "training is in bf16"},
    {"fp16", Type::kBoolean, [](const Job& j) { return Value::of(trains_in(j, job::DType::kFp16, j.asked.fp16)); },
     "training is in fp16"},
    {"computes_bf16", Type::kBoolean,
     [](const Job& j) {
       return Value::of(!j.asked.fp16 && (j.asked.bf16 || j.precision.compute == job::DType::kBf16));
     },
     "activations are in bf16"},
    {"fp8", Type::kBoolean,
     [](const Job& j) { return Value::of(j.asked.fp8 || j.precision.fp8 != job::Fp8Recipe::kNone); },
     "GEMMs run in FP8"},
    {"fp8_recipe", Type::kText,
     [](const Job& j) {
       const bool acts = j.precision.fp8 != job::Fp8Recipe::kNone;
       return Value::of(job::name_of(acts ? j.precision.fp8 : j.asked.fp8_recipe));
     },
     "how FP8 scales are found; acts only with fp8"},
    {"fp4", Type::kBoolean, [](const Job& j) { return Value::of(j.precision.fp4); }, "GEMMs run in NVFP4"},
    {"main_grads_dtype", Type::kText, [](const Job& j) { return Value::of(job::name_of(j.optimizer.main_grads)); },
     "dtype of the main gradients"},
    {"clip_grad", Type::kBoolean, [](const Job& j) { return Value::of(j.clip_grad); }, "gradients are clipped"},
    {"megatron_fsdp", Type::kBoolean,
     [](const Job& j) { return Value::of(j.sharding.kind == job::ShardingKind::kMegatronFsdp); }, "Megatron-FSDP"},
    {"torch_fsdp2", Type::kBoolean,
     [](const Job& j) { return Value::of(j.is_megatron() && j.sharding.kind == job::ShardingKind::kFsdp2); },
     "PyTorch's FSDP2 inside Megatron"},
    {"data_parallel_reduces", Type::kBoolean,
     [](const Job& j) { return Value::of(j.sharding.kind == job::ShardingKind::kDdp && j.cluster.gpus > 1); },
     "PyTorch's DDP over more than one GPU"},
    {"outer_optim", Type::kBoolean, [](const Job& j) { return Value::of(j.sharding.outer_optim); },
     "Megatron-FSDP shards optimizer states over replicas"},
    {"attention_backend", Type::kText, [](const Job& j) { return Value::of(job::name_of(j.kernels.attention)); },
     "the attention kernel: flash, fused or unfused"},
    {"moe_token_dispatcher_type", Type::kText, dispatcher, "allgather, alltoall or flex"},
    {"moe_flex_dispatcher_backend", Type::kText,
     [](const Job& j) {
       const job::DispatcherKind kind = j.asked.flex_dispatcher ? j.asked.flex_backend : j.moe.dispatcher;
       const bool flexible = kind == job::DispatcherKind::kDeepEp || kind == job::DispatcherKind::kHybridEp;
       return flexible ? Value::of(job::name_of(kind)) : Value{};
     },
     "flex: deepep or hybridep"},
    {"moe_expert_capacity_factor", Type::kNumber,
     [](const Job& j) { return j.moe.capacity_factor ? Value::of(*j.moe.capacity_factor) : Value{}; },
     "tokens that an expert accepts over the balanced number"},
    {"router_fp32", Type::kBoolean, [](const Job& j) { return Value::of(j.moe.router_fp32); }, "routing is in fp32"},
    {"cuda_graph_impl", Type::kText, cuda_graph_impl, "none, local, transformer_engine or full_iteration"},
    {"cuda_graph_modules", Type::kList, cuda_graph_modules, "what is captured per layer; empty: whole layers"},

    {"layout", Type::kText, [](const Job& j) { return named(j.parallel.layout); }, "pipeline_model_parallel_layout"},
    {"layout_stages", Type::kNumber,
     [](const Job& j) {
       const auto stages = stages_of(j);
       return stages ? Value::of(static_cast<std::int64_t>(stages->size())) : Value{};
     },
     "stages of the layout"},
    {"layout_decoders", Type::kNumber, layout_count<'t'>, "decoder layers in the layout"},
    {"layout_mtp", Type::kNumber, layout_count<'m'>, "MTP layers in the layout"},
    {"layout_begins_right", Type::kBoolean, layout_begins, "the layout starts with its only embedding"},
    {"layout_ends_right", Type::kBoolean, layout_ends, "the layout ends with its only loss"},
    {"layout_mtp_is_placed", Type::kBoolean, layout_mtp_is_placed, "MTP layers are where the layout may have them"},
};

}  // namespace

std::span<const DerivedFact> derived_facts() { return kFacts; }

}  // namespace plimsoll::rules

// SPDX-License-Identifier: Apache-2.0
// Throughput that projects publish with the configuration of the run: tokens per second and GPU, or TFLOP/s by
// the model-FLOPs convention. What a row leaves out follows the project's own recipes (facts step-time.md 12).
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "job/job.h"
#include "model/catalog.h"
#include "step/work.h"
#include "truth/fields.h"
#include "truth/record.h"

namespace plimsoll::truth {

using document::Node;

namespace {

constexpr Field kFields[] = {
    {"suite", Want::kText, true},
    {"model", Want::kText, true},
    {"system", Want::kText, true},
    {"container", Want::kText},
    {"task", Want::kText},
    {"model_note", Want::kText},
    {"precision", Want::kText},
    {"gpus", Want::kInteger, true},
    {"gbs", Want::kInteger},
    {"mbs", Want::kInteger},
    {"seq", Want::kInteger, true},
    {"tp", Want::kInteger},
    {"pp", Want::kInteger},
    {"cp", Want::kInteger},
    {"vp", Want::kInteger},
    {"ep", Want::kInteger},
    {"etp", Want::kInteger},
    {"fsdp", Want::kInteger},
    {"tokens_per_s_per_gpu", Want::kNumber},
    {"tflops_per_gpu", Want::kNumber},
    {"step_time_s", Want::kNumber},
    {"moe_dispatcher", Want::kText},
    {"moe_a2a_overlap", Want::kFlag},
    {"megatron_fsdp", Want::kFlag},
    {"overlap_grad_reduce", Want::kFlag},
};

struct Spelling {
  std::string_view published;
  std::string_view ours;
};

constexpr Spelling kModels[] = {
    {"Llama 3 70B", "llama3-70b"},          {"DeepSeekV3", "deepseek-v3"},
    {"DeepSeek V3", "deepseek-v3"},         {"Nemotron4 15B", "nemotron-4-15b"},
    {"Nemotron4 340B", "nemotron-4-340b"},  {"Llama 4 Maverick 400B", "llama4-maverick"},
    {"Llama 4 Scout 109B", "llama4-scout"}, {"Mixtral 8x7B", "mixtral-8x7b"},
};

constexpr Spelling kSystems[] = {
    {"DGX-GB300", "gb300-279gb"},   {"DGX-GB200", "gb200-186gb"},   {"DGX-B300", "b300-sxm-270gb"},
    {"DGX-B200", "b200-sxm-180gb"}, {"DGX-H100", "h100-sxm-80gb"},  {"DGX-H200", "h200-sxm-141gb"},
    {"DGX-A100", "a100-sxm-80gb"},  {"GB200-NVL72", "gb200-186gb"}, {"H100 (Meta Grand Teton", "h100-hbm2e-96gb"},
    {"H100 80GB", "h100-sxm-80gb"}, {"H200", "h200-sxm-141gb"},     {"H800", "h800-sxm-80gb"},
};

// Names that differ only in their spelling need no row in the table: "Qwen3_8B", "Llama 3.1 70B".
std::string our_model(std::string_view published) {
  for (const Spelling& s : kModels)
    if (s.published == published) return std::string(s.ours);
  std::string name = replace(replace(lower(published), '_', '-'), ' ', '-');
  if (name.starts_with("llama-")) name.erase(5, 1);
  return name;
}

std::string_view our_gpu(std::string_view published) {
  for (const Spelling& s : kSystems)
    if (published.starts_with(s.published)) return s.ours;
  return {};
}

double number_or_zero(const Node& node, std::string_view key) {
  const Node* found = node.find(key);
  return found != nullptr && found->is_number() ? found->as_real() : 0;
}

bool mentions(const std::string& text, std::string_view word) { return lower(text).find(word) != std::string::npos; }

std::string why_not_comparable(const Node& node) {
  const std::string task = text_of(node, "task");
  if (task.starts_with("rl")) return "an RL step: generation and training share the time";
  for (const std::string_view known : {"known bug", "known issue"})
    if (mentions(text_of(node, "footnote"), known)) return fmt::format("its source calls this figure a {}", known);
  if (mentions(text_of(node, "model_note"), "dualpipe")) return "DualPipe is not modelled";
  if (text_of(node, "suite") == "llama3-paper")
    return "the paper names an interleaved schedule, but not its number of virtual stages";
  return {};
}

void read_precision(const std::string& text, job::Job& job) {
  const std::string name = lower(text);
  job.precision.params = job.precision.compute = job::DType::kBf16;
  job::Fp8Recipe& fp8 = job.precision.fp8;
  if (name.starts_with("nvfp4")) {
    job.precision.fp4 = true;
    job.precision.fp4_param_gather = false;
  } else if (name.starts_with("mxfp8") || name == "fp8-mx") {
    fp8 = job::Fp8Recipe::kMxfp8;
  } else if (name.starts_with("fp8-blockwise") || name.starts_with("fp8-rowwise")) {
    fp8 = job::Fp8Recipe::kBlockwise;
  } else if (name.starts_with("fp8")) {
    fp8 = job::Fp8Recipe::kTensorwise;  // current scaling, also in the tables that say only FP8
  }
  job.precision.fp8_param_gather = job.is_megatron() && fp8 != job::Fp8Recipe::kNone;
}

// Layers that do not divide into the stages: embedding and loss count as layers where that works out, else the
// last stage takes what is left (the recipes' own rule for 61 layers).
void read_pipeline(const Node& node, job::Job& job) {
  job::Parallel& p = job.parallel;
  p.pipeline = integer_or(node, "pp", 1);
  p.virtual_pipeline = p.pipeline > 1 ? std::max<std::int64_t>(1, integer_or(node, "vp", 1)) : 1;
  // torchtitan's interleaved schedule has two stages per rank unless told otherwise.
  if (mentions(text_of(node, "model_note"), "interleaved") && p.pipeline > 1 && p.virtual_pipeline == 1)
    p.virtual_pipeline = 2;
  p.overlap_p2p = p.virtual_pipeline > 1;
  const std::int64_t stages = p.pipeline * p.virtual_pipeline;
  const std::int64_t layers = job.model.depth();
  if (stages <= 1 || layers % stages == 0) {
    if (job.model.mtp_layers == 0 || stages <= 1) return;
  } else if ((layers + 2) % stages == 0 && job.model.mtp_layers == 0) {
    p.account_for_embedding = p.account_for_loss = true;
    return;
  } else if ((layers + 1) % stages == 0 && job.model.mtp_layers == 0) {
    p.account_for_loss = true;
    return;
  }
  const std::int64_t each = (layers + stages - 1) / stages;
  const std::int64_t last = layers - each * (stages - 1);
  if (stages < 4) return;
  const std::string end = job.model.mtp_layers > 0 ? "mL" : "L";
  if (last >= 0) {
    p.layout = fmt::format("Et*{0}|(t*{0}|)*{1}", each, stages - 2);
    if (last > 0) p.layout += fmt::format("t*{}", last);
  } else if (each > 1 && layers == (each - 1) + each * (stages - 2)) {
    // The last stage has no layer of its own (DeepSeek-V3 on H100).
    p.layout = fmt::format("Et*{0}|(t*{1}|)*{2}", each - 1, each, stages - 2);
  } else {
    // More stages are short by one: the first, and the last ones.
    const std::int64_t shorter = each * stages - layers - 1;
    if (each < 2 || shorter >= stages - 1) return;
    p.layout = fmt::format("Et*{0}|(t*{1}|)*{2}(t*{0}|)*{3}t*{0}", each - 1, each, stages - 1 - shorter, shorter - 1);
  }
  p.layout += end;
}

void read_recompute(const Node& node, job::Job& job) {
  const Node& recompute = table_of(node, "recompute");
  const std::string granularity = text_of(recompute, "granularity");
  job::Recompute& r = job.recompute;
  r = {};
  if (granularity == "full") {
    r.granularity = job::RecomputeGranularity::kFull;
    r.method = text_of(recompute, "method") == "block" ? job::RecomputeMethod::kBlock : job::RecomputeMethod::kUniform;
    r.num_layers = integer_or(recompute, "num_layers", 1);
  } else if (mentions(granularity, "sac") || granularity == "selective (default)") {
    r.granularity = job::RecomputeGranularity::kSelectiveOps;
  } else if (granularity == "selective") {
    r.granularity = job::RecomputeGranularity::kSelective;
    const Node* modules = recompute.find("modules");
    for (const Node& module : modules != nullptr ? modules->items : std::vector<Node>{}) {
      r.modules.core_attn = r.modules.core_attn || module.text == "core_attn";
      r.modules.layernorm = r.modules.layernorm || module.text == "layernorm";
      r.modules.mla_up_proj = r.modules.mla_up_proj || module.text == "mla_up_proj";
      r.modules.mlp = r.modules.mlp || module.text == "mlp";
      r.modules.moe = r.modules.moe || module.text == "moe";
      r.modules.moe_act = r.modules.moe_act || module.text == "moe_act";
      r.modules.shared_experts = r.modules.shared_experts || module.text == "shared_experts";
    }
  }
  const Node& offload = table_of(node, "offload");
  if (const std::int64_t layers = integer_or(offload, "num_layers", 0); layers > 0) {
    job.offload.activations = true;
    job.offload.activation_layers = layers;
  }
}

void read_graphs(const Node& node, job::Job& job) {
  const Node& graph = table_of(node, "cuda_graph");
  const std::string impl = text_of(graph, "impl");
  const Node* scope = graph.find("scope");
  const Node* given = node.find("cuda_graph");
  // Rows whose recipe was not found: those that were found for MoE models on NVL72 capture these.
  if (job.is_megatron() && job.model.has_moe() && job.cluster.gpu.rates.rack_domain > 0 &&
      text_of(node, "suite") == "megatron-bridge" && (given == nullptr || given->is_null())) {
    job.kernels.cuda_graphs = job::CudaGraphs::kPerLayer;
    job.kernels.cuda_graph_modules = {"attn", "moe_router", "moe_preprocess"};
  }
  // Dropped tokens make shapes static, so that whole layers can be captured.
  if (job.moe.capacity_factor && (given == nullptr || given->is_null())) {
    job.kernels.cuda_graphs = job::CudaGraphs::kPerLayer;
    job.kernels.cuda_graph_modules.clear();
  }
  if (impl == "full_iteration" || (impl == "local" && text_of(graph, "scope") == "full_iteration")) {
    job.kernels.cuda_graphs = job::CudaGraphs::kFullIteration;
  } else if (impl == "transformer_engine" || impl == "local") {
    job.kernels.cuda_graphs = job::CudaGraphs::kPerLayer;
    if (scope != nullptr && scope->is_string()) job.kernels.cuda_graph_modules = {scope->text};
    if (scope != nullptr && scope->is_array())
      for (const Node& module : scope->items) job.kernels.cuda_graph_modules.push_back(module.text);
  }
}

// Recipes that capture whole iterations of MoE models in MXFP8 set fp8_dot_product_attention, but for DeepSeek-V3 on
// GB200, and fp8_output_proj, but for Qwen3; their experts have buffers of a fixed size (Megatron-Bridge v0.5.0,
// scripts/performance/configs; v0.6.0, perf_recipes).
void read_whole_iteration(job::Job& job) {
  const bool whole = job.kernels.cuda_graphs == job::CudaGraphs::kFullIteration && job.model.has_moe();
  if (!whole || job.precision.fp8 != job::Fp8Recipe::kMxfp8) return;
  const bool latent = job.model.kinds.front().attention.kind == model::AttentionKind::kMla;
  job.precision.fp8_attention = !latent || job.cluster.gpu.id != "gb200-186gb";
  if (!job.model.name.starts_with("qwen")) job.stated["fp8_output_proj"] = "true";
  if (job.moe.dispatcher != job::DispatcherKind::kHybridEp) return;
  job.stated["moe_expert_rank_capacity_factor"] = "1.5";
  job.stated["use_transformer_engine_op_fuser"] = "true";
}

// Nemotron 3 Super in NVFP4 keeps the last 14 layers in 16 bits (nemotron_3_super_bf16_with_nvfp4_mixed of
// Megatron-Bridge).
void read_edges(job::Job& job) {
  if (!job.precision.fp4 || job.model.name != "nemotron-3-super") return;
  job.precision.first_last_layers_bf16 = true;
  job.precision.bf16_layers_at_start = 0;
  job.precision.bf16_layers_at_end = 14;
}

// What the recipes leave off: userbuffers in NVFP4 (all releases), the gather of weights beside the forward in MXFP8
// (v0.2: "causes NaN grad norm").
void read_overlap(const Node& node, job::Job& job) {
  job.parallel.tp_comm_overlap = job.is_megatron() && job.parallel.tensor > 1 && !job.precision.fp4;
  if (node.has("overlap_grad_reduce")) job.optimizer.overlap_grad_reduce = flag_of(node, "overlap_grad_reduce");
  const std::string container = text_of(node, "container");
  if (job.precision.fp8 == job::Fp8Recipe::kMxfp8 && (container == "25.09" || container == "25.11"))
    job.optimizer.overlap_param_gather = false;
}

void read_moe(const Node& node, job::Job& job) {
  const std::string dispatcher = text_of(node, "moe_dispatcher");
  job.moe.dispatcher = dispatcher == "hybridep" ? job::DispatcherKind::kHybridEp
                       : dispatcher == "deepep" ? job::DispatcherKind::kDeepEp
                                                : job::DispatcherKind::kAllToAll;
  const std::string note = text_of(node, "model_note");
  // Rows whose recipe was not found: most of those that were found merge copies (HybridEP, DeepEP); capacity
  // limits need the plain exchange.
  if (text_of(node, "suite") == "megatron-bridge" && table_of(node, "recipe").members.empty() &&
      !mentions(note, "tokendrop"))
    job.moe.dispatcher = job::DispatcherKind::kHybridEp;
  if (mentions(note, "hybridep")) job.moe.dispatcher = job::DispatcherKind::kHybridEp;
  job.parallel.overlap_moe_expert_comm =
      flag_of(node, "moe_a2a_overlap") || mentions(note, "overlap on") || mentions(note, "canonical recipe");
  if (mentions(note, "tokendrop")) job.moe.capacity_factor = 1.0;
  if (mentions(note, "w/o mtp")) job.model.mtp_layers = 0;
  job.parallel.expert = std::max<std::int64_t>(1, integer_or(node, "ep", 1));
  if (job.model.has_moe()) job.parallel.expert_tensor = std::max<std::int64_t>(1, integer_or(node, "etp", 1));
  if (mentions(note, "etp=4")) job.parallel.expert_tensor = 4;
}

void read_sharding(const Node& node, job::Job& job) {
  const bool fsdp = flag_of(node, "megatron_fsdp") || integer_or(node, "fsdp", 0) > 0;
  if (!job.is_megatron()) {
    job.sharding.kind = job::ShardingKind::kFsdp2;
    job.sharding.stored = job.sharding.reduce = job::DType::kFp32;
    return;
  }
  job.optimizer.grad_reduce_in_fp32 = false;  // the performance recipes reduce in bf16
  if (!fsdp) return;
  job.sharding.kind = job::ShardingKind::kMegatronFsdp;
  job.sharding.megatron_strategy = job::MegatronFsdpStrategy::kOptimGradsParams;
}

// "16M tokens/batch"
std::int64_t tokens_per_batch(const std::string& note) {
  const std::size_t at = note.find("M tokens/batch");
  if (at == std::string::npos) return 0;
  std::size_t begin = at;
  while (begin > 0 && note[begin - 1] >= '0' && note[begin - 1] <= '9') --begin;
  if (begin == at || at - begin > 4) return 0;
  return std::stoll(note.substr(begin, at - begin)) * 1024 * 1024;
}

void read_batch(const Node& node, job::Job& job) {
  job.batch.seq_length = integer_or(node, "seq", 0);
  job.batch.micro_batch = std::max<std::int64_t>(1, integer_or(node, "mbs", 1));
  const std::int64_t tokens = tokens_per_batch(text_of(node, "model_note"));
  const std::int64_t batch = integer_or(node, "gbs", job.batch.seq_length > 0 ? tokens / job.batch.seq_length : 0);
  job.batch.global_batch = batch;
  // torchtitan's default: as many micro-batches as stages.
  const std::int64_t replica = job.parallel.tensor * job.parallel.pipeline * job.parallel.context;
  const std::int64_t replicas = replica > 0 ? job.cluster.gpus / replica : 0;
  if (!job.is_megatron() && job.parallel.pipeline > 1 && integer_or(node, "mbs", 0) == 0 && replicas > 0)
    job.batch.micro_batch = std::max<std::int64_t>(1, batch / replicas / job.parallel.pipeline);
}

double step_seconds(const Node& node, const job::Job& job) {
  if (const double seconds = number_or_zero(node, "step_time_s"); seconds > 0) return seconds;
  double rate = number_or_zero(node, "tokens_per_s_per_gpu");
  const double tflops = number_or_zero(node, "tflops_per_gpu");
  // Releases that round tokens/s coarsely give TFLOP/s to four digits (facts step-time.md 1b).
  const bool rounded = node.has("rounding_note") && !node.has("flops_note");
  if (tflops > 0 && (rate <= 0 || rounded)) rate = tflops * 1e12 / step::model_flops_per_token(job);
  if (rate <= 0) return 0;
  const auto tokens = static_cast<double>(*job.batch.global_batch) * static_cast<double>(job.batch.seq_length);
  return tokens / rate / static_cast<double>(job.cluster.gpus);
}

}  // namespace

Record read_published_throughput(const Node& node) {
  Record record;
  const std::string note = text_of(node, "model_note");
  record.id =
      fmt::format("{}-{}-{}-{}-{}-tp{}-pp{}-cp{}-ep{}-mbs{}{}{}", text_of(node, "model"), text_of(node, "system"),
                  text_of(node, "precision"), integer_or(node, "gpus", 0), text_of(node, "container"),
                  integer_or(node, "tp", 1), integer_or(node, "pp", 1), integer_or(node, "cp", 1),
                  integer_or(node, "ep", 1), integer_or(node, "mbs", 1), note.empty() ? "" : " ", note);
  const std::string suite = text_of(node, "suite");
  record.groups = {{"framework", suite},
                   {"gpu", text_of(node, "system")},
                   {"model", text_of(node, "model")},
                   {"precision", text_of(node, "precision")},
                   {"release", text_of(node, "container")},
                   {"task", text_of(node, "task")}};
  record.skip = first_problem(node, kFields);
  if (record.skip.empty()) record.skip = why_not_comparable(node);
  if (!record.skip.empty()) return record;

  job::Job job =
      job::defaults_for(suite == "torchtitan" ? job::Framework::kTorchtitan : job::Framework::kMegatronBridge);
  job.name = record.id;
  auto model = model::find_model(our_model(text_of(node, "model")));
  auto gpu = cluster::find_gpu(our_gpu(text_of(node, "system")));
  if (!model || !gpu) {
    record.skip = to_string(!model ? model.error() : gpu.error());
    return record;
  }
  job.model = *model;
  record.groups["kind"] = !job.is_megatron()       ? "not Megatron"
                          : job.model.has_mixers() ? "hybrid"
                          : job.model.has_moe()    ? "moe"
                                                   : "dense";
  job.cluster.gpu = *gpu;
  cluster::use_typical_node(job.cluster);
  job.cluster.gpus = integer_or(node, "gpus", 1);
  read_precision(text_of(node, "precision"), job);
  // Its NeMo takes delayed scaling where a run does not say (facts step-time.md 12).
  if (suite == "dgx-cloud-benchmarking" && job.precision.fp8 == job::Fp8Recipe::kTensorwise)
    job.precision.fp8 = job::Fp8Recipe::kDelayed;
  read_edges(job);
  read_moe(node, job);
  read_pipeline(node, job);
  job.parallel.tensor = integer_or(node, "tp", 1);
  job.parallel.context = integer_or(node, "cp", 1);
  job.parallel.sequence_parallel = job.parallel.tensor > 1;
  read_overlap(node, job);
  read_batch(node, job);
  read_recompute(node, job);
  read_graphs(node, job);
  read_sharding(node, job);
  // The recipes' MXFP8 gathers weights through the gradient buffer (facts megatron-memory.md 3.3); a rule wants it.
  if (job.precision.fp8 == job::Fp8Recipe::kMxfp8 && job.sharding.kind != job::ShardingKind::kMegatronFsdp)
    job.precision.reuse_grad_buffer_for_mxfp8 = job.precision.fp8_param_gather;
  if (job.is_megatron()) {
    job.kernels.attention = job::AttentionBackend::kFused;
    job.kernels.weighted_squared_relu_fusion = true;  // acts in experts with squared ReLU alone: Nemotron 3
    read_whole_iteration(job);
    job.kernels.loss = job::LossKind::kTe;
  } else {
    job.kernels.torch_compile = mentions(note, "compile") || note.empty();
    if (mentions(note, "async")) job.parallel.tp_comm_overlap = true;
  }
  if (text_of(node, "optimizer") == "muon") job.optimizer.kind = job::OptimizerKind::kMuon;
  if (text_of(node, "task") == "lora") {
    job.adapter.kind = job::AdapterKind::kLora;
    job.adapter.rank = 16;
    job.adapter.targets = {"all-linear"};
  }
  if (*job.batch.global_batch <= 0) {
    record.skip = "the global batch was not published";
    return record;
  }
  if (auto status = job::complete(job); !status) {
    record.skip = to_string(status.error());
    return record;
  }
  const double seconds = step_seconds(node, job);
  if (seconds <= 0 || !std::isfinite(seconds)) {
    record.skip = "no throughput was published";
    return record;
  }
  record.step_seconds = seconds;
  record.whole_job = true;
  record.job = std::move(job);
  return record;
}

}  // namespace plimsoll::truth

// SPDX-License-Identifier: Apache-2.0
// The job: what the user wants to run, with every knob that changes memory or time. Field names are
// Megatron's where several frameworks have a knob. A reader starts from defaults_for(framework), so a
// field always holds what that framework would do; std::optional means "the framework derives it",
// and complete() derives it and refuses contradictions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/name_set.h"
#include "cluster/cluster.h"
#include "job/framework.h"
#include "job/knobs.h"
#include "job/model_keys.h"
#include "model/architecture.h"

namespace plimsoll::job {

struct Parallel {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t virtual_pipeline = 1;  // model chunks per pipeline rank
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::optional<std::int64_t> expert_tensor;  // Megatron: defaults to tensor
  bool sequence_parallel = false;
  std::vector<CpCommType> cp_comm_type = {CpCommType::kP2p};
  bool dp_outermost = false;  // --use-tp-pp-dp-mapping

  // Pipeline layout (facts megatron-memory.md 2.7).
  std::optional<std::int64_t> layers_in_first_stage;
  std::optional<std::int64_t> layers_in_last_stage;
  std::optional<std::int64_t> layers_per_virtual_stage;  // --num-layers-per-virtual-pipeline-stage
  bool account_for_embedding = false;
  bool account_for_loss = false;
  std::string layout;                                   // pipeline_model_parallel_layout
  std::optional<std::int64_t> microbatch_group_size;    // per virtual stage; default pipeline
  PipelineSchedule schedule = PipelineSchedule::k1F1B;  // GPipe only in torchtitan

  bool overlap_p2p = false;  // Megatron: on iff virtual_pipeline > 1
  bool overlap_p2p_warmup_flush = false;
  bool deallocate_outputs = true;
  bool defer_embedding_wgrad = false;
  std::int64_t wgrad_deferral_limit = 0;  // 0: all micro-batches
  bool overlap_moe_expert_comm = false;
  bool delay_wgrad = false;
  bool tp_comm_overlap = false;  // userbuffers
};

// Images of a vision-language model and what of it is trained.
struct Images {
  std::int64_t per_sample = 1;
  std::int64_t height = 0;  // pixels; 0: the size that the tower was made for
  std::int64_t width = 0;
  std::int64_t tiles = 0;  // crops that one image is cut into; 0: as many as height and width give
  bool freeze_tower = false;
  bool freeze_projector = false;
  bool freeze_language = false;
};

struct Batch {
  bool inference_only = false;  // forward passes without gradients; nothing is trained
  std::int64_t seq_length = 0;
  std::int64_t decoder_length = 0;  // of an encoder-decoder model, whose encoder has seq_length; 0: the same
  std::int64_t micro_batch = 1;
  std::optional<std::int64_t> global_batch;
  std::optional<std::int64_t> accumulation;  // micro-batches per step, where given instead of global_batch
  Images images;
  bool packed = false;        // sequences packed to seq_length
  bool padding_mask = false;  // padded batches: SDPA materialises its mask
  // Lengths of the data set's samples: what padding and packing make of them is said beside the step, which has
  // whole sequences. 0 and empty: not known.
  double sample_mean = 0;
  double sample_cv = 0;                     // standard deviation over mean of the lognormal before it is cut
  std::int64_t sample_max = 0;              // 0: they are cut at seq_length
  std::vector<std::string> sample_lengths;  // lengths, or a file of them
  // Evaluation phase; 0 means none is run.
  std::int64_t eval_micro_batch = 0;
  std::int64_t eval_seq_length = 0;
  std::int64_t eval_batches_kept = 0;  // batches whose logits stay on the GPU
  bool eval_logits_fp32 = false;
  std::int64_t eval_generated = 0;     // tokens that evaluation writes for a sequence; 0: it writes none
  std::int64_t eval_beams = 1;         // sequences that are followed beside one another for it
  std::int64_t eval_accumulation = 0;  // batches after which kept logits go to the host; 0: at the end
};

struct Precision {
  DType params = DType::kBf16;   // storage of the working weights
  bool autocast = false;         // fp32 weights cast to 16 bits at use (Transformers bf16=True)
  DType compute = DType::kBf16;  // activations
  Fp8Recipe fp8 = Fp8Recipe::kNone;
  bool fp8_param_gather = false;
  bool fp8_transpose_cache = true;    // false: disable_parameter_transpose_cache
  bool fp8_attention = false;         // fp8_dot_product_attention
  bool fp8_activation_store = false;  // activation_func_fp8_input_store
  bool reuse_grad_buffer_for_mxfp8 = false;
  bool first_last_layers_bf16 = false;
  std::int64_t bf16_layers_at_start = 1;
  std::int64_t bf16_layers_at_end = 1;
  bool fp4 = false;  // NVFP4 compute
  bool fp4_param_gather = false;
  bool fp32_residual = false;
  bool tf32 = false;                // fp32 products run on the tensor cores, with ten bits of mantissa
  std::optional<DType> load_dtype;  // Transformers torch_dtype; unset: what the checkpoint holds
};

struct Optimizer {
  OptimizerKind kind = OptimizerKind::kAdam;
  OptimizerImpl impl = OptimizerImpl::kFused;
  bool distributed = false;    // use_distributed_optimizer (ZeRO-1 of Megatron)
  std::int64_t instances = 1;  // num_distributed_optimizer_instances
  bool grad_reduce_in_fp32 = true;
  bool precision_aware = false;
  bool store_param_remainders = true;
  DType main_params = DType::kFp32;
  DType exp_avg = DType::kFp32;
  DType exp_avg_sq = DType::kFp32;
  bool paged = false;               // bitsandbytes
  bool momentum = true;             // SGD
  double cpu_offload_fraction = 0;  // optimizer_cpu_offload * optimizer_offload_fraction
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  std::optional<std::int64_t> bucket_size;  // elements
  bool pad_buckets_for_busbw = false;
  bool nccl_ub = false;
  bool reduce_scatter_fp32_accumulation = false;
  DType main_grads = DType::kFp32;  // precision-aware: main_grads_dtype
  // GaLore: states of a projected gradient of this rank in place of a matrix's own; 0: none.
  std::int64_t projection_rank = 0;
  bool random_projection = false;      // APOLLO: random numbers bring it there, and scale the gradient itself
  std::vector<std::string> projected;  // optim_target_modules: whose matrices
  bool in_backward = false;            // a weight is updated as soon as its gradient is there, which goes at once
};

// Sharding of model state over data-parallel ranks other than Megatron's distributed optimizer.
struct Sharding {
  ShardingKind kind = ShardingKind::kNone;
  // FSDP2, FSDP1, torchtitan
  bool reshard_after_forward = true;
  bool reshard_head = false;    // where norm and head are a unit: that one, too (torchtitan's policy "always")
  std::int64_t reshard_to = 0;  // reshard_after_forward=int; 0: all or nothing
  std::int64_t replicas = 1;    // HSDP: replicate dimension
  bool within_node = false;     // HYBRID_SHARD: complete() sets replicas to the number of nodes
  DType reduce = DType::kFp32;
  DType stored = DType::kFp32;  // dtype of the sharded parameter
  bool cpu_offload = false;
  bool sync_each_micro_batch = true;  // false: unsharded gradients while accumulating
  FsdpUnits units = FsdpUnits::kLayersAndRoot;
  // DeepSpeed
  int zero_stage = 0;
  OffloadTarget offload_optimizer = OffloadTarget::kNone;
  OffloadTarget offload_param = OffloadTarget::kNone;
  double offload_ratio = 1.0;
  std::int64_t reduce_bucket = 500'000'000;  // elements
  std::int64_t prefetch_bucket = 50'000'000;
  std::int64_t param_persistence = 100'000;
  std::int64_t max_live_parameters = 1'000'000'000;
  std::int64_t max_reuse_distance = 1'000'000'000;
  std::int64_t sub_group_size = 1'000'000'000;
  std::optional<bool> overlap_comm;  // default: on at stage 3
  bool contiguous_gradients = true;
  std::optional<DType> grad_accum;
  std::int64_t hpz_partition = 1;
  std::int64_t mics_shard = 0;
  std::int64_t offload_buffer_count = 4;
  std::int64_t offload_param_buffer_count = 5;
  std::int64_t offload_param_buffer_size = 100'000'000;
  std::int64_t offload_param_max_in_cpu = 1'000'000'000;
  // Megatron-FSDP
  MegatronFsdpStrategy megatron_strategy = MegatronFsdpStrategy::kOptimGradsParams;
  bool outer_optim = false;  // outer_dp_sharding_strategy = optim
  bool double_buffer = false;
  bool meta_init = false;  // init_model_with_meta_device
  DType megatron_main_grads = DType::kBf16;
  DType megatron_main_params = DType::kFp32;
  // DDP of PyTorch
  bool gradient_as_bucket_view = false;
};

struct Recompute {
  RecomputeGranularity granularity = RecomputeGranularity::kNone;
  RecomputeMethod method = RecomputeMethod::kUniform;
  std::int64_t num_layers = 1;
  RecomputeModules modules;       // selective
  bool distribute_saved = false;  // distribute_saved_activations
  // torchtitan's per-layer selective: kFull with n checkpoints every n-th layer only; 0: every layer
  std::int64_t every_nth_layer = 0;
  double memory_budget = -1;  // 0..1; negative: not used
};

struct Offload {
  bool activations = false;            // cpu_offloading
  std::int64_t activation_layers = 0;  // cpu_offloading_num_layers
  bool weights = false;                // cpu_offloading_weights
  bool double_buffering = false;
  bool fine_grained = false;  // fine_grained_activation_offloading
  OffloadModules modules;
  double fraction = 1.0;  // activation_offload_fraction
  std::int64_t min_tensor_elements = 1'048'576;
  bool checkpointed_inputs = false;  // save-on-cpu (TRL activation_offloading)
};

struct Moe {
  double imbalance = 1.0;  // routed tokens on the worst rank / balanced
  bool grouped_gemm = true;
  DispatcherKind dispatcher = DispatcherKind::kAllToAll;
  bool permute_fusion = false;
  std::optional<double> capacity_factor;
  bool pad_to_capacity = false;
  bool router_fp32 = false;             // moe_router_dtype = fp32
  bool every_peer_routes_here = false;  // the recorded degenerate routing (facts megatron-anatomy.md 2.4)
};

struct Adapter {
  AdapterKind kind = AdapterKind::kNone;
  std::int64_t rank = 8;
  double dropout = 0;
  std::vector<std::string> targets;  // q_proj, v_proj, ...; "all-linear"
  DType dtype = DType::kFp32;
  bool quantized_base = false;  // QLoRA: 4-bit base
  bool eight_bit_base = false;  // LLM.int8: 8-bit base
  bool double_quant = false;
  bool prepared_for_kbit = false;    // prepare_model_for_kbit_training ran
  bool inputs_require_grad = false;  // enable_input_require_grads
  bool regather_input = false;       // Bridge: sequence_parallel_input_regather
  // What PEFT trains beside the low-rank pair of a target, and which targets have one.
  std::vector<std::string> saved_modules;                  // modules_to_save: a trained copy beside the frozen module
  bool ties_saved = false;                                 // ensure_weight_tying: one copy for tied embedding and head
  std::vector<std::string> excluded;                       // exclude_modules
  std::vector<std::int64_t> layers;                        // layers_to_transform; empty: all
  std::map<std::string, std::int64_t, std::less<>> ranks;  // rank_pattern: by name, in place of `rank`
  AdapterBias bias = AdapterBias::kNone;                   // biases of the frozen model that are trained
  bool own_bias = false;                                   // lora_bias: the second matrix of a pair has one
  std::int64_t trained_tokens = 0;                         // trainable_token_indices: rows of the embedding

  [[nodiscard]] bool has_quantized_base() const { return quantized_base || eight_bit_base; }
};

struct Kernels {
  Implementation implementation = Implementation::kTransformerEngine;
  AttentionBackend attention = AttentionBackend::kFlash;
  bool rope_fusion = true;
  bool bias_activation_fusion = true;
  bool bias_dropout_fusion = true;
  bool gradient_accumulation_fusion = true;
  bool masked_softmax_fusion = true;
  bool softmax_in_fp32 = false;          // attention_softmax_in_fp32
  bool scales_queries_by_layer = false;  // apply_query_key_layer_scaling, which implies it
  bool mask_in_dataloader = false;       // create_attention_mask_in_dataloader: a b*s*s mask on the GPU
  LossKind loss = LossKind::kUnfused;
  std::int64_t loss_chunks = 8;            // kChunked
  std::vector<std::string> float8_filter;  // torchtitan: parts of names of linears that stay in 16 bits
  DType logits = DType::kBf16;
  bool calculate_per_token_loss = false;
  bool liger = false;
  bool torch_compile = false;
  CudaGraphs cuda_graphs = CudaGraphs::kNone;
  std::vector<std::string> cuda_graph_modules;  // attn, mlp, moe, ...; empty: whole layers
  bool weighted_squared_relu_fusion = false;    // experts: squared ReLU and probability are one kernel
  bool keeps_outputs = false;                   // the caller holds the model's logits through backward
  std::int64_t empty_cache_steps = 0;           // Trainer: every n-th step empties the cache behind forward; 0: none
  bool own_loop = false;                        // not the framework's: nothing empties the cache before the first step
  double label_smoothing = 0;                   // Trainer: a loss of its own, outside the model
  double embedding_noise = 0;                   // NEFTune
};

// What a run does with its state beside training.
struct Checkpoint {
  bool resumes = false;                   // the optimizer's states are loaded before the first step
  StateDict saved = StateDict::kSharded;  // of sharded runs
};

// The frameworks' own switches as they were asked for. derive() turns them into the fields that a step is made of;
// what comes after it reads those. These are for rules, for writing them down again, and for what the switch itself
// brings (the loss scaler of fp16).
struct Asked {
  bool sequence_parallel = false;  // off without tensor parallelism
  bool bf16 = false;
  bool fp16 = false;
  bool fp8 = false;                            // --fp8-format
  Fp8Recipe fp8_recipe = Fp8Recipe::kDelayed;  // acts only with fp8
  bool optimizer_cpu_offload = false;
  double optimizer_offload_fraction = 1.0;  // of what optimizer_cpu_offload moves
  bool flex_dispatcher = false;             // moe_token_dispatcher_type = flex: flex_backend decides
  DispatcherKind flex_backend = DispatcherKind::kDeepEp;
  bool bias_gelu_fusion = true;  // Megatron-LM has one switch per activation: the one that acts counts
  bool bias_swiglu_fusion = true;
  bool loss_fusion = false;
  LossKind loss_fusion_impl = LossKind::kNativeFused;  // acts only with loss_fusion
};

struct Job {
  // Defined once, not in every source that copies or drops one: they are long.
  Job();
  Job(const Job&);
  Job(Job&&) noexcept;
  Job& operator=(const Job&);
  Job& operator=(Job&&) noexcept;
  ~Job();

  std::string name;  // where it was read; for messages
  Framework framework{};
  model::Architecture model;       // what is trained: base_model changed by model_keys
  model::Architecture base_model;  // from a catalogue or config.json; without layers where the keys are all
  ModelKeys model_keys;
  std::optional<std::int64_t> padded_vocab;  // given by the framework's own log, else computed
  std::int64_t make_vocab_size_divisible_by = 128;
  bool pad_vocab = true;  // Bridge: should_pad_vocab
  cluster::Cluster cluster;
  Asked asked;
  Parallel parallel;
  Batch batch;
  Precision precision;
  Optimizer optimizer;
  Sharding sharding;
  Recompute recompute;
  Offload offload;
  Moe moe;
  Adapter adapter;
  Kernels kernels;
  Checkpoint checkpoint;
  bool clip_grad = true;
  bool reference_model = false;       // a frozen model answers beside the trained one: DPO, KTO
  std::int64_t reference_passes = 1;  // forward passes without gradients for a micro-batch; KTO has three
  bool preference_loss = false;       // the loss is made of log-probabilities of every token, outside the model
  bool chosen_loss = false;           // beside it, cross-entropy of the chosen answers: ORPO, CPO
  std::string teacher_model;          // distillation: whose outputs the model learns; empty: none
  std::int64_t trainable_layers = 0;  // only the last so many layers are trained, the first where negative; 0: all
  std::vector<std::string> trainable_parameters;   // and of those, what these expressions match; empty: all of it
  std::map<std::string, std::string> environment;  // PYTORCH_CUDA_ALLOC_CONF, NCCL_*
  bool launch_is_whole = false;                    // read from a launch script: what it does not set is not set
  std::vector<std::string> warnings;               // named: "key: why its effect is not in the numbers"
  std::vector<std::string> notes;                  // what was taken or assumed: "x.yml: read as axolotl"
  NameSet given;                                   // canonical keys that a file or flag set
  // Every key as a file or flag wrote it, under the name used there and its canonical one: also those that no
  // field holds, because rules are about them too.
  std::map<std::string, std::string, std::less<>> stated;
  // Set by read_job(): on every complete() a field whose key is not in `given` follows the framework's
  // rule (p2p overlap with virtual stages, fp32 gradients under bf16, attention backend by GPU, ...).
  // Code that fills the fields itself leaves it off, and complete() keeps what it finds.
  bool derives = false;

  // Filled by complete().
  std::int64_t data_parallel = 1;                      // dp
  std::int64_t expert_data_parallel = 1;               // edp
  std::int64_t micro_batches = 1;                      // per step and data-parallel rank
  std::int64_t vocab_rows = 0;                         // after padding
  std::shared_ptr<const model::Architecture> teacher;  // of teacher_model; null: none

  [[nodiscard]] bool has(std::string_view key) const { return given.contains(key); }
  // What its framework does.
  [[nodiscard]] const FrameworkFacts& facts() const { return facts_of(framework); }
  [[nodiscard]] bool is_megatron() const { return facts().is_megatron; }
  [[nodiscard]] std::int64_t expert_tensor() const { return parallel.expert_tensor.value_or(parallel.tensor); }
  // Tokens of one micro-batch on one context-parallel rank: T of the facts.
  [[nodiscard]] std::int64_t tokens() const { return batch.seq_length * batch.micro_batch / parallel.context; }
};

// A job with the framework's own defaults and no model.
[[nodiscard]] Job defaults_for(Framework framework);

// Derives data-parallel sizes, micro-batches and padded vocabulary, and refuses contradictions
// (GPUs not divisible, heads not divisible by TP, layouts that do not hold every layer, ...).
[[nodiscard]] Status complete(Job& job);

}  // namespace plimsoll::job

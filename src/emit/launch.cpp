// SPDX-License-Identifier: Apache-2.0
#include "emit/launch.h"

#include <algorithm>

#include <fmt/format.h>

#include "emit/text.h"
#include "job/keys.h"
#include "job/variables.h"

namespace plimsoll::emit {

using document::Node;
using job::Job;

namespace {

bool has_expandable_segments(const Job& job) {
  const auto found = job.environment.find("PYTORCH_CUDA_ALLOC_CONF");
  return found != job.environment.end() && found->second.find("expandable_segments:True") != std::string::npos;
}

// What the frameworks demand at start-up.
std::vector<Variable> demanded(const Job& job) {
  std::vector<Variable> all;
  if (!job.is_megatron()) return all;
  const job::Parallel& parallel = job.parallel;
  const bool fsdp =
      job.sharding.kind == job::ShardingKind::kMegatronFsdp || job.sharding.kind == job::ShardingKind::kFsdp2;
  if ((parallel.tensor > 1 || parallel.context > 1) && !job.cluster.gpu.is_blackwell() && !fsdp)
    all.push_back(parallel.overlap_moe_expert_comm
                      ? Variable{"CUDA_DEVICE_MAX_CONNECTIONS", "32", "expert messages overlap only with many queues"}
                      : Variable{"CUDA_DEVICE_MAX_CONNECTIONS", "1",
                                 "TP and CP before Blackwell: messages start before the GEMMs that hide them"});
  if (job.cluster.gpus > 1) {
    all.push_back(
        {"TORCH_NCCL_AVOID_RECORD_STREAMS", "1", "buffers of collectives are freed as soon as they are done"});
    // What the prediction counts: the buffers of NVLink SHARP from Hopper on (facts megatron-memory.md 10).
    all.push_back(job.cluster.gpu.is_hopper_or_newer()
                      ? Variable{"NCCL_NVLS_ENABLE", "2", "NVLink SHARP where it is there; 0 saves its buffers"}
                      : Variable{"NCCL_NVLS_ENABLE", "0", "this GPU has no NVLink SHARP"});
  }
  if (job.offload.fine_grained)
    all.push_back({"NVTE_CPU_OFFLOAD_V1", "1", "fine-grained offloading asks for it from Transformer Engine 2.10 on"});
  if (job.kernels.cuda_graphs != job::CudaGraphs::kNone && has_expandable_segments(job))
    all.push_back({"NCCL_GRAPH_REGISTER", "0", "graphs must not register buffers of expandable segments"});
  if (parallel.tp_comm_overlap && parallel.tensor > 1 && !job.cluster.gpu.is_hopper_or_newer())
    all.push_back({"UB_SKIPMC", "1", "userbuffers without multicast, which this GPU lacks"});
  const bool engine = job.kernels.implementation == job::Implementation::kTransformerEngine;
  if (engine && job.optimizer.overlap_grad_reduce && job.data_parallel * parallel.context > 1)
    for (const char* name : {"NVTE_FWD_LAYERNORM_SM_MARGIN", "NVTE_BWD_LAYERNORM_SM_MARGIN"})
      all.push_back({name, "16", "norms leave SMs to the messages of data parallelism"});
  return all;
}

std::string meaning_of(const std::string& name, const std::vector<Reason>& reasons) {
  for (const Reason& reason : reasons)
    if (reason.key == name || reason.key == "environment." + name) return reason.text;
  for (const job::KnownVariable& variable : job::known_variables())
    if (variable.name == name) return std::string(variable.why);
  return "as the job has it";
}

}  // namespace

Result<std::vector<Variable>> environment_of(const Job& job, const std::vector<Reason>& reasons) {
  std::vector<Variable> all;
  for (const auto& [name, value] : job.environment) {
    if (!is_variable_name(name) || value.find('\0') != std::string::npos)
      return bad_input(fmt::format("environment: {} = {} cannot be exported by a shell", quoted(name.substr(0, 60)),
                                   quoted(value.substr(0, 60))));
    all.push_back({name, value, meaning_of(name, reasons)});
  }
  for (Variable& variable : demanded(job))
    if (!job.environment.contains(variable.name)) all.push_back(std::move(variable));
  return all;
}

Result<Nodes> nodes_of(const Job& job) {
  Nodes nodes;
  const std::int64_t each = std::max<std::int64_t>(1, job.cluster.gpus_per_node);
  nodes.nodes = (job.cluster.gpus + each - 1) / each;
  if (job.cluster.gpus % nodes.nodes != 0)
    return bad_input(fmt::format("gpus = {}: torchrun starts as many processes on every node, and {} nodes of {} GPUs "
                                 "cannot share them evenly",
                                 job.cluster.gpus, nodes.nodes, each),
                     "use a multiple of gpus_per_node");
  nodes.per_node = job.cluster.gpus / nodes.nodes;
  return nodes;
}

bool is_fact(std::string_view key) {
  constexpr std::string_view kFacts[] = {"gpu",
                                         "gpus",
                                         "gpus_per_node",
                                         "gpu_memory",
                                         "host_memory",
                                         "nvme",
                                         "moe_imbalance",
                                         "packed_sequences",
                                         "sample_mean",
                                         "sample_cv",
                                         "sample_max",
                                         "sample_lengths",
                                         "padding_mask",
                                         "eval_micro_batch_size",
                                         "eval_seq_length",
                                         "eval_batches_kept",
                                         "eval_logits_fp32"};
  return std::find(std::begin(kFacts), std::end(kFacts), key) != std::end(kFacts);
}

std::string toml_sections(const std::vector<Setting>& settings, const std::vector<Reason>& reasons) {
  std::vector<std::string> sections;
  for (const job::KeyInfo& info : job::key_table())
    if (std::find(sections.begin(), sections.end(), info.section) == sections.end()) sections.push_back(info.section);
  std::string text;
  for (const std::string& section : sections) {
    if (section == "model") continue;
    std::vector<Line> lines;
    for (const job::KeyInfo& info : job::key_table()) {
      if (info.section != section) continue;
      for (const Setting& setting : settings)
        if (setting.key == info.name && !setting.value.is_null())
          lines.push_back({fmt::format("{} = {}", setting.key, value_text(setting.value, " = ")),
                           why_value(setting.key, setting.value, reasons)});
    }
    if (!lines.empty()) text += fmt::format("\n[{}]\n{}", section, with_comments(lines));
  }
  return text;
}

std::vector<Setting> facts_among(const std::vector<Setting>& settings) {
  std::vector<Setting> facts;
  for (const Setting& setting : settings)
    if (is_fact(setting.key) || setting.key == "optimizer_implementation") facts.push_back(setting);
  return facts;
}

File facts_file(const std::vector<Setting>& facts, const std::vector<Variable>& environment,
                const std::vector<Reason>& reasons, std::string_view how_to_read) {
  std::string text =
      fmt::format("# What the other files cannot say about this job: the machines and the data.\n# Read it again: {}\n",
                  how_to_read);
  text += toml_sections(facts, reasons);
  if (!environment.empty()) {
    std::vector<Line> lines;
    for (const Variable& variable : environment)
      lines.push_back({fmt::format("{} = {}", variable.name, quoted(variable.value)), variable.why});
    text += "\n[environment]\n" + with_comments(lines);
  }
  return File{"plimsoll.toml", std::move(text), false};
}

std::string script_head(const Job& job, std::string_view title, const std::vector<Variable>& environment) {
  std::string text =
      fmt::format("#!/bin/bash\n# {}\n# {}, {} GPUs ({})\nset -euo pipefail\n", comment(title), comment(job.model.name),
                  job.cluster.gpus, comment(job.cluster.gpu.id.empty() ? "unnamed" : job.cluster.gpu.id));
  std::vector<Line> lines;
  for (const Variable& variable : environment)
    lines.push_back({fmt::format("export {}={}", variable.name, shell_word(variable.value)), variable.why});
  if (!lines.empty()) text += "\n" + with_comments(lines);
  return text;
}

std::string torchrun(const Nodes& nodes) {
  return fmt::format(
      "# NUMA=1 keeps each rank on the cores next to its GPU.\n"
      "PYTHON=()\n"
      "if [[ -n ${{NUMA:-}} ]]; then PYTHON=(--no-python bash \"$(dirname \"${{BASH_SOURCE[0]}}\")/numa.sh\"); fi\n"
      "# NNODES, NODE_RANK and MASTER_ADDR come from Slurm, or from whoever starts one of these per node.\n"
      "# RUN='plimsoll run --job FILE --' measures it and compares.\n"
      "${{RUN:-}} torchrun ${{TORCHRUN_FLAGS:-}} --nproc_per_node {} --nnodes \"${{NNODES:-{}}}\" --node_rank "
      "\"${{NODE_RANK:-${{SLURM_NODEID:-0}}}}\" "
      "\\\n"
      "  --master_addr \"${{MASTER_ADDR:-localhost}}\" --master_port \"${{MASTER_PORT:-29500}}\" \"${{PYTHON[@]}}\" "
      "\\\n",
      nodes.per_node, nodes.nodes);
}

File slurm_script(const Job& job, const Nodes& nodes) {
  std::string text = "#!/bin/bash\n";
  text += "# Starts launch.sh once per node: sbatch slurm.sbatch, in the folder of these files.\n";
  text += "#SBATCH --job-name=train\n";
  text += fmt::format("# {} GPUs on nodes of {}\n#SBATCH --nodes={}\n", job.cluster.gpus, job.cluster.gpus_per_node,
                      nodes.nodes);
  text += "# one torchrun per node, which starts a process for each GPU\n#SBATCH --ntasks-per-node=1\n";
  text += fmt::format("#SBATCH --gpus-per-node={}\n", nodes.per_node);
  text += "# no other job may take host memory or links\n#SBATCH --exclusive\n";
  text += "set -euo pipefail\n\n";
  text += "cd \"${SLURM_SUBMIT_DIR:-.}\"\n";
  text += "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)  # where the ranks meet\n";
  text += "export MASTER_ADDR\n";
  text += "export MASTER_PORT=\"${MASTER_PORT:-29500}\"\n";
  text += "export NNODES=\"$SLURM_NNODES\"\n";
  text += "srun --kill-on-bad-exit=1 bash ./launch.sh  # SLURM_NODEID says which node it is\n";
  return File{"slurm.sbatch", std::move(text), true};
}

}  // namespace plimsoll::emit

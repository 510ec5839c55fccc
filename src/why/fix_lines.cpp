// SPDX-License-Identifier: Apache-2.0
// The line that a user writes for a fix, with the figures of this log in it.
#include "why/fix_lines.h"

#include <cmath>

#include <fmt/format.h>

#include "why/words.h"

namespace plimsoll::why {

namespace {

void replace_text(std::string& line, std::string_view what, const std::string& by) {
  if (const std::size_t at = line.find(what); at != std::string::npos) line.replace(at, what.size(), by);
}

}  // namespace

void fill_in(std::string& line, std::string_view id, const KnownSettings& known) {
  const auto number = [&](std::initializer_list<std::string_view> names) {
    return leading_integer(known.option(names)).value_or(0);
  };
  std::int64_t value = 0;
  if (id == "micro-batch" || id == "smaller-batch")
    value = number({"micro_batch_size", "per_device_train_batch_size", "train_micro_batch_size_per_gpu", "batch_size"});
  if (id == "shorter-sequence") value = number({"seq_length", "max_seq_length", "max_length"});
  if (id == "more-pipeline") value = number({"pipeline_model_parallel_size"});
  if (id == "engine-shard" || id == "shard-everything" || id == "sharded-load")
    value = number({"tensor_parallel_size", "tp_size", "tensor_model_parallel_size"});
  if (value >= 2) replace_text(line, "N/2", std::to_string(value / 2));
  if (value >= 1) replace_text(line, "2N", std::to_string(2 * value));
  if (const std::int64_t steps = number({"gradient_accumulation_steps", "accumulate_grad_batches"}); steps > 0)
    replace_text(line, "2*M", std::to_string(2 * steps));
}

std::string with_figures(std::string line, std::string_view id, const Diagnosis& diagnosis, const Findings& findings) {
  const auto figure = [&](const char* name) {
    const auto found = findings.figures.find(name);
    return found == findings.figures.end() ? std::int64_t{0} : found->second;
  };
  if (id == "shorter-context") {
    std::int64_t tokens = figure("kv_tokens");
    const std::int64_t needed = figure("kv_needed");
    if (tokens == 0 && needed > 0)
      tokens = static_cast<std::int64_t>(static_cast<double>(figure("max_seq_tokens")) *
                                         static_cast<double>(figure("kv_available")) / static_cast<double>(needed));
    if (tokens > 0)
      if (const std::size_t at = line.rfind('N'); at != std::string::npos)
        line.replace(at, 1, std::to_string(tokens / 16 * 16));
  }
  if (id == "engine-share-less" && figure("total") > 0) {
    const double share =
        std::floor(static_cast<double>(figure("free")) / static_cast<double>(figure("total")) * 100 - 2) / 100;
    if (const std::size_t at = line.rfind('N'); at != std::string::npos && share > 0)
      line.replace(at, 1, fmt::format("{:.2f}", share));
  }
  if (id == "free-the-device") {
    std::string pids;
    for (const ProcessUse& process : diagnosis.numbers.processes)
      if (process.pid != diagnosis.sum.own_pid.value_or(-1))
        pids += (pids.empty() ? "" : ",") + std::to_string(process.pid);
    line = (pids.empty() ? "nvidia-smi --query-compute-apps=pid,used_memory --format=csv"
                         : "ps -o pid,user,etime,cmd -p " + pids) +
           "; fuser -v /dev/nvidia*  # end it, or set CUDA_VISIBLE_DEVICES; what only fuser shows is a zombie";
  }
  if (id == "change-option" && diagnosis.root != nullptr) {
    const Signal& signal = diagnosis.root->signal;
    line = signal.rule_fix.empty() ? fmt::format("as the message asks: {}", cut_text(diagnosis.root->text, 160))
                                   : fmt::format("{} (rule {})", signal.rule_fix, signal.rule);
  }
  if (id == "expandable-segments") {
    if (diagnosis.numbers.allocator == Allocator::kNpu) line = "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True";
    if (diagnosis.numbers.allocator == Allocator::kHip) line = "export PYTORCH_HIP_ALLOC_CONF=expandable_segments:True";
  }
  if (id == "max-split-size" && diagnosis.numbers.allocator == Allocator::kNpu)
    line = "export PYTORCH_NPU_ALLOC_CONF=max_split_size_mb:256";
  if (id == "unset-expandable" && !findings.settings.empty())
    line = fmt::format("export {}=expandable_segments:False", findings.settings.begin()->first);
  return line;
}

}  // namespace plimsoll::why

// SPDX-License-Identifier: Apache-2.0
// Lines of vLLM (facts rl-and-inference.md 4) and SGLang that say how a server started and how full it is.
#include <string>

#include "base/text.h"
#include "rl/observe/readers.h"

namespace plimsoll::rl {

namespace {

struct Failure {
  std::string_view sign;   // what tells it apart
  std::string_view start;  // where its text begins
  std::string_view key;
  std::string_view fix;
};

constexpr Failure kFailures[] = {
    {"is less than desired GPU memory utilization", "Free memory on device", "gpu_memory_utilization",
     "lower it below the share that is free, or free the GPU: another process holds the rest"},
    {"No available memory for the cache blocks", "No available memory for the cache blocks", "gpu_memory_utilization",
     "raise it, or give a server more GPUs: weights, activations and graphs take the whole share"},
    {"KV cache is needed, which is larger than", "To serve at least one request", "max_model_len",
     "lower it to the estimated length, or raise the memory share"},
    {"is larger than the maximum number of tokens that can be stored in KV cache", "The model's max seq len",
     "max_model_len", "lower it to what the cache holds, or raise the memory share"},
    {"Error in memory profiling", "Error in memory profiling", "",
     "another process freed memory while the server measured its own; start servers of a GPU one after the other"},
    {"Loaded weights leave no GPU memory for the KV cache", "Loaded weights leave no GPU memory",
     "gpu_memory_utilization", "raise mem_fraction_static above the value named, or give a server more GPUs"},
    {"Not enough memory. Please try to increase --mem-fraction-static", "Not enough memory. Please",
     "gpu_memory_utilization", "raise mem_fraction_static"},
    {"CUDA out of memory occurred when warming up sampler", "CUDA out of memory occurred", "max_num_seqs",
     "lower it, or lower the memory share: the sampler's tensors come on top of the cache"},
};

struct Stated {
  std::string_view label;  // in the log
  std::string_view name;   // in the report
};

constexpr Stated kStated[] = {
    {"Available KV cache memory: ", "GiB of KV cache"},
    {"GPU KV cache size: ", "tokens of KV cache"},
    {"memory is still in use", "GiB still in use while asleep"},
};

bool read_failure(std::string_view line, const Place& place, Measures& measures) {
  constexpr std::size_t kLongestText = 700;
  for (const Failure& failure : kFailures) {
    if (line.find(failure.sign) == std::string_view::npos) continue;
    const std::size_t start = line.find(failure.start);
    std::string_view text = trim(start == std::string_view::npos ? line : line.substr(start));
    if (text.size() > kLongestText) text = text.substr(0, kLongestText);
    measures.add_failure({std::string{text}, std::string{failure.fix}, std::string{failure.key}, place});
    return true;
  }
  return false;
}

bool read_throughput(std::string_view line, const Place& place, Measures& measures) {
  if (line.find("Avg generation throughput") == std::string_view::npos) return false;
  ServerSample sample;
  sample.running = number_after(line, "Running: ");
  sample.waiting = number_after(line, "Waiting: ");
  if (!sample.waiting) sample.waiting = number_after(line, "Pending: ");  // before V1
  if (const auto percent = number_after(line, "GPU KV cache usage: ")) sample.usage = *percent / 100;
  if (const auto preempted = number_after(line, "Preemptions: "); preempted && *preempted > 0)
    measures.preempted.add(*preempted, place);
  measures.add_sample(sample, place);
  return sample.running.has_value();
}

// "Decode batch, #running-req: 12, #token: 345, token usage: 0.43, gen throughput (token/s): 99.1, #queue-req: 3"
bool read_sglang(std::string_view line, const Place& place, Measures& measures) {
  if (line.find("#running-req: ") == std::string_view::npos) return false;
  ServerSample sample;
  sample.running = number_after(line, "#running-req: ");
  sample.waiting = number_after(line, "#queue-req: ");
  sample.usage = number_after(line, "token usage: ");
  measures.add_sample(sample, place);
  return sample.running.has_value();
}

bool read_preemption(std::string_view line, const Place& place, const std::string& file, Measures& measures) {
  if (line.find("is preempted by PreemptionMode") != std::string_view::npos) {
    if (const auto total = number_after(line, "total_num_cumulative_preemption="))
      measures.preemptions.add(file + "|cumulative", *total, place);
    else
      measures.preempted.add(1, place);
    return true;
  }
  // SGLang: "KV cache pool is full. Retract requests. #retracted_reqs: 2, ..."
  if (line.find("Retract requests") != std::string_view::npos) {
    measures.preempted.add(number_after(line, "#retracted_reqs: ").value_or(1), place);
    return true;
  }
  return false;
}

bool read_stated(std::string_view line, const Place& place, Measures& measures) {
  for (const Stated& one : kStated) {
    const std::size_t at = line.find(one.label);
    if (at == std::string_view::npos) continue;
    // "Sleep mode freed 60.1 GiB memory, 2.3 GiB memory is still in use." has its number in front.
    const bool asleep = one.label.starts_with("memory is still");
    const auto value = asleep ? number_after(line, "GiB memory, ") : leading_number(line.substr(at + one.label.size()));
    if (!value) return false;
    measures.stated.insert_or_assign(std::string{one.name}, std::pair{*value, place});
    return true;
  }
  return false;
}

}  // namespace

bool read_server_line(std::string_view line, const Place& place, const std::string& file, Measures& measures) {
  return read_throughput(line, place, measures) || read_failure(line, place, measures) ||
         read_sglang(line, place, measures) || read_preemption(line, place, file, measures) ||
         read_stated(line, place, measures);
}

}  // namespace plimsoll::rl

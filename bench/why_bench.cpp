// SPDX-License-Identifier: Apache-2.0
// Reading a log of 1 GB: step lines, progress bars and chatter of 64 ranks, one failure at the end; and logs of nothing
// but the step lines of one framework, or of nothing but failures.
//   cmake --preset release && cmake --build --preset release --target why_bench && build/release/bench/why_bench
// Bar: 1 GiB in 2.5 s on one core and 64 MB, nothing but failures >= 400 MB/s.
#include <sys/resource.h>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "why/diagnosis.h"
#include "why/read.h"

namespace plimsoll {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 30;

// Written once for all runs of the benchmark, in the folder for temporary files.
const std::string& big_log() {
  static const std::string kPath = [] {
    const std::string path = (std::filesystem::temp_directory_path() / "plimsoll_why_bench.log").string();
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) std::abort();
    std::string block;
    std::size_t written = 0;
    for (std::int64_t step = 0; written < kBytes; ++step) {
      block.clear();
      for (int rank = 0; rank < 64; ++rank)
        block += fmt::format(
            "[rank{}]: 2025-03-14 03:46:{:02} | INFO | step {} loss={:.4f} grad_norm=1.2{} lr=2.9e-05 tok/s={}\n", rank,
            step % 60, step, 2.0 + 1.0 / static_cast<double>(step + 1), rank, 15000 + rank * step % 97);
      block += fmt::format("[rank0]: memory allocated 41.{:02} GiB reserved 52.10 GiB\n", step % 10);
      block += fmt::format(
          "train:  63%|######    | {}/90000 [05:26<03:08,  2.52it/s]\rtrain:  63%|######    | {}/90000 [05:27<03:07,  "
          "2.52it/s]\n",
          step, step);
      block += "data worker 3: shard 0017 opened, prefetch queue 12, shuffle buffer refilled from the index\n";
      written += std::fwrite(block.data(), 1, block.size(), file);
    }
    std::fputs(
        "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/w/train.py\", line 7, in train_step\n[rank3]: "
        "    out = model(batch)\n"
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 3 has a total capacity "
        "of 79.18 GiB of "
        "which 1.08 GiB is free. Including non-PyTorch memory, this process has 78.09 GiB memory in use. Of the "
        "allocated memory 75.31 GiB "
        "is allocated by PyTorch, and 1.83 GiB is reserved by PyTorch but unallocated.\n",
        file);
    std::fclose(file);
    std::atexit([] { std::filesystem::remove(std::filesystem::temp_directory_path() / "plimsoll_why_bench.log"); });
    return path;
  }();
  return kPath;
}

void read_one_gigabyte(benchmark::State& state) {
  const std::string& path = big_log();
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  for (auto _ : state) {
    why::Collector collector;
    if (!why::read_log(path, collector)) std::abort();
    const why::Findings findings = collector.take();
    const why::Diagnosis diagnosis = why::diagnose(findings);
    if (!diagnosis.numbers.request || diagnosis.rank != 3) std::abort();
    benchmark::DoNotOptimize(diagnosis.confidence);
  }
  state.SetBytesProcessed(state.iterations() * size);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}
// A line of one kind; `at` is the step.
using Line = std::string (*)(std::int64_t at);
struct Kind {
  const char* name;
  Line line;
};
const Kind kKinds[] = {
    {"megatron",
     [](std::int64_t at) {
       return fmt::format(
           " [2025-03-14 03:46:{:02}] iteration {:8}/  500000 | consumed samples: {:12} | elapsed time per iteration "
           "(ms): 5{:03}.2 | learning rate: 2.9E-05 | global batch size: 512 | lm loss: 2.{:03}E+00 | grad norm: 0.4 | "
           "number of skipped iterations:   0 | number of nan iterations:   0 |\n",
           at % 60, at, at * 512, at % 97, at % 1000);
     }},
    {"trainer",
     [](std::int64_t at) {
       return fmt::format("{{'loss': 2.{:04}, 'grad_norm': 1.{:03}, 'learning_rate': 2.9e-05, 'epoch': {:.2f}}}\n",
                          at % 10000, at % 1000, static_cast<double>(at) / 1000);
     }},
    {"torchtitan",
     [](std::int64_t at) {
       return fmt::format(
           "[rank0]:[titan] 2025-03-14 03:46:{:02},123 - root - INFO - step: {:6}  loss: 2.{:04}  memory: "
           "41.{:02}GiB(52.11%)  tps: 15,{:03}  tflops: 44.11  mfu: 42.11%\n",
           at % 60, at, at % 10000, at % 100, at % 97);
     }},
    {"deepspeed",
     [](std::int64_t at) {
       return fmt::format(
           "[2025-03-14 03:46:{:02},123] [INFO] [timer.py:260:stop] epoch=0/micro_step={}/global_step={}, "
           "RunningAvgSamplesPerSec=10.1, CurrSamplesPerSec=10.{}, MemAllocated=41.{}GB, MaxMemAllocated=60.1GB\n",
           at % 60, at, at, at % 997, at % 10);
     }},
    {"bars",
     [](std::int64_t at) {
       return fmt::format("\rtrain:  63%|######    | {}/900000 [05:26<03:08,  2.{:02}it/s, loss=2.{:03}]", at, at % 100,
                          at % 1000);
     }},
    {"ranks",
     [](std::int64_t at) {
       return fmt::format(
           "[rank{}]: 2025-03-14 03:46:{:02} | INFO | step {} loss=2.{:04} lr=2.9e-05 tok/s={} memory usage {}.1 GiB\n",
           at % 64, at % 60, at / 64, at % 10000, 15000 + at % 97, 40 + at % 10);
     }},
    {"rollouts",
     [](std::int64_t at) {
       return fmt::format(
           "(TaskRunner pid=1234) step:{} - actor/loss:0.{:03} - timing_s/rollout:12.1 - timing_s/save_checkpoint:0.0 "
           "- "
           "perf/max_memory_allocated_gb:41.{:02} - response_length/max:2048.0\n",
           at, at % 1000, at % 100);
     }},
    {"failures",
     [](std::int64_t at) {
       return fmt::format(
           "[rank{}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}.96 GiB. GPU {} has a total "
           "capacity of 79.18 GiB of which 1.08 GiB is free. Including non-PyTorch memory, this process has 78.09 GiB "
           "memory in use. Of the allocated memory 75.31 GiB is allocated by PyTorch, and 1.83 GiB is reserved by "
           "PyTorch but unallocated.\n",
           at % 64, at % 9 + 1, at % 8);
     }},
};

void read_one_kind(benchmark::State& state, const Kind& kind) {
  constexpr std::size_t kSize = std::size_t{256} << 20;
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("plimsoll_why_bench_{}.log", kind.name)).string();
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) std::abort();
  std::size_t written = 0;
  for (std::int64_t at = 0; written < kSize; ++at) {
    const std::string line = kind.line(at);
    written += std::fwrite(line.data(), 1, line.size(), file);
  }
  std::fclose(file);
  for (auto _ : state) {
    why::Collector collector;
    if (!why::read_log(path, collector)) std::abort();
    const why::Findings findings = collector.take();
    benchmark::DoNotOptimize(findings.steps);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(written));
  std::filesystem::remove(path);
}

const int kRegistered = [] {
  for (const Kind& kind : kKinds)
    benchmark::RegisterBenchmark(fmt::format("read_only_{}", kind.name).c_str(),
                                 [&kind](benchmark::State& state) { read_one_kind(state, kind); })
        ->Unit(benchmark::kMillisecond)
        ->Iterations(2);
  return 0;
}();

BENCHMARK(read_one_gigabyte)->Unit(benchmark::kMillisecond)->MinTime(2);

}  // namespace
}  // namespace plimsoll

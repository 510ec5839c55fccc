// SPDX-License-Identifier: Apache-2.0
// Reading a log of 1 GB: step lines, progress bars and chatter of 64 ranks, one failure at the end.
//   cmake --preset release && cmake --build --preset release --target why_bench && build/release/bench/why_bench
// Bar: >= 500 MB/s on one core, less than 200 MB of memory.
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
BENCHMARK(read_one_gigabyte)->Unit(benchmark::kMillisecond)->MinTime(2);

}  // namespace
}  // namespace plimsoll

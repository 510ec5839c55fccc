// SPDX-License-Identifier: Apache-2.0
#include "why/signal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "answer/log_rules.h"

#include "why/support.h"

namespace plimsoll::why {
namespace {

std::optional<Signal> of(std::string_view raw, bool expects_exception = false) {
  std::string scratch;
  Line line;
  clean_line(raw, scratch, line);
  return recognise(line, log_scanner().topics(scratch), expects_exception);
}

struct Row {
  const char* text;
  SignalKind kind;
};

TEST(Signal, lines_are_recognised_by_what_they_say) {
  const Row rows[] = {
      {"[570679.4] Out of memory: Killed process 25315 (python3) total-vm:53312244kB, anon-rss:31451456kB",
       SignalKind::kHostKill},
      {"[2017949.1] Out of memory: Kill process 25635 (python) score 974 or sacrifice child", SignalKind::kHostKill},
      {"slurmstepd: error: Detected 3 oom_kill events in StepId=1.0. Some of the step tasks have been OOM Killed.",
       SignalKind::kHostKill},
      {"slurmstepd: error: Detected 1 oom-kill event(s) in step 1.batch cgroup. Some of your processes may have been "
       "killed by the cgroup "
       "out-of-memory handler.",
       SignalKind::kHostKill},
      {"    Reason:       OOMKilled", SignalKind::kHostKill},
      {"Killed", SignalKind::kKilled},
      {"run.sh: line 12:  4242 Killed                  python train.py", SignalKind::kKilled},
      {"Get\xC3\xB6tet", SignalKind::kKilled},
      {"\xE5\xB7\xB2\xE6\x9D\x80\xE6\xAD\xBB", SignalKind::kKilled},
      {"Process finished with exit code 137 (interrupted by signal 9: SIGKILL)", SignalKind::kKilled},
      {"exitcode  : -9 (pid: 8180)", SignalKind::kKilled},
      {"[launch.py:324:sigkill_handler] ['/usr/bin/python3', 'main.py'] exits with return code = -9",
       SignalKind::kKilled},
      {"RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.", SignalKind::kKilled},
      {"RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly", SignalKind::kKilled},
      {"RuntimeError: DataLoader worker (pid 7) exited unexpectedly with exit code 1. Details are lost due to "
       "multiprocessing.",
       SignalKind::kExit},
      {"ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
       SignalKind::kSharedMemory},
      {"OSError: [Errno 28] No space left on device: '/dev/shm/torch_123'", SignalKind::kSharedMemory},
      {"OSError: [Errno 28] No space left on device", SignalKind::kDiskFull},
      {"safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, message: \"No space left on "
       "device\" })",
       SignalKind::kDiskFull},
      {"RuntimeError: [enforce fail at inline_container.cc:471] . PytorchStreamWriter failed writing file data/228: "
       "file write failed",
       SignalKind::kDiskWrite},
      {"numpy.core._exceptions.MemoryError: Unable to allocate 42.0 GiB for an array with shape (1, 2)",
       SignalKind::kHostAllocation},
      {"terminate called after throwing an instance of 'std::bad_alloc'", SignalKind::kHostAllocation},
      {"OSError: [Errno 12] Cannot allocate memory", SignalKind::kHostAllocation},
      {"node47:30:31 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'", SignalKind::kNcclMemory},
      {"torch.distributed.DistBackendError: NCCL error: ncclUnhandledCudaError: Call to CUDA function failed. Last "
       "error: Cuda failure 2 'out of memory'",
       SignalKind::kNcclMemory},
      {"gpu10:4:4 [6] misc/ibvwrap.cc:178 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad address",
       SignalKind::kNcclRegister},
      {"[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE)",
       SignalKind::kCollectiveTimeout},
      {"RuntimeError: [pair.cc:547] Connection closed by peer [127.0.0.1]:1921", SignalKind::kPeerLost},
      {"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
       SignalKind::kLibraryAlloc},
      {"RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", SignalKind::kLibraryAlloc},
      {"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
       SignalKind::kNoCacheBlocks},
      {"RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", SignalKind::kNoCacheBlocks},
      {"RuntimeError: CUDA error: device-side assert triggered", SignalKind::kAddressing},
      {"kernels/Gather.cu:91: gather: block: [0,2,0], thread: [31,0,0] Assertion `idx < rows` failed.",
       SignalKind::kAddressing},
      {"train: pool.c:71: take: Assertion `n > 0' failed.", SignalKind::kAbort},
      {"gpu3:7:8 [2] enqueue.cc:58 NCCL WARN Cuda failure 'peer access is not supported'", SignalKind::kLibraryOther},
      {"gpu3:7:8 [2] enqueue.cc:58 NCCL WARN Cuda failure 999 'unknown error'", SignalKind::kUnclear},
      {"gpu3:7:8 [2] enqueue.cc:58 NCCL WARN Cuda failure 'device memory used up'", SignalKind::kNcclMemory},
      {"Test NCCL failure sendrecv.cu:90 'unhandled cuda error (run with NCCL_DEBUG=INFO for details)'",
       SignalKind::kUnclear},
      {"Exception raised from ncclCommWatchdog at ProcessGroupNCCL.cpp:1521 (most recent call first):",
       SignalKind::kCollectiveTimeout},
      {"Exception raised from create at Storage.cpp:44 (most recent call first):", SignalKind::kUnclear},
      {"mpirun detected that one or more processes exited with non-zero status", SignalKind::kExit},
      {"Exit code:    3", SignalKind::kExit},
      {"RuntimeError: received 0 items of ancdata", SignalKind::kDescriptors},
      {"RuntimeError: write(): fd 7 failed with Input/output error", SignalKind::kDiskWrite},
      {"acme::BlasError: handle of cuBLAS could not be created", SignalKind::kLibraryAlloc},
      {"srun: error: n12: task 88: Bus error", SignalKind::kSharedMemory},
      {"slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-03-01T10:00:00 ***", SignalKind::kPeerLost},
      {"slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***",
       SignalKind::kTimeLimit},
      {"Error: native memory allocation (malloc) failed to allocate 1048576 bytes for the JVM",
       SignalKind::kHostAllocation},
      {"RuntimeError: CUDA error: an illegal memory access was encountered", SignalKind::kAddressing},
      {"triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: "
       "101376.",
       SignalKind::kKernelResources},
      {"slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2025-01-01T00:00:00 DUE TO TIME LIMIT ***",
       SignalKind::kTimeLimit},
      {"RuntimeError: The kernel on this machine does not support the pidfd_open syscall needed to use IPC for CUDA "
       "tensors when "
       "expandable_segments:True is set.",
       SignalKind::kInterop},
      {"RuntimeError: Tensors allocated with expandable_segments:True cannot be shared between processes.",
       SignalKind::kInterop},
      {"ValueError: Currently there is no support for Pipeline parallelism with CPU offloading", SignalKind::kConfig},
      {"AssertionError: num_attention_heads (40) must be a multiple of tensor_model_parallel_size (16)",
       SignalKind::kConfig},
      {"KeyError: 'input_ids'", SignalKind::kException},
      {"W0502 torch/elastic/api.py:789] Sending process 4315 closing signal SIGTERM", SignalKind::kPeerLost},
      {"exitcode  : 1 (pid: 66444)", SignalKind::kExit},
      {"| WARNING: ran out of memory on GPU #2, skipping batch", SignalKind::kSkippedBatch},
      {"systemd[1]: lm.service: Failed with result 'oom-kill'.", SignalKind::kHostKill},
      {"The session has crashed: it was using all available RAM", SignalKind::kHostKill},
      {"nanny: worker 3 exceeded 90% of its memory budget, restarting", SignalKind::kHostKill},
      {"lm.service: Main process exited, code=killed, status=9/KILL", SignalKind::kKilled},
      {"srun: error: rack4: tasks 8-15: Killed", SignalKind::kKilled},
      {"=   EXIT CODE: 9", SignalKind::kKilled},
      {"epilogue: job 77 exit_status=137", SignalKind::kKilled},
      {"the step ended with a non-zero exit code: container ab12: 137", SignalKind::kKilled},
      {" 17/90 [====>.........] - ETA: 2:11 - loss: 0.4Killed", SignalKind::kKilled},
      {"RuntimeError: three background workers are no longer alive", SignalKind::kPeerLost},
      {"runner: returncode=-9", SignalKind::kKilled},
      {"pool.KilledWorker: the worker that held shard 4 is gone", SignalKind::kKilled},
      {"g++: fatal error: Killed signal terminated program cc1plus", SignalKind::kKilled},
      {"The kernel of notebook 2 appears to have died.", SignalKind::kPeerLost},
      {"Process finished with exit code -1073741819 (0xC0000005)", SignalKind::kAbort},
      {"nvcc: ptxas died due to signal 11", SignalKind::kAbort},
      {"OSError: [WinError 8] Not enough memory resources are available", SignalKind::kHostAllocation},
      {"Memory access fault by GPU node-3 on address 0x7f. Reason: Page not present.", SignalKind::kAddressing},
      {"queue aborting: HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION", SignalKind::kAddressing},
      {"RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", SignalKind::kLibraryAlloc},
      {"RuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasLtCreate(h)`",
       SignalKind::kLibraryAlloc},
      {"RuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasGemmEx(h, n, k)`",
       SignalKind::kLibraryOther},
      {"socketStartConnect: connect to 10.9.0.1<5011> failed: Connection refused", SignalKind::kLibraryOther},
      {"torch.distributed.DistStoreError: Socket Timeout", SignalKind::kCollectiveTimeout},
      {"RuntimeError: Decode out of memory. Lower the batch size.", SignalKind::kNoCacheBlocks},
      {"RuntimeError: Not enough memory for 2048 prefill tokens", SignalKind::kNoCacheBlocks},
      {"[ERROR] Assertion failed: the kv-cache is too small for one block", SignalKind::kNoCacheBlocks},
      {"FATAL ERROR :: MODULE:X_DEVMEM Allocation failed for size::2147483648 (2048)MB", SignalKind::kDeviceOom},
      {"  what():  parallel_for failed: out of memory", SignalKind::kDeviceOom},
      {"failed assertion: Error: total bytes of array > 2**32", SignalKind::kBlockLimit},
      {"The node was low on resource: ephemeral-storage.", SignalKind::kDiskFull},
      {"ValueError: layers were left on the host; you need enough GPU RAM to fit the model", SignalKind::kDeviceOom},
  };
  for (const Row& row : rows) {
    const auto signal = of(row.text);
    ASSERT_TRUE(signal) << row.text;
    EXPECT_EQ(static_cast<int>(signal->kind), static_cast<int>(row.kind)) << row.text;
  }
}

TEST(Signal, harmless_lines_are_no_signal) {
  for (const char* text :
       {"oom_kill 0", "exit code 0", "NCCL INFO comm 0x5 rank 0 - Init COMPLETE", "beam search killed 12 beams",
        "worker pool will be killed after 60 s", "UserWarning: expandable_segments not supported on this platform",
        "FutureWarning: deprecated", "ERROR_RATE: 0.1",
        "memory allocation failed with OOM on device 0 while trying to allocate 2147483648 bytes (free: 1, total: 8).",
        "systemd[1]: Listening on Userspace Out-Of-Memory (OOM) Killer Socket.",
        "slurmstepd: info: task/cgroup: memory limit 512G", "make sure that there is enough GPU RAM to fit the model",
        "prefill takes 3 ms, decode 12 ms", "exit code: 0", "17/90 [====>...] - ETA: 2:11 - loss: 0.4",
        "12 of 90 samples were killed", "all available GPUs are used by the sampler",
        "using all available GPU memory; it must be restarted to take less"})
    EXPECT_FALSE(of(text)) << text;
}

TEST(Signal, a_rule_is_found_by_what_its_framework_prints) {
  const auto rules = answer::catalogue_texts();
  EXPECT_NE(find_config_rule("blah no support for Pipeline parallelism with CPU offloading", rules), nullptr);
  EXPECT_EQ(find_config_rule("a harmless sentence", rules), nullptr);
  const ConfigRule* gap = find_config_rule(
      "global batch size (30) is not divisible by micro batch size (4) times data parallel size (2)", rules);
  ASSERT_NE(gap, nullptr);
  EXPECT_EQ(gap->id, "R004");
}

// What the catalogue prints leads back to its rule, so that one text serves lint and why; and no text is so short
// that any message could have it.
TEST(Signal, every_text_of_the_catalogue_leads_to_a_rule_that_prints_it) {
  std::map<std::vector<std::string>, std::set<std::string>> ids;
  for (const ConfigRule& rule : answer::catalogue_texts()) ids[rule.pieces].insert(rule.id);
  EXPECT_GT(ids.size(), 270U);
  for (const ConfigRule& rule : answer::catalogue_texts()) {
    std::string message = "ValueError: ";
    for (const std::string& piece : rule.pieces) message += piece + " 8 ";
    const ConfigRule* found = find_config_rule(message, answer::catalogue_texts());
    ASSERT_NE(found, nullptr) << message;
    EXPECT_TRUE(ids[rule.pieces].contains(found->id)) << message << " leads to " << found->id << ", not " << rule.id;
    std::size_t longest = 0;
    for (const std::string& piece : rule.pieces) longest = std::max(longest, piece.size());
    EXPECT_GE(longest, 12U) << rule.id;
    EXPECT_FALSE(rule.fix.empty()) << rule.id;
  }
}

}  // namespace
}  // namespace plimsoll::why

// SPDX-License-Identifier: Apache-2.0
// What people meet that is no shortage of anything: each is seen to have failed, and none is called memory, however
// often it says memory, space, buffer, killed or allocate.
#include <gtest/gtest.h>

#include <set>

#include "why/support.h"

namespace plimsoll::why {
namespace {

TEST(Ordinary, failures_are_seen_and_never_called_memory) {
  const std::set<std::string> no_memory = {"not-memory", "unknown", "config-conflict", "expandable-segments-interop"};
  static constexpr const char* kMessages[] = {
      "RuntimeError: shape '[4, 512]' is invalid for input of size 1024",
      "IndexError: index 50257 is out of bounds for dimension 0 with size 50257",
      "TypeError: forward() got an unexpected keyword argument 'memory_mask'",
      "AttributeError: module 'torch.cuda' has no attribute 'memory_reserved'",
      "KeyError: 'memory'",
      "ValueError: memory_efficient_attention requires xformers to be installed",
      "RuntimeError: Error building extension 'fused_adam'",
      "ImportError: cannot import name 'memory_efficient_fusion' from 'functorch.compile'",
      "FileNotFoundError: [Errno 2] No such file or directory: '/data/memory_bank.pt'",
      "PermissionError: [Errno 13] Permission denied: '/dev/shm/lock'",
      "ConnectionRefusedError: [Errno 111] Connection refused",
      "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1269, internal error, NCCL version 2.14.3",
      "torch.cuda.CudaError: invalid device function",
      "AssertionError: Torch not compiled with CUDA enabled",
      "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
      "RuntimeError: cuDNN error: CUDNN_STATUS_BAD_PARAM",
      "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa, opb)`",
      "RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasSgemm`",
      "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
      "RuntimeError: Input, output and indices must be on the current device",
      "RuntimeError: Boolean value of Tensor with more than one value is ambiguous",
      "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
      "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
      "_pickle.UnpicklingError: invalid load key, 'v'.",
      "pickle.UnpicklingError: pickle data was truncated",
      "EOFError: Ran out of input",
      "StopIteration",
      "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Floating point exception.",
      "RuntimeError: Caught RuntimeError in DataLoader worker process 0.",
      "yaml.scanner.ScannerError: mapping values are not allowed here",
      "omegaconf.errors.ConfigAttributeError: Key 'lr' is not in struct",
      "hydra.errors.MissingConfigException: Cannot find primary config 'train'",
      "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA major versions.",
      "RuntimeError: nms is not compiled with GPU support",
      "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.",
      "RuntimeError: Failed to find native CUDA module, make sure that you compiled the code with K2_WITH_CUDA.",
      "RuntimeError: Given groups=1, weight of size [64, 3, 7, 7], expected input[8, 1, 224, 224] to have 3 channels, "
      "but got 1 channels instead",
      "RuntimeError: The size of tensor a (77) must match the size of tensor b (248) at non-singleton dimension 1",
      "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.",
      "AssertionError: Default process group is not initialized",
      "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
      "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
      "ValueError: Unable to create tensor, you should probably activate truncation and/or padding with 'padding=True' "
      "'truncation=True'",
      "ValueError: not enough values to unpack (expected 3, got 2)",
      "OverflowError: int too big to convert",
      "ZeroDivisionError: division by zero",
      "RecursionError: maximum recursion depth exceeded while calling a Python object",
      "RuntimeError: Found dtype Double but expected Float",
      "ValueError: Attention using SDPA does not support float32 with dropout",
      "Segmentation fault (core dumped)",
      "Fatal Python error: Segmentation fault",
      "ValueError: loss is nan at step 312, aborting",
      "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding. Try lowering the "
      "learning rate",
      "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
      "requests.exceptions.ConnectionError: ('Connection aborted.', RemoteDisconnected('Remote end closed connection "
      "without response'))",
      "urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='cdn-lfs.huggingface.co', port=443): Read timed "
      "out.",
      "RuntimeError: CUDA error: no CUDA-capable device is detected",
      "RuntimeError: No CUDA GPUs are available",
      "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use "
      "the 'spawn' start method",
      "RuntimeError: cuda runtime error (710) : device-side assert triggered at "
      "/pytorch/aten/src/THC/generic/THCTensorMath.cu:26",
      "CUDA error 700 at memory.cu:12: an illegal memory access was encountered",
      "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
      "RuntimeError: CUDA error: unspecified launch failure",
      "RuntimeError: CUDA error: misaligned address",
      "CUDA error: uncorrectable ECC error encountered",
      "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376. "
      "Reducing block sizes or `num_stages` may help.",
      "RuntimeError: CUDA error: too many resources requested for launch",
      "ptxas error   : Entry function 'k' uses too much shared data (0x1c000 bytes, 0xc000 max)",
      "OutOfResources: out of resource: tensor memory, Required: 640, Hardware limit: 512",
      "srun: error: Unable to allocate resources: Invalid account or account/partition combination specified",
      "srun: error: Unable to allocate resources: Requested node configuration is not available",
      "sbatch: error: Batch job submission failed: Requested node configuration is not available",
      "salloc: error: Job submit/allocate failed: Invalid qos specification",
      "wandb.errors.CommError: Error communicating with wandb process",
      "ValueError: Cannot use chat template functions because tokenizer.chat_template is not set",
      "RuntimeError: Unable to find target address for pinned version of package",
      "AssertionError: sequence length 8192 exceeds maximum 4096",
      "ValueError: This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
      "java.lang.NullPointerException",
      "OSError: libnccl.so.2: cannot open shared object file: No such file or directory",
      "/usr/bin/ld: cannot find -lcuda: No such file or directory\ncollect2: error: ld returned 1 exit status",
      "nvcc fatal   : Unsupported gpu architecture 'compute_90a'",
      "RuntimeError: Ninja is required to load C++ extensions",
      "RuntimeError: unable to open database file: memory.db",
      "sqlite3.OperationalError: database is locked",
      "RuntimeError: Invalid device pointer: 0x7f00",
      "torch._dynamo.exc.Unsupported: Graph break in user code",
      "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nRuntimeError: Failed to find C compiler",
      "jax.errors.TracerArrayConversionError: The numpy.ndarray conversion method __array__() was called on traced "
      "array",
      "ValueError: One of pjit arguments was given the sharding of NamedSharding, which implies that the global size "
      "of its dimension 0 should be divisible by 8, but it is equal to 6",
      "tensorflow.python.framework.errors_impl.InvalidArgumentError: Incompatible shapes: [32,10] vs. [32,12]",
      "2024-01-01 10:00:00.000: F tensorflow/core/platform/default/env.cc:74] Check failed: ret == 0 (11 vs. 0)Thread "
      "tf_ creation via pthread_create() failed.",
      "CUDA_ERROR_NOT_INITIALIZED: initialization error",
      "E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error",
      "OSError: [Errno 30] Read-only file system: 'ckpt/model.pt'",
  };
  for (const char* message : kMessages) {
    const Answer answer = answer_for(std::string{message} + "\n");
    EXPECT_TRUE(answer.diagnosis.failure) << message;
    EXPECT_TRUE(no_memory.contains(answer.cause())) << answer.cause() << ": " << message;
  }
}

TEST(Ordinary, chatter_is_no_failure) {
  static constexpr const char* kLogs[] = {
      "[INFO] memory pool initialised: 40 GiB free\n[INFO] step 1 loss 2.0\n[INFO] training finished\n",
      "WARNING: memory usage is high (91 %), consider a smaller batch\nstep 1 loss 2\nstep 2 loss 2\nstep 3 loss 2\n",
      "Epoch 3: no space between labels found, skipping\nstep 4 loss 1.0\n",
      "worker killed 3 idle connections\nstep 4 loss 1.0\nstep 5 loss 1.0\n",
      "0 errors, 0 failed, 12 passed\n",
      "step 9 validation error: 0.231\n",
      ("INFO model_runner.py:1028] CUDA graphs can take additional 1~3 GiB memory per GPU. If you are running out of "
       "memory, consider decreasing `gpu_memory_utilization`.\nINFO model_runner.py:1225] Graph capturing finished\n")};
  for (const char* log : kLogs) EXPECT_FALSE(answer_for(log).diagnosis.failure) << log;
}

}  // namespace
}  // namespace plimsoll::why

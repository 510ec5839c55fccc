// SPDX-License-Identifier: Apache-2.0
#include "why/resource_words.h"

#include "why/words.h"

namespace plimsoll::why {

bool names_device(std::string_view text) {
  return has_any(text, {"gpu",
                        "pooled_storage",
                        "device free",
                        "device mem",
                        "ascend",
                        "cuda",
                        "hip ",
                        "hipm",
                        "rocm",
                        "on device",
                        "from device",
                        "hip_error",
                        "device memory",
                        "vram",
                        "hbm",
                        "npu",
                        "xpu",
                        "tpu",
                        "metal",
                        "mps ",
                        "level_zero",
                        "ur_result",
                        "pi_error",
                        "sycl",
                        "_bfc",
                        "cumem",
                        "curesult",
                        "cu_mem",
                        "[trt]",
                        "out_of_device",
                        "outofdevice",
                        "out_of_resources",
                        "video memory",
                        "accelerator",
                        "driver_error",
                        "drivererror",
                        "devmem",
                        "neuron",
                        "nrt_",
                        ".cuh:",
                        ".cu:",
                        "thrust::",
                        "parallel_for failed",
                        "device_id",
                        "rtmalloc"});
}

bool names_host(std::string_view text) {
  return has_any(text, {"host memory",
                        "system memory",
                        "cpu memory",
                        "main memory",
                        "java",
                        "jvm",
                        "native memory",
                        "heap space",
                        "heap memory",
                        "virtual memory",
                        "swap",
                        "cgroup",
                        "physical memory",
                        "cpuallocator",
                        "bad_alloc",
                        "on the node",
                        "on this node",
                        "memory on node",
                        "node was low",
                        "page file",
                        "paging file",
                        "runtime: out of memory",
                        "host_memory",
                        "outofhost",
                        "defaultcpu",
                        "malloc of size",
                        "memory resources"}) ||
         (has_any(text, {"memory allocation of"}) && !has_text(text, "device memory")) ||
         (has_whole(text, "cpu") && !names_device(text)) ||
         (has_whole(text, "ram") && !has_any(text, {"gpu ram", "device ram"}));
}

bool names_pinned(std::string_view text) {
  return has_any(text, {"pinned", "page-locked", "pagelocked", "page locked", "cudahostalloc", "cudahostregister",
                        "cudamallochost", "hiphostmalloc", "hiphostregister", "memlock", "pinning", "pin_memory",
                        "pin memory", "mlock"});
}

bool names_shared(std::string_view text) {
  return has_any(text, {"/dev/shm", "</torch_", "shared memory", "shm_open", "shmget", "(shm)", " shm "});
}

bool names_budget(std::string_view text) {
  return has_any(text, {"kv cache", "kv_cache", "kvcache", "kv-cache", "cache blocks", "block pool", "prefill",
                        "decode out of memory", "mem-fraction-static", "mem_fraction_static"});
}

bool names_engine_option(std::string_view text) {
  return has_any(text, {"max-running-requests", "max_running_requests", "max-num-seqs", "max_num_seqs", "max-model-len",
                        "max_model_len", "max-total-tokens", "max_total_tokens", "gpu-memory-utilization",
                        "gpu_memory_utilization", "max-batch-prefill-tokens", "max-batch-total-tokens",
                        "free_gpu_memory_fraction", "cache-max-entry-count"});
}

bool names_object_store(std::string_view text) { return has_any(text, {"object store", "objectstore", "plasma"}); }

bool names_disk(std::string_view text) {
  return has_any(text, {"disk", "volume", "quota", "file system", "filesystem", "ephemeral-storage", "storagefull",
                        "storage is full", "space left", "free space", "local storage"});
}

bool names_files(std::string_view text) {
  return has_any(text, {"open files", "file descriptor", "open file descriptors"});
}

bool names_block_limit(std::string_view text) {
  return (has_any(text, {"memory block", "buffer size", "block size", "single allocation", "allocation size"}) &&
          has_any(text, {"larger than", "greater than", "exceed", "maximum", "invalid buffer size", "too large"})) ||
         has_any(text, {"invalid buffer size", "max_mem_alloc_size", "max allocation size"}) ||
         (has_text(text, "total bytes of") && has_text(text, " > 2**"));
}

}  // namespace plimsoll::why

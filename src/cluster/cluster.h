// SPDX-License-Identifier: Apache-2.0
// The machines a job runs on: GPUs, nodes, host memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll::cluster {

enum class Architecture : std::uint8_t { kVolta, kTuring, kAmpere, kAda, kHopper, kBlackwell, kAmd, kOther };

// What the part can do at most, from its catalogue entry; 0 where the catalogue does not know.
// FLOP/s are dense peaks, bandwidths bytes per second in one direction.
struct Rates {
  double fp32 = 0;  // outside the tensor cores
  double tf32 = 0;
  double bf16 = 0;
  double fp8 = 0;
  double fp4 = 0;
  double hbm = 0;
  double nvlink = 0;     // to all peers of the domain together
  double nic = 0;        // the GPU's share of its node's network
  double host_link = 0;  // to host memory: PCIe, or C2C on Grace
  std::int64_t sms = 0;
  std::int64_t rack_domain = 0;  // GPUs of an NVLink domain that jobs use across nodes; 0: a node is the domain
  std::int64_t rack_gpus = 0;    // all that it joins: 72 of NVL72, of which 64 are used
};

struct Gpu {
  std::string id;  // "h100-sxm-80gb"
  std::string name;
  Architecture architecture = Architecture::kOther;
  std::int64_t capacity = 0;  // bytes that torch reports as total_memory
  std::int64_t l2_bytes = 0;
  bool capacity_is_measured = false;  // read from reports, else derived from the marketing size
  Rates rates;
  std::string source;

  // 32 MiB cuBLAS workspaces and FP8 TN-only GEMMs start with Hopper (facts megatron-memory.md 3.3, 10).
  [[nodiscard]] bool is_hopper_or_newer() const {
    return architecture == Architecture::kHopper || architecture == Architecture::kBlackwell;
  }
  [[nodiscard]] bool is_blackwell() const { return architecture == Architecture::kBlackwell; }
};

struct Cluster {
  Gpu gpu;
  std::int64_t gpus = 1;
  std::int64_t gpus_per_node = 8;
  std::int64_t host_memory = 0;  // bytes per node; 0: unknown, host needs are reported but not judged
  std::int64_t nvme = 0;         // bytes per node; 0: unknown

  // GPUs that reach each other through NVLink.
  [[nodiscard]] std::int64_t nvlink_domain() const {
    return gpu.rates.rack_domain > gpus_per_node ? gpu.rates.rack_domain : gpus_per_node;
  }
};

// Catalogue of GPUs (catalog/gpus.json, compiled in), by id or alias ("h100", "H100 SXM", "h100-80-sxm").
[[nodiscard]] const std::vector<Gpu>& catalog_gpus();
[[nodiscard]] Result<Gpu> find_gpu(std::string_view name);

// Typical host of a GPU: 8 per node with 2 TiB, or an NVL72 tray. Fills gpus_per_node and host_memory;
// leaves both alone where the catalogue has no node with this GPU.
void use_typical_node(Cluster& cluster);

}  // namespace plimsoll::cluster

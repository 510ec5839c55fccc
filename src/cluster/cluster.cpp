// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "cluster/architecture.h"
#include "document/node.h"

namespace plimsoll::catalog {
extern const std::string_view kGpusJson;  // catalog/gpus.json, embedded by cmake/embed.cmake
}

namespace plimsoll::cluster {

namespace {

using document::Node;

struct TypicalNode {
  std::int64_t gpus = 8;
  std::int64_t host_memory = 0;
};

struct Catalog {
  std::vector<Gpu> gpus;
  std::map<std::string, std::size_t> names;  // folded id, name or alias -> GPU
  std::vector<std::string> suggestions;      // ids and aliases as written
  std::map<std::string, TypicalNode> nodes;  // by GPU id
  std::set<std::string> without_bf16;        // ids
};

// "NVIDIA H100 80GB HBM3", "H100-SXM" and "h100_sxm" as letters and digits, the maker left out.
std::string folded(std::string_view name) {
  std::string result;
  for (const char c : lower(name))
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) result += c;
  for (const std::string_view maker : {"nvidia", "amd", "instinct"})
    if (result.starts_with(maker)) result.erase(0, maker.size());
  return result;
}

Architecture architecture(std::string_view name) {
  if (name == "volta") return Architecture::kVolta;
  if (name == "turing") return Architecture::kTuring;
  if (name == "ampere") return Architecture::kAmpere;
  if (name == "ada") return Architecture::kAda;
  if (name == "hopper") return Architecture::kHopper;
  if (name.starts_with("blackwell")) return Architecture::kBlackwell;
  if (name.starts_with("cdna")) return Architecture::kAmd;
  return Architecture::kOther;
}

std::string word(const Node& entry, std::string_view key) {
  const Node* node = entry.find(key);
  return node == nullptr ? std::string{} : node->text;
}

std::int64_t number(const Node& entry, std::string_view key) {
  const Node* node = entry.find(key);
  return node == nullptr ? 0 : node->integer;
}

// The number under a path of keys; 0 where it is absent or null.
double real(const Node& entry, std::initializer_list<std::string_view> path) {
  const Node* node = &entry;
  for (const std::string_view key : path) {
    node = node->is_object() ? node->find(key) : nullptr;
    if (node == nullptr) return 0;
  }
  return node->is_integer() ? static_cast<double>(node->integer) : node->is_number() ? node->real : 0;
}

Rates rates(const Node& item) {
  constexpr double kTera = 1e12;
  constexpr double kGiga = 1e9;
  Rates r;
  r.bf16 = real(item, {"tflops_dense", "bf16"}) * kTera;
  if (r.bf16 == 0) r.bf16 = real(item, {"tflops_dense", "fp16"}) * kTera;  // parts without bf16 train in fp16
  r.fp32 = real(item, {"tflops_dense", "fp32"}) * kTera;
  r.tf32 = real(item, {"tflops_dense", "tf32"}) * kTera;
  r.fp8 = real(item, {"tflops_dense", "fp8"}) * kTera;
  r.fp4 = real(item, {"tflops_dense", "fp4"}) * kTera;
  r.hbm = real(item, {"hbm", "bandwidth_tb_s"}) * kTera;
  r.nvlink = real(item, {"nvlink", "unidir_gb_s"}) * kGiga;
  r.nic = real(item, {"nic_per_gpu_gbit_s"}) * kGiga / 8;
  r.host_link = std::max(real(item, {"c2c_unidir_gb_s"}), real(item, {"pcie", "unidir_gb_s"})) * kGiga;
  r.sms = number(item, "sms");
  return r;
}

std::vector<std::string> words(const Node& entry, std::string_view key) {
  std::vector<std::string> result;
  if (const Node* list = entry.find(key))
    for (const Node& item : list->items) result.push_back(item.text);
  return result;
}

// The file is part of the program, so a flaw in it is ours and is checked, not reported.
Catalog parse() {
  Catalog catalog;
  Result<Node> root = document::parse_json(plimsoll::catalog::kGpusJson);
  PLIMSOLL_CHECK(root.has_value());
  const Node* gpus = root->find("gpus");
  const Node* nodes = root->find("nodes");
  PLIMSOLL_CHECK(gpus != nullptr && nodes != nullptr);
  for (const Node& item : gpus->items) {
    Gpu gpu;
    gpu.id = word(item, "id");
    gpu.name = word(item, "name");
    gpu.architecture = architecture(word(item, "arch"));
    gpu.capacity = number(item, "capacity_bytes");
    gpu.l2_bytes = number(item, "l2_mib") * kMiB;
    gpu.rates = rates(item);
    const bool has_only_fp16 = real(item, {"tflops_dense", "bf16"}) == 0 && real(item, {"tflops_dense", "fp16"}) > 0;
    if (has_only_fp16) catalog.without_bf16.insert(gpu.id);
    const Node* measured = item.find("capacity_measured");
    gpu.capacity_is_measured = measured != nullptr && measured->boolean;
    gpu.source = fmt::format("capacity: {}; {}", word(item, "capacity_source"), join(words(item, "source"), "; "));
    PLIMSOLL_CHECK(!gpu.id.empty() && gpu.capacity > 0);
    std::vector<std::string> names = words(item, "aliases");
    names.insert(names.begin(), gpu.id);
    for (const std::string& name : names) {
      catalog.names.emplace(folded(name), catalog.gpus.size());
      catalog.suggestions.push_back(name);
    }
    catalog.names.emplace(folded(gpu.name), catalog.gpus.size());
    // Drivers say "NVIDIA GeForce RTX 4090", without the memory that our name ends with.
    const std::size_t space = gpu.name.rfind(' ');
    const bool ends_with_memory = gpu.name.ends_with("GB") && space != std::string::npos;
    if (ends_with_memory) catalog.names.emplace(folded(gpu.name.substr(0, space)), catalog.gpus.size());
    catalog.gpus.push_back(std::move(gpu));
  }
  for (const Node& item : nodes->items) {
    const bool first =
        catalog.nodes
            .emplace(word(item, "gpu"), TypicalNode{number(item, "gpus_per_node"), number(item, "host_memory_bytes")})
            .second;
    if (!first) continue;  // the first node of a GPU is the typical one
    Gpu& gpu = catalog.gpus[catalog.names.at(folded(word(item, "gpu")))];
    const std::int64_t domain = std::max(number(item, "nvlink_domain_usable"), std::int64_t{0});
    if (number(item, "nvlink_domain") > number(item, "gpus_per_node")) {
      gpu.rates.rack_gpus = number(item, "nvlink_domain");
      gpu.rates.rack_domain = domain > 0 ? domain : gpu.rates.rack_gpus;
    }
    if (gpu.rates.nic == 0) gpu.rates.nic = real(item, {"nic_gbit_s_per_gpu"}) * 1e9 / 8;
  }
  return catalog;
}

const Catalog& catalog() {
  static const Catalog kCatalog = parse();
  return kCatalog;
}

}  // namespace

const std::vector<Gpu>& catalog_gpus() { return catalog().gpus; }

Result<Gpu> find_gpu(std::string_view name) {
  const auto found = catalog().names.find(folded(name));
  if (found != catalog().names.end()) return catalog().gpus[found->second];
  const std::string near = nearest(name, catalog().suggestions);
  return bad_input(fmt::format("gpu '{}' is not in the catalogue; plimsoll gpus lists the {} that are",
                               name.substr(0, 200), catalog().gpus.size()),
                   near.empty() ? "" : fmt::format("did you mean {}?", near));
}

void use_typical_node(Cluster& cluster) {
  const auto node = catalog().nodes.find(cluster.gpu.id);
  if (node == catalog().nodes.end()) return;
  cluster.gpus_per_node = node->second.gpus;
  cluster.host_memory = node->second.host_memory;
}

bool lacks_bf16(const Gpu& gpu) { return catalog().without_bf16.contains(gpu.id); }

}  // namespace plimsoll::cluster

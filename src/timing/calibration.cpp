// SPDX-License-Identifier: Apache-2.0
#include "timing/calibration.h"

#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "cluster/architecture.h"
#include "document/node.h"

namespace plimsoll::catalog {
extern const std::string_view kTimingJson;  // catalog/timing.json, embedded by cmake/embed.cmake
}

namespace plimsoll::timing {

namespace {

using document::Node;

// A value is a number, or a table whose "value" is one beside its "source".
Result<double> number_of(const Node& node, std::string_view key) {
  const Node* value = node.is_object() ? node.find("value") : &node;
  if (value == nullptr || !value->is_number())
    return bad_input(fmt::format("{}: wanted a number, or a table with \"value\" and \"source\"", key));
  const double number = value->as_real();
  if (!std::isfinite(number) || number < 0) return bad_input(fmt::format("{}: {} is not a value >= 0", key, number));
  return number;
}

// A value a thousand times another machine's is a slip of units. `known` is what is built in, or nothing for that
// itself.
Status check_size(double number, double known, bool divides, const std::string& key) {
  constexpr double kFactor = 1000;
  if (known <= 0 || (number <= kFactor * known && (!divides || number >= known / kFactor))) return {};
  return bad_input(fmt::format("{}: {:g} is no value that a machine has; the built-in one is {:g}", key, number, known),
                   "rates are shares of the peak from 0 to 1, times are in seconds");
}

template <class Named, class Target>
Status read_values(const Node& table, const std::vector<Named>& names, std::string_view where, Target& target) {
  for (const auto& [key, value] : table.members) {
    if (key == "source" || key == "note") continue;
    const Named* found = nullptr;
    for (const Named& named : names)
      if (named.name == key) found = &named;
    if (found == nullptr) {
      std::vector<std::string> known;
      for (const Named& named : names) known.emplace_back(named.name);
      const std::string near = nearest(key, known);
      return bad_input(fmt::format("{}.{}: no such value", where, std::string_view(key).substr(0, 100)),
                       near.empty() ? "" : fmt::format("did you mean {}?", near));
    }
    PLIMSOLL_TRY(number, number_of(value, fmt::format("{}.{}", where, key)));
    if (found->divides && number <= 0) return bad_input(fmt::format("{}.{}: 0 is no rate", where, key));
    PLIMSOLL_TRY_STATUS(check_size(number, target.*(found->field), found->divides, fmt::format("{}.{}", where, key)));
    target.*(found->field) = number;
  }
  return {};
}

// The entry of a GPU or architecture. A part named for the first time starts from what it would have had.
Device& device_named(const std::string& name, Calibration& calibration) {
  if (name == "fallback") return calibration.fallback;
  // An architecture is no GPU that is misspelt: what it may have been meant for is not looked for.
  std::optional<cluster::Gpu> gpu;
  if (!cluster::is_architecture(name))
    if (auto found = cluster::find_gpu(name)) gpu = *std::move(found);
  const std::string& key = gpu ? gpu->id : name;
  for (auto& [known, device] : calibration.devices)
    if (known == key) return device;
  const Device start = gpu ? device_of(calibration, *gpu) : calibration.fallback;
  return calibration.devices.emplace_back(key, start).second;
}

// Members of a file that `plimsoll calibrate` wrote, besides the values: its head, and the times behind them.
bool is_evidence(std::string_view key) {
  return key == "note" || key == "source" || key == "machine" || key == "measured" || key == "left_out";
}

Result<bool> read_head(const std::string& key, const Node& value, Calibration& calibration) {
  if (key == "kind") {
    if (!value.is_string() || value.text != kCalibrationKind)
      return bad_input(fmt::format("kind: wanted \"{}\"", kCalibrationKind));
  } else if (key == "schema") {
    if (!value.is_number() || value.as_real() != kCalibrationSchema)
      return bad_input(fmt::format("schema: this program reads {}", kCalibrationSchema),
                       "measure again with this version: plimsoll calibrate");
  } else if (key == "gpu") {
    if (!value.is_string()) return bad_input("gpu: wanted the name of a GPU");
    auto gpu = cluster::find_gpu(value.text);
    if (!gpu) return tl::make_unexpected(std::move(gpu.error()).with_context("gpu"));
    calibration.measured_on = gpu->id;
  } else {
    return false;
  }
  return true;
}

Status merge(const Node& root, Calibration& calibration) {
  if (!root.is_object()) return bad_input("wanted a table with \"values\" and \"devices\"");
  for (const auto& [key, value] : root.members) {
    if (is_evidence(key)) continue;
    PLIMSOLL_TRY(was_head, read_head(key, value, calibration));
    if (was_head) continue;
    if (!value.is_object()) return bad_input(fmt::format("{}: wanted a table", std::string_view(key).substr(0, 100)));
    if (key == "values") {
      PLIMSOLL_TRY_STATUS(read_values(value, named_values(), key, calibration));
    } else if (key == "devices") {
      for (const auto& [name, table] : value.members) {
        const std::string where = fmt::format("devices.{}", std::string_view(name).substr(0, 100));
        if (!table.is_object()) return bad_input(fmt::format("{}: wanted a table", where));
        Device& device = device_named(name, calibration);
        PLIMSOLL_TRY_STATUS(read_values(table, named_device_values(), where, device));
        // Only plimsoll calibrate names the GPU that it measured.
        device.host_is_measured = root.has("gpu") && table.has("host_speed");
      }
    } else {
      return bad_input(fmt::format("{}: wanted values or devices", std::string_view(key).substr(0, 100)));
    }
  }
  return {};
}

}  // namespace

const std::vector<NamedValue>& named_values() {
  static const std::vector<NamedValue> kValues = {
      {"gemm_wave_tail", &Calibration::gemm_wave_tail},
      {"gemm_misaligned", &Calibration::gemm_misaligned, true},
      {"grouped_half_rows", &Calibration::grouped_half_rows},
      {"grouped_half_rows_weight", &Calibration::grouped_half_rows_weight},
      {"grouped_half_rows_te", &Calibration::grouped_half_rows_te},
      {"grouped_half_rows_weight_te", &Calibration::grouped_half_rows_weight_te},
      {"eager_stream", &Calibration::eager_stream, true},
      {"eager_elements", &Calibration::eager_elements, true},
      {"permute_stream", &Calibration::permute_stream, true},
      {"kernel_floor", &Calibration::kernel_floor},
      {"attention_tail_forward", &Calibration::attention_tail_forward},
      {"attention_tail_backward", &Calibration::attention_tail_backward},
      {"attention_diagonal_forward", &Calibration::attention_diagonal_forward},
      {"attention_diagonal_backward", &Calibration::attention_diagonal_backward},
      {"attention_other_head", &Calibration::attention_other_head, true},
      {"scan_products", &Calibration::scan_products, true},
      {"transposed_elements", &Calibration::transposed_elements, true},
      {"attention_fp32", &Calibration::attention_fp32},
      {"attention_masked", &Calibration::attention_masked},
      {"attention_fp8", &Calibration::attention_fp8, true},
      {"attention_flash2", &Calibration::attention_flash2, true},
      {"host_kernel_te", &Calibration::host_kernel_te},
      {"host_kernel_local", &Calibration::host_kernel_local},
      {"host_kernel_eager", &Calibration::host_kernel_eager},
      {"host_eager_kernel", &Calibration::host_eager_kernel},
      {"host_eager_module", &Calibration::host_eager_module},
      {"host_rank_step", &Calibration::host_rank_step},
      {"host_rank_weight", &Calibration::host_rank_weight},
      {"host_of_megatron", &Calibration::host_of_megatron},
      {"host_local_replay", &Calibration::host_local_replay},
      {"host_eager_saved", &Calibration::host_eager_saved},
      {"host_eager_update", &Calibration::host_eager_update},
      {"host_launch", &Calibration::host_launch},
      {"host_message", &Calibration::host_message},
      {"host_graph", &Calibration::host_graph},
      {"moe_sync", &Calibration::moe_sync},
      {"step_overhead", &Calibration::step_overhead},
      {"step_overhead_trainer", &Calibration::step_overhead_trainer},
      {"straggler", &Calibration::straggler},
      {"nvlink", &Calibration::nvlink, true},
      {"nic", &Calibration::nic, true},
      {"expert_nvlink", &Calibration::expert_nvlink, true},
      {"expert_nic", &Calibration::expert_nic, true},
      {"all_to_all_nvlink", &Calibration::all_to_all_nvlink, true},
      {"all_to_all_nic", &Calibration::all_to_all_nic, true},
      {"latency_nvlink", &Calibration::latency_nvlink},
      {"latency_network", &Calibration::latency_network},
      {"tensor_exposed", &Calibration::tensor_exposed},
      {"tensor_exposed_alone", &Calibration::tensor_exposed_alone},
      {"data_exposed", &Calibration::data_exposed},
      {"shard_exposed", &Calibration::shard_exposed},
      {"expert_hidden", &Calibration::expert_hidden},
      {"host_link", &Calibration::host_link, true},
      {"offload_slowdown", &Calibration::offload_slowdown},
      {"optimizer_passes", &Calibration::optimizer_passes},
      {"optimizer_narrow", &Calibration::optimizer_narrow},
      {"cpu_update_bytes", &Calibration::cpu_update_bytes, true},
      {"cpu_fused_update_bytes", &Calibration::cpu_fused_update_bytes, true},
      {"cpu_threads", &Calibration::cpu_threads},
      {"nvme_bytes", &Calibration::nvme_bytes, true},
  };
  return kValues;
}

const std::vector<NamedDeviceValue>& named_device_values() {
  static const std::vector<NamedDeviceValue> kValues = {
      {"gemm_bf16", &Device::gemm_bf16},
      {"gemm_fp8", &Device::gemm_fp8},
      {"gemm_mxfp8", &Device::gemm_mxfp8},
      {"gemm_nvfp4", &Device::gemm_nvfp4},
      {"gemm_tf32", &Device::gemm_tf32},
      {"gemm_fp32", &Device::gemm_fp32},
      {"attention_forward", &Device::attention_forward},
      {"attention_backward", &Device::attention_backward},
      {"attention_head_64", &Device::attention_head_64},
      {"attention_latent", &Device::attention_latent},
      {"stream", &Device::stream},
      {"half_depth_bf16", &Device::half_depth_bf16, false},
      {"half_depth_fp8", &Device::half_depth_fp8, false},
      {"half_depth_nvfp4", &Device::half_depth_nvfp4, false},
      {"power", &Device::power, false},
      {"host_speed", &Device::host_speed},
  };
  return kValues;
}

const Calibration& built_in() {
  static const Calibration kBuiltIn = [] {
    Calibration calibration;
    const Result<Node> root = document::parse_json(plimsoll::catalog::kTimingJson);
    PLIMSOLL_CHECK(root.has_value());
    PLIMSOLL_CHECK(merge(*root, calibration).has_value());
    return calibration;
  }();
  return kBuiltIn;
}

Result<Calibration> read_calibration(const std::string& path, std::string_view text) {
  const bool toml = path.ends_with(".toml");
  PLIMSOLL_TRY(root, toml ? document::parse_toml(text) : document::parse_json(text));
  Calibration calibration = built_in();
  PLIMSOLL_TRY_STATUS(merge(root, calibration));
  return calibration;
}

Status check_gpu(const Calibration& calibration, const cluster::Gpu& gpu) {
  if (calibration.measured_on.empty() || calibration.measured_on == gpu.id) return {};
  return bad_input(fmt::format("the calibration was measured on {}, and the job runs on {}", calibration.measured_on,
                               gpu.id.empty() ? "a GPU without a name" : gpu.id),
                   "leave --calibration out, or run plimsoll calibrate on that machine");
}

const Device& device_of(const Calibration& calibration, const cluster::Gpu& gpu) {
  for (const auto& [name, device] : calibration.devices)
    if (name == gpu.id) return device;
  for (const auto& [name, device] : calibration.devices)
    if (name == cluster::name_of(gpu.architecture)) return device;
  return calibration.fallback;
}

}  // namespace plimsoll::timing

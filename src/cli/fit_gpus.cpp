// SPDX-License-Identifier: Apache-2.0
#include "cli/fit_gpus.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/fit_time.h"
#include "cli/json_writer.h"
#include "cli/table.h"
#include "cluster/cluster.h"
#include "lever/price.h"

namespace plimsoll::cli {

namespace {

constexpr const char* kGpus[] = {"rtx4090-24gb",   "l40s-48gb",      "a100-sxm-80gb", "h100-sxm-80gb",
                                 "h200-sxm-141gb", "b200-sxm-180gb", "mi300x-192gb"};
constexpr std::int64_t kMostGpus = 64;

struct Method {
  const char* name;
  job::Settings settings;
};

std::vector<Method> methods(const job::Request& request) {
  const job::Settings whole = {{"gradient_checkpointing", "true"}};
  job::Settings adapters = whole;
  adapters.insert(adapters.end(), {{"peft", "lora"}, {"lora_rank", "16"}, {"lora_target_modules", "all-linear"}});
  job::Settings quantised = adapters;
  quantised.emplace_back("load_in_4bit", "true");
  if (request.sets("peft") || request.sets("load_in_4bit")) return {{"as asked", whole}};
  return {{"full", whole}, {"LoRA", adapters}, {"QLoRA", quantised}};
}

// The fewest GPUs that hold it, as far as kMostGpus; nothing where none does or the framework refuses it.
std::optional<std::int64_t> fewest(const job::Request& request, const Method& method, const char* gpu,
                                   const lever::World& world) {
  const auto asked = request.options().gpus;
  for (std::int64_t gpus = asked.value_or(1); gpus <= std::max(kMostGpus, asked.value_or(1)); gpus *= 2) {
    job::Settings settings;
    for (const auto& setting : method.settings)
      if (!request.sets(setting.first)) settings.push_back(setting);
    settings.emplace_back("gpu", gpu);
    settings.emplace_back("gpus", std::to_string(gpus));
    if (gpus > 1 && !request.options().framework) settings.emplace_back("framework", "fsdp2");
    const auto job = job::resolve(request.with(settings));
    const auto price = job ? lever::price(*job, world) : Result<lever::Price>{tl::make_unexpected(job.error())};
    if (price && price->fits()) return gpus;
    if (asked) break;
  }
  return std::nullopt;
}

}  // namespace

bool asks_for_gpus(const job::Request& request) {
  return request.files().empty() && request.options().gpu.empty() && !request.sets("gpu_memory");
}

Result<ExitCode> fit_common_gpus(const job::Request& request, const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY(world, world_of(arguments));
  const std::vector<Method> all = methods(request);
  std::vector<Column> columns = {{"GPU"}, {"GiB", Align::kRight}};
  for (const Method& method : all) columns.push_back({method.name, Align::kRight});
  Table table(columns);
  JsonWriter json;
  json.begin_object().member("schema", 1).member("model", request.options().model).key("fewest_gpus").begin_array();
  bool any = false;
  for (const char* name : kGpus) {
    PLIMSOLL_TRY(gpu, cluster::find_gpu(name));
    std::vector<Cell> cells = {name, fmt::format("{:.0f}", static_cast<double>(gpu.capacity) / kGiB)};
    json.begin_object(Layout::kInline).member("gpu", name);
    for (const Method& method : all) {
      const auto count = fewest(request, method, name, world);
      any = any || count.has_value();
      cells.emplace_back(count ? std::to_string(*count) : "-");
      json.member(method.name, count);
    }
    json.end_object();
    table.add_row(std::move(cells));
  }
  json.end_array().end_object();
  if (arguments.has("json")) {
    console.print(json.take());
  } else {
    console.print(fmt::format("fewest GPUs that hold {}, with activation checkpointing and FSDP2 over several\n\n{}",
                              request.options().model, table.to_text(console.width, console.colour_out)));
  }
  for (const std::string& note : request.options().notes) console.note(note);
  console.next(fmt::format("plimsoll fit {} --gpu h100 --gpus 8", request.options().model));
  return any ? ExitCode::kYes : ExitCode::kNo;
}

}  // namespace plimsoll::cli

// SPDX-License-Identifier: Apache-2.0
#include "answer/where_it_fits.h"

#include <algorithm>

#include <fmt/format.h>

#include "answer/json.h"
#include "cluster/cluster.h"
#include "job/hybrid_model.h"
#include "lever/price.h"
#include "model/catalog.h"

namespace plimsoll::answer {

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
    if (gpus > 1 && !request.options().framework)
      settings.emplace_back("framework", job::name_of(job::assumed_framework(job::Assumed::kForManyGpus)));
    const auto job = job::resolve(request.with(settings));
    const auto price = job ? lever::price(*job, world) : Result<lever::Price>{tl::make_unexpected(job.error())};
    if (price && price->fits()) return gpus;
    if (asked) break;
  }
  return std::nullopt;
}

}  // namespace

bool WhereItFits::any() const {
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return std::any_of(row.fewest.begin(), row.fewest.end(), [](const auto& count) { return count.has_value(); });
  });
}

bool asks_where_it_fits(const job::Request& request) {
  return request.files().empty() && request.options().gpu.empty() && !request.sets("gpu_memory");
}

Result<WhereItFits> where_it_fits(const job::Request& request, const lever::World& world) {
  const std::string& named = request.options().model;
  // What the table shards and adapts are modules of Transformers.
  if (const auto model = model::find_model(named); model && job::routes_alone(*model))
    return tl::make_unexpected(
        Error{Code::kMissing,
              fmt::format("{} has experts in layers of their own, which are modelled as Megatron runs them: how many "
                          "GPUs hold it depends on how it is split",
                          named),
              {},
              fmt::format("plimsoll plan {} --gpu h100 --min-gpus finds the fewest", named)});
  const std::vector<Method> all = methods(request);
  WhereItFits answer;
  answer.model = request.options().model;
  for (const Method& method : all) answer.methods.emplace_back(method.name);
  for (const char* name : kGpus) {
    PLIMSOLL_TRY(gpu, cluster::find_gpu(name));
    WhereItFits::Row row{name, gpu.capacity, {}};
    for (const Method& method : all) row.fewest.push_back(fewest(request, method, name, world));
    answer.rows.push_back(std::move(row));
  }
  return answer;
}

std::string to_json(const WhereItFits& answer) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("model", answer.model).key("fewest_gpus").begin_array();
  for (const WhereItFits::Row& row : answer.rows) {
    json.begin_object(Layout::kInline).member("gpu", row.gpu);
    for (std::size_t i = 0; i < row.fewest.size(); ++i) json.member(answer.methods[i], row.fewest[i]);
    json.end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::answer

// SPDX-License-Identifier: Apache-2.0
// plimsoll models: the catalogue of models that a job can name.
#include <fmt/format.h>

#include "base/text.h"
#include "cli/json_writer.h"
#include "cli/listing.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "model/catalog.h"

namespace plimsoll::cli {

namespace {

struct ListedModel {
  const model::CatalogEntry* entry;
  model::Architecture architecture;
};

// "70.6 B", "124.4 M": parameters as people name models; powers of ten.
std::string billions(std::int64_t count) {
  const auto number = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.1f} B", number / 1e9);
  return fmt::format("{:.1f} M", number / 1e6);
}

std::string to_json(const std::vector<ListedModel>& models) {
  JsonWriter json;
  json.begin_object().member("schema", 1).key("models").begin_array();
  for (const ListedModel& listed : models) {
    const model::CatalogEntry& entry = *listed.entry;
    json.begin_object().member("name", entry.name).member("parameters", entry.parameters);
    if (entry.active_parameters > 0) json.member("active_parameters", entry.active_parameters);
    if (entry.mtp_parameters > 0) json.member("mtp_parameters", entry.mtp_parameters);
    json.member("num_layers", listed.architecture.depth())
        .member("hidden_size", listed.architecture.hidden)
        .member("vocab_size", listed.architecture.vocab);
    json.key("aliases").begin_array(Layout::kInline);
    for (const std::string& alias : entry.aliases) json.value(alias);
    json.end_array().member("source", entry.source).end_object();
  }
  return json.end_array().end_object().take();
}

std::string to_table(const std::vector<ListedModel>& models, const Console& console) {
  Table table({{"model"},
               {"parameters", Align::kRight},
               {"active", Align::kRight},
               {"layers", Align::kRight},
               {"hidden", Align::kRight},
               {"vocab", Align::kRight},
               {"also called", Align::kLeft, true}});
  for (const ListedModel& listed : models) {
    const model::CatalogEntry& entry = *listed.entry;
    table.add_row({entry.name, billions(entry.parameters),
                   entry.active_parameters > 0 ? billions(entry.active_parameters) : std::string{},
                   std::to_string(listed.architecture.depth()), std::to_string(listed.architecture.hidden),
                   std::to_string(listed.architecture.vocab), join(entry.aliases, ", ")});
  }
  return table.to_text(console.width, console.colour_out);
}

Result<ExitCode> run(const Arguments& arguments, const Console& console) {
  std::vector<ListedModel> models;
  std::vector<std::string> all_names;
  for (const model::CatalogEntry& entry : model::catalog_entries()) {
    std::vector<std::string> names = entry.aliases;
    names.push_back(entry.name);
    if (is_asked_for(arguments, names)) {
      PLIMSOLL_TRY(architecture, model::find_model(entry.name));
      models.push_back({&entry, std::move(architecture)});
    }
    all_names.insert(all_names.end(), names.begin(), names.end());
  }
  if (models.empty()) return nothing_matches(arguments, "model", all_names);
  console.print(arguments.has("json") ? to_json(models) : to_table(models, console));
  console.next(fmt::format("plimsoll fit --model {} --gpu h100-sxm-80gb --gpus 8", models.front().entry->name));
  return ExitCode::kYes;
}

}  // namespace

extern const Verb kModels;
const Verb kModels = {
    .name = "models",
    .summary = "list the models that a job can name",
    .operands = "[TEXT]",
    .most_operands = 1,
    .details =
        "Lists the catalogue, or the models with TEXT in their name. A job names a model by its name or by any "
        "of the other names, in any case; a model that is not here is given as the path of its Hugging Face "
        "config.json.",
    .flags = {},
    .takes_keys = false,
    .examples = {{"plimsoll models llama", "the Llama models"},
                 {"plimsoll models --json", "everything about every model, with its source"}},
    .run = run,
};

}  // namespace plimsoll::cli

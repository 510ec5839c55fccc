// SPDX-License-Identifier: Apache-2.0
// plimsoll models: the catalogue of models that a job can name.
#include <fmt/format.h>

#include "answer/listing.h"
#include "base/text.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace plimsoll::cli {

namespace {

// "70.6 B", "124.4 M": parameters as people name models; powers of ten.
std::string billions(std::int64_t count) {
  const auto number = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.1f} B", number / 1e9);
  return fmt::format("{:.1f} M", number / 1e6);
}

std::string to_table(const answer::Models& models, const Console& console) {
  Table table({{"model"},
               {"parameters", Align::kRight},
               {"active", Align::kRight},
               {"layers", Align::kRight},
               {"hidden", Align::kRight},
               {"vocab", Align::kRight},
               {"also called", Align::kLeft, true}});
  for (const answer::ListedModel& listed : models) {
    const model::CatalogEntry& entry = *listed.entry;
    table.add_row({entry.name, billions(entry.parameters),
                   entry.active_parameters > 0 ? billions(entry.active_parameters) : std::string{},
                   std::to_string(listed.architecture.depth()), std::to_string(listed.architecture.hidden),
                   std::to_string(listed.architecture.vocab), join(entry.aliases, ", ")});
  }
  return table.to_text(console.width, console.colour_out);
}

Result<ExitCode> run_models(const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY(models, answer::find_models(arguments.operand()));
  console.print(arguments.has("json") ? answer::to_json(models) : to_table(models, console));
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
    .run = run_models,
};

}  // namespace plimsoll::cli

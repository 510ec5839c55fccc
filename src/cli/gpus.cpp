// SPDX-License-Identifier: Apache-2.0
// plimsoll gpus: the catalogue of GPUs that a job can name.
#include <fmt/format.h>

#include "answer/listing.h"
#include "base/bytes.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace plimsoll::cli {

namespace {

std::string to_table(const answer::Gpus& gpus, const Console& console) {
  Table table({{"gpu"}, {"name", Align::kLeft, true}, {"architecture"}, {"GiB", Align::kRight}, {"capacity is"}});
  for (const cluster::Gpu* gpu : gpus)
    table.add_row({gpu->id, gpu->name, std::string{name_of(gpu->architecture)}, format_gib(gpu->capacity),
                   gpu->capacity_is_measured ? "measured" : "derived"});
  return table.to_text(console.width, console.colour_out);
}

Result<ExitCode> run_gpus(const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY(gpus, answer::find_gpus(arguments.operand()));
  console.print(arguments.has("json") ? answer::to_json(gpus) : to_table(gpus, console));
  console.next(fmt::format("plimsoll fit --model llama3-8b --gpu {} --gpus 8", gpus.front()->id));
  return ExitCode::kYes;
}

}  // namespace

extern const Verb kGpus;
const Verb kGpus = {
    .name = "gpus",
    .summary = "list the GPUs that a job can name",
    .operands = "[TEXT]",
    .most_operands = 1,
    .details =
        "Lists the catalogue, or the GPUs with TEXT in their name. The capacity is what PyTorch reports as the "
        "device's total memory: measured where reports of it were found, else derived from the advertised "
        "size less the driver's share.",
    .flags = {},
    .takes_keys = false,
    .examples = {{"plimsoll gpus h100", "the variants of one GPU"},
                 {"plimsoll gpus --json", "everything about every GPU, with its source"}},
    .run = run_gpus,
};

}  // namespace plimsoll::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/read_report.h"

#include <fmt/format.h>

#include "cli/table.h"

namespace plimsoll::cli {

std::string read_report(const answer::Understood& understood, const Console& console) {
  Table table({{"key"}, {"value", Align::kLeft, true}, {"from", Align::kLeft, true}});
  const model::Architecture& model = understood.job.model;
  table.add_row({"framework", std::string{job::name_of(understood.job.framework)}, ""});
  if (!model.layers.empty())
    table.add_row({"model", model.name, fmt::format("{} layers, width {}", model.depth(), model.hidden)});
  for (const job::KeyOrigin& key : understood.keys) table.add_row({key.key, key.value, answer::source_of(key)});
  std::string text = table.to_text(console.width, console.colour_out);
  for (const std::string& missing : understood.missing) text += fmt::format("missing: {}\n", missing);
  for (const rules::Violation& violation : understood.violations)
    if (violation.rule->severity == rules::Severity::kError)
      text += fmt::format("refused by {}: {}; {} ({})\n", job::name_of(understood.job.framework), violation.wrong,
                          violation.rule->fix, violation.rule->id);
  return text;
}

}  // namespace plimsoll::cli

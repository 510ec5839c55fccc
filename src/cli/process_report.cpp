// SPDX-License-Identifier: Apache-2.0
#include "cli/process_report.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

std::string settings_table(const std::vector<answer::CheckedSetting>& settings, const Console& console) {
  Table table({{"setting", Align::kLeft, false}, {"value", Align::kLeft, true}, {"what follows", Align::kLeft, true}});
  for (const answer::CheckedSetting& setting : settings)
    table.add_row({setting.name, setting.value.empty() ? "-" : setting.value,
                   Cell{setting.verdict, setting.is_problem ? Style::kWarning : Style::kPlain}});
  return table.to_text(console.width, console.colour_out);
}

}  // namespace

std::string process_report(const answer::LiveProcess& process, const Console& console) {
  std::string text = fmt::format("process {}: {}\nhost memory {} (most {}{}){}\n\n", process.pid, process.command,
                                 format_bytes(process.resident), format_bytes(process.peak),
                                 process.shared > 0 ? ", shared " + format_bytes(process.shared) : "",
                                 process.limit > 0 ? ", limit " + format_bytes(process.limit) : "");
  return text + settings_table(process.settings, console);
}

std::string script_report(const answer::CheckedScript& script, const Console& console) {
  return fmt::format("{}: what it gives to the program\n\n", script.path) + settings_table(script.settings, console);
}

}  // namespace plimsoll::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/fit_capture_report.h"

#include <charconv>

#include <fmt/format.h>

#include "answer/captured.h"
#include "base/bytes.h"
#include "base/text.h"
#include "cli/fit_report.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

constexpr std::size_t kMostHolders = 12;

Result<std::optional<std::int64_t>> size_key(const Arguments& arguments, std::string_view key) {
  std::optional<std::int64_t> size;
  for (const auto& [name, text] : arguments.keys) {
    if (name != key) continue;
    std::int64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || value < 1)
      return usage_error(fmt::format("--{} is '{}'; wanted a positive whole number", replace(key, '_', '-'), text));
    size = value;
  }
  return size;
}

// A capture has its model, its precision and its optimizer in it; only what it leaves open can be asked.
Status check_keys(const Arguments& arguments) {
  for (const auto& [key, value] : arguments.keys)
    if (key != "micro_batch_size" && key != "seq_length" && key != "gradient_accumulation_steps")
      return usage_error(
          fmt::format("--{} with a capture: what ran was captured as it was", replace(key, '_', '-')),
          "--gpu, --allocator, --micro-batch-size, --seq-length and --gradient-accumulation-steps can be asked of "
          "a capture");
  for (const std::string_view flag : {"framework", "model", "sweep", "rank", "all-ranks", "calibration", "script-args"})
    if (arguments.has(flag)) return usage_error(fmt::format("--{} does nothing with a capture", flag));
  return {};
}

std::string report(const answer::Captured& captured, const Console& console) {
  const capture::Answer& answer = captured.answer;
  const memory::RankAnswer& rank = answer.rank;
  std::string text = fmt::format(
      "{} {}\n",
      paint(rank.fits ? "fits:" : "does not fit:", rank.fits ? Style::kGood : Style::kBad, console.colour_out),
      rank.fits ? fmt::format("{} of {} GiB are free", format_gib(rank.headroom), format_gib(rank.capacity))
                : fmt::format("{} GiB are needed, {} GiB are there", format_gib(rank.device_used),
                              format_gib(rank.capacity)));
  text += fmt::format("interval: {} to {} GiB of device memory\n", format_gib(rank.low), format_gib(rank.high));
  text += fmt::format("captured with PyTorch {}: batch {}, length {}, {} parameters, {} operations and storages\n\n",
                      captured.step.torch, captured.step.batch, captured.step.sequence, with_commas(rank.parameters),
                      with_commas(static_cast<std::int64_t>(captured.step.events.size())));
  text += memory_table(rank, console);
  text += fmt::format("\npeak: {} GiB allocated, {} GiB reserved, in {}{}{}\n\n", format_gib(rank.peak_allocated),
                      format_gib(rank.peak_reserved), step::text_of(rank.peak.moment.phase),
                      answer.peak_operation.empty() ? "" : ", " + answer.peak_operation,
                      answer.peak_place.empty() ? "" : " of " + answer.peak_place);
  Table table(
      {{"alive at the peak, made by"}, {"in", Align::kLeft, true}, {"tensors", Align::kRight}, {"GiB", Align::kRight}});
  std::int64_t rest = 0;
  for (std::size_t i = 0; i < answer.holders.size(); ++i) {
    const capture::Holder& holder = answer.holders[i];
    if (i >= kMostHolders) {
      rest += holder.bytes;
      continue;
    }
    table.add_row({holder.operation.empty() ? "the step's inputs" : holder.operation, holder.module,
                   std::to_string(holder.count), format_gib(holder.bytes)});
  }
  if (rest > 0) table.add_row({"others", "", "", format_gib(rest)});
  return text + table.to_text(console.width, console.colour_out);
}

}  // namespace

Result<ExitCode> fit_captures(const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY_STATUS(check_keys(arguments));
  answer::CapturedQuestion question{
      arguments.operands, arguments.value("gpu").value_or(""), arguments.value("allocator").value_or(""), {}, {}, 1};
  PLIMSOLL_TRY(batch, size_key(arguments, "micro_batch_size"));
  PLIMSOLL_TRY(sequence, size_key(arguments, "seq_length"));
  PLIMSOLL_TRY(accumulation, size_key(arguments, "gradient_accumulation_steps"));
  question.accumulation = accumulation.value_or(1);
  question.micro_batch = batch;
  question.seq_length = sequence;
  PLIMSOLL_TRY(captured, answer::fit_captured(question));
  console.print(arguments.has("json") ? answer::to_json(captured) : report(captured, console));
  for (const std::string& warning : captured.answer.warnings) console.warn(warning);
  return captured.answer.rank.fits ? ExitCode::kYes : ExitCode::kNo;
}

}  // namespace plimsoll::cli

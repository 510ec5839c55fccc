// SPDX-License-Identifier: Apache-2.0
#include "cli/fit_capture.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "capture/answer.h"
#include "capture/sizes.h"
#include "cli/fit_report.h"
#include "cli/json_writer.h"
#include "cli/table.h"
#include "cluster/cluster.h"

namespace plimsoll::cli {

namespace {

constexpr std::size_t kMostHolders = 12;

struct Question {
  capture::Capture step;
  cluster::Gpu gpu;
  allocator::Settings settings;
};

Result<std::int64_t> size_key(const Arguments& arguments, std::string_view key, std::int64_t captured) {
  std::int64_t value = captured;
  for (const auto& [name, text] : arguments.keys) {
    if (name != key) continue;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || value < 1)
      return usage_error(fmt::format("--{} is '{}'; wanted a positive whole number", replace(key, '_', '-'), text));
  }
  return value;
}

// A capture has its model, its precision and its optimizer in it; only what it leaves open can be asked.
Status check_keys(const Arguments& arguments) {
  for (const auto& [key, value] : arguments.keys)
    if (key != "micro_batch_size" && key != "seq_length")
      return usage_error(fmt::format("--{} with a capture: what ran was captured as it was", replace(key, '_', '-')),
                         "--gpu, --allocator, --micro-batch-size and --seq-length can be asked of a capture");
  for (const std::string_view flag : {"framework", "model", "sweep", "rank", "all-ranks", "calibration", "script-args"})
    if (arguments.has(flag)) return usage_error(fmt::format("--{} does nothing with a capture", flag));
  return {};
}

Result<Question> question_of(const Arguments& arguments) {
  PLIMSOLL_TRY_STATUS(check_keys(arguments));
  if (!arguments.has("gpu")) return usage_error("--gpu is missing; wanted a name of plimsoll gpus");
  Question question;
  PLIMSOLL_TRY(gpu, cluster::find_gpu(*arguments.value("gpu")));
  question.gpu = std::move(gpu);
  PLIMSOLL_TRY(settings, allocator::parse_settings(arguments.value("allocator").value_or("")));
  question.settings = settings;
  std::vector<capture::Capture> known;
  for (const std::string& path : arguments.operands) {
    PLIMSOLL_TRY(one, capture::read_capture(path));
    known.push_back(std::move(one));
  }
  PLIMSOLL_TRY(batch, size_key(arguments, "micro_batch_size", known.front().batch));
  PLIMSOLL_TRY(sequence, size_key(arguments, "seq_length", known.front().sequence));
  PLIMSOLL_TRY(step, capture::at_size(known, batch, sequence));
  question.step = std::move(step);
  return question;
}

std::string report(const Question& question, const capture::Answer& answer, const Console& console) {
  const memory::RankAnswer& rank = answer.rank;
  std::string text = fmt::format(
      "{} {}\n",
      paint(rank.fits ? "fits:" : "does not fit:", rank.fits ? Style::kGood : Style::kBad, console.colour_out),
      rank.fits ? fmt::format("{} of {} GiB are free", format_gib(rank.headroom), format_gib(rank.capacity))
                : fmt::format("{} GiB are needed, {} GiB are there", format_gib(rank.device_used),
                              format_gib(rank.capacity)));
  text += fmt::format("interval: {} to {} GiB of device memory\n", format_gib(rank.low), format_gib(rank.high));
  text += fmt::format("captured with PyTorch {}: batch {}, length {}, {} parameters, {} operations and storages\n\n",
                      question.step.torch, question.step.batch, question.step.sequence, with_commas(rank.parameters),
                      with_commas(static_cast<std::int64_t>(question.step.events.size())));
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

std::string json(const Question& question, const capture::Answer& answer) {
  const memory::RankAnswer& rank = answer.rank;
  JsonWriter w;
  w.begin_object().member("schema", 1).member("verb", "fit").member("capture", true);
  w.member("fits", rank.fits).member("gpu", question.gpu.id).member("torch", question.step.torch);
  w.member("batch", question.step.batch).member("sequence", question.step.sequence);
  w.member("parameters", rank.parameters).member("capacity", rank.capacity);
  w.member("peak_allocated", rank.peak_allocated).member("peak_reserved", rank.peak_reserved);
  w.member("device_used", rank.device_used).member("low", rank.low).member("high", rank.high);
  w.key("phases").begin_object();
  for (std::size_t i = 0; i < rank.phases.size(); ++i)
    if (rank.phases[i].peak_allocated > 0)
      w.member(step::text_of(static_cast<step::Phase>(i)), rank.phases[i].peak_allocated);
  w.end_object().key("table").begin_array();
  for (const memory::Row& row : rank.table)
    w.begin_object(Layout::kInline).member("name", row.name).member("bytes", row.bytes).end_object();
  w.end_array().key("alive").begin_array();
  for (const capture::Holder& holder : answer.holders)
    w.begin_object(Layout::kInline)
        .member("operation", holder.operation)
        .member("module", holder.module)
        .member("count", holder.count)
        .member("bytes", holder.bytes)
        .end_object();
  w.end_array().key("warnings").begin_array();
  for (const std::string& warning : answer.warnings) w.value(warning);
  w.end_array().end_object();
  return w.take();
}

}  // namespace

Result<bool> names_captures(const Arguments& arguments) {
  const auto captures = std::count_if(arguments.operands.begin(), arguments.operands.end(), capture::is_capture);
  if (captures == 0) return false;
  if (captures != static_cast<std::ptrdiff_t>(arguments.operands.size()))
    return usage_error("captures and other files together; wanted captures alone",
                       "a capture has the whole step in it");
  return true;
}

Result<ExitCode> fit_captures(const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY(question, question_of(arguments));
  const capture::Answer answer = capture::answer(question.step, question.gpu, question.settings);
  console.print(arguments.has("json") ? json(question, answer) : report(question, answer, console));
  for (const std::string& warning : answer.warnings) console.warn(warning);
  return answer.rank.fits ? ExitCode::kYes : ExitCode::kNo;
}

}  // namespace plimsoll::cli

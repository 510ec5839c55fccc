// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "cli/diff_report.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

constexpr std::size_t kMostGroups = 16;

std::string signed_gib(std::int64_t bytes) { return fmt::format("{}{}", bytes > 0 ? "+" : "", format_gib(bytes, 3)); }

// A line about the requests that one of the two makes alone.
std::string words(const answer::StepDiff::Side& side, const answer::StepDiff::Requests& requests) {
  if (!requests.first) return "";
  const answer::NamedTensor& first = *requests.first;
  return fmt::format("  {}: {} alone, the first {}, {}{}{}, in {}\n", side.name, requests.alone,
                     format_bytes(first.bytes), first.made_by, first.in.empty() ? "" : ", ", first.in, first.phase);
}

Table figures_of(const answer::StepDiff& diff) {
  Table figures({{"peak"}, {diff.a.name, Align::kRight}, {diff.b.name, Align::kRight}, {"change", Align::kRight}});
  const auto add = [&figures](const char* name, std::int64_t a, std::int64_t b) {
    figures.add_row({name, format_gib(a, 3), format_gib(b, 3), signed_gib(b - a)});
  };
  const memory::RankAnswer& a = diff.a.rank;
  const memory::RankAnswer& b = diff.b.rank;
  add("device GiB", a.device_used, b.device_used);
  add("reserved GiB", a.peak_reserved, b.peak_reserved);
  add("allocated GiB", a.peak_allocated, b.peak_allocated);
  const auto when = [](const memory::RankAnswer& rank) { return std::string(step::text_of(rank.peak.moment.phase)); };
  figures.add_row({"in", when(a), when(b), ""});
  const auto parameters = [](const memory::RankAnswer& rank) { return with_commas(rank.parameters); };
  figures.add_row({"parameters", parameters(a), parameters(b), with_commas(b.parameters - a.parameters)});
  return figures;
}

}  // namespace

std::string step_diff_report(const answer::StepDiff& diff, const Console& console) {
  std::string text = figures_of(diff).to_text(console.width, console.colour_out);
  const bool is_same = !diff.requested_by_a.first && !diff.requested_by_b.first;
  text += fmt::format("\nrequests of a step, of {} and more: {} are the same{}\n", format_bytes(diff.least),
                      diff.same_requests, is_same ? ", and there is no other" : "");
  text += words(diff.a, diff.requested_by_a) + words(diff.b, diff.requested_by_b);
  if (diff.groups.empty()) return text + "\nwhat is alive at the peaks is the same\n";
  Table table({{"alive at the peaks, made by"},
               {"in", Align::kLeft, true},
               {"before", Align::kRight},
               {"after", Align::kRight},
               {"GiB", Align::kRight}});
  std::int64_t rest = diff.difference;
  for (std::size_t i = 0; i < diff.groups.size() && i < kMostGroups; ++i) {
    const answer::TensorGroup& group = diff.groups[i];
    table.add_row({group.made_by, group.in, std::to_string(group.count_a), std::to_string(group.count_b),
                   signed_gib(group.difference())});
    rest -= group.difference();
  }
  if (rest != 0) table.add_row({"others", "", "", "", signed_gib(rest)});
  table.add_row({"difference of the peaks", "", "", "", signed_gib(diff.difference)});
  return text + "\n" + table.to_text(console.width, console.colour_out) +
         "(tensors of one size at both peaks are left out)\n";
}

}  // namespace plimsoll::cli

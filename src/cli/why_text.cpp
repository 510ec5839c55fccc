// SPDX-License-Identifier: Apache-2.0
#include "cli/why_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

// Lines of one part beside its name, wrapped to the screen.
class Sheet {
 public:
  explicit Sheet(const Console& console)
      : console_(console), width_(console.width > 40 ? static_cast<std::size_t>(console.width) : 110) {}

  void head(std::string_view text, Style style) {
    text_ += paint(printable(text, 1U << 12), style, console_.colour_out) + "\n";
  }
  void part(std::string_view name) { name_ = name; }
  void line(std::string_view text, Style style = Style::kPlain, std::size_t indent = 0) {
    constexpr std::size_t kMargin = 10;
    constexpr std::size_t kMostShown = 1U << 14;
    bool first = true;
    for (const std::string& words : wrap(printable(text, kMostShown), width_ - kMargin - indent)) {
      const std::string row = std::string(indent, ' ') + words;
      const std::string label = first ? std::exchange(name_, {}) : std::string{};
      text_ += paint(fmt::format("{:<{}}", label, kMargin), Style::kDim, console_.colour_out) +
               paint(row, style, console_.colour_out) + "\n";
      first = false;
    }
  }
  void gap() { text_ += "\n"; }
  [[nodiscard]] std::size_t width() const { return width_ - 10; }
  [[nodiscard]] std::string take() {
    // No blanks at the ends of lines.
    std::string clean;
    for (const std::string_view row : split(text_, '\n')) {
      std::string_view kept = row;
      while (!kept.empty() && kept.back() == ' ') kept.remove_suffix(1);
      clean += std::string{kept} + "\n";
    }
    while (clean.ends_with("\n\n")) clean.pop_back();
    return clean;
  }

 private:
  const Console& console_;
  std::size_t width_;
  std::string text_;
  std::string name_;
};

std::string percent(double probability) { return fmt::format("{:.0f} %", probability * 100); }

std::string place(const why::Evidence& evidence) { return fmt::format("{}:{}", evidence.file, evidence.line); }

// "rank 3 (12 ranks alike), in evaluate, after step 120 · Transformers · torch 2.6.0"
std::string where(const why::Diagnosis& diagnosis, const why::Findings& findings) {
  std::vector<std::string> parts;
  if (diagnosis.rank)
    parts.push_back(diagnosis.same.size() > 1
                        ? fmt::format("rank {} ({} ranks alike)", *diagnosis.rank, diagnosis.same.size())
                        : fmt::format("rank {}", *diagnosis.rank));
  if (diagnosis.phase != why::Phase::kUnknown) parts.push_back(fmt::format("in {}", why::phase_name(diagnosis.phase)));
  if (diagnosis.step) parts.push_back(fmt::format("after step {}", *diagnosis.step));
  if (diagnosis.framework != why::Framework::kUnknown) parts.emplace_back(why::framework_name(diagnosis.framework));
  if (!findings.torch_version.empty()) parts.push_back("torch " + findings.torch_version);
  if (findings.world) parts.push_back(fmt::format("{} ranks", *findings.world));
  return join(parts, ", ");
}

std::string range_text(const why::ByteRange& saves) {
  if (saves.low == saves.high) return format_bytes(saves.low);
  return fmt::format("{} to {}", format_bytes(saves.low), format_bytes(saves.high));
}

std::string cost_text(const why::PercentRange& slow) {
  if (std::abs(slow.low) < 0.5 && std::abs(slow.high) < 0.5) return "no slower";
  if (slow.low == slow.high)
    return slow.low < 0 ? fmt::format("{:.0f} % faster", -slow.low) : fmt::format("{:.0f} % slower", slow.low);
  if (slow.high <= 0) return fmt::format("{:.0f} to {:.0f} % faster", slow.high == 0 ? 0.0 : -slow.high, -slow.low);
  if (slow.low < 0) return fmt::format("{:.0f} % faster to {:.0f} % slower", -slow.low, slow.high);
  return fmt::format("{:.0f} to {:.0f} % slower", slow.low, slow.high);
}

void write_fix(std::size_t number, const why::Fix& fix, bool full, Sheet& sheet) {
  std::vector<std::string> facts;
  if (fix.saves && fix.saves->high > 0) facts.push_back("saves " + range_text(*fix.saves));
  facts.push_back(cost_text(fix.slowdown));
  if (fix.sufficient) facts.emplace_back(*fix.sufficient ? "suffices alone" : "not enough alone");
  if (fix.changes_science) facts.emplace_back("changes the science");
  sheet.line(fmt::format("{}. {}: {}", number, fix.title, join(facts, ", ")));
  sheet.line(fix.change, Style::kBold, 3);
  if (!full) return;
  if (!fix.risk.empty()) sheet.line("risk: " + fix.risk, Style::kPlain, 3);
  if (!fix.verify.empty()) sheet.line("then: " + fix.verify, Style::kPlain, 3);
  sheet.line("source: " + fix.source, Style::kPlain, 3);
}

// Who failed first, who only echoes it, who is unlike the others.
void write_ranks(const why::RankStory& ranks, Sheet& sheet) {
  constexpr std::size_t kMostUnlike = 3;
  std::vector<std::string> parts;
  if (ranks.first) parts.push_back(fmt::format("rank {} failed first", *ranks.first));
  if (ranks.alike.size() > 1) parts.push_back(fmt::format("ranks {} failed alike", why::rank_list(ranks.alike)));
  if (!ranks.echoes.empty())
    parts.push_back(fmt::format("{} {} only {} it", ranks.echoes.size() == 1 ? "rank" : "ranks",
                                why::rank_list(ranks.echoes), ranks.echoes.size() == 1 ? "echoes" : "echo"));
  if (parts.empty() && ranks.unlike.empty()) return;
  sheet.part("ranks");
  if (!parts.empty()) sheet.line(fmt::format("{}; {} ranks were heard", join(parts, ", "), ranks.heard));
  for (std::size_t i = 0; i < std::min(kMostUnlike, ranks.unlike.size()); ++i)
    sheet.line(fmt::format("rank {} is unlike the others: it {}", ranks.unlike[i].rank, ranks.unlike[i].says));
}

}  // namespace

std::string why_text(const answer::Why& answer, bool full, const Console& console) {
  const why::Diagnosis& diagnosis = answer.diagnosis;
  const why::Findings& findings = answer.findings;
  const std::vector<why::Fix>& fixes = answer.fixes;
  Sheet sheet(console);
  if (!diagnosis.failure) {
    sheet.head(diagnosis.incomplete ? "no failure found in what could be read" : "no failure found",
               diagnosis.incomplete ? Style::kWarning : Style::kGood);
    std::int64_t lines = 0;
    bool is_sampled = false;
    for (const why::LogFile& file : findings.files) {
      lines += file.lines;
      is_sampled = is_sampled || file.is_sampled;
    }
    sheet.line(fmt::format(
        "{} in {}; {}{} step lines", with_commas(lines) + (lines == 1 ? " line" : " lines"),
        findings.files.size() == 1 ? findings.files.front().name : fmt::format("{} files", findings.files.size()),
        is_sampled && findings.steps > 0 ? "at least " : "", with_commas(findings.steps)));
    for (const std::string& note : diagnosis.notes) sheet.line(note);
    return sheet.take();
  }
  sheet.head(
      fmt::format("{}: {} ({} sure)", why::cause_name(diagnosis.cause), diagnosis.what, percent(diagnosis.confidence)),
      diagnosis.cause == why::Cause::kNotMemory ? Style::kWarning : Style::kBad);
  if (const std::string text = where(diagnosis, findings); !text.empty()) sheet.line(text);
  sheet.gap();

  sheet.part("evidence");
  const std::size_t shown = full ? diagnosis.evidence.size() : std::min<std::size_t>(diagnosis.evidence.size(), 4);
  for (std::size_t i = 0; i < shown; ++i) {
    const why::Evidence& evidence = diagnosis.evidence[i];
    const std::string text = replace(evidence.text, '\t', ' ');
    const std::size_t most = full ? std::size_t{1200} : i == 0 ? 3 * sheet.width() - 40 : sheet.width() - 10;
    sheet.line(fmt::format("{}  {}{}", place(evidence), why::cut_text(text, most), text.size() > most ? "..." : ""));
    if (!evidence.says.empty()) sheet.line(evidence.says, Style::kDim, 3);
  }
  const std::vector<std::string> sums = why::explain(diagnosis.sum);
  if (!sums.empty()) sheet.gap();
  sheet.part("figures");
  for (const std::string& sum : sums) sheet.line(sum);
  if (diagnosis.growth.rising)
    sheet.line(fmt::format("{} rose from {} to {}{}", diagnosis.growth.gauge, format_bytes(diagnosis.growth.first),
                           format_bytes(diagnosis.growth.last),
                           diagnosis.growth.last_step > diagnosis.growth.first_step
                               ? fmt::format(", {} per step", format_bytes(diagnosis.growth.per_step))
                               : ""));
  if (diagnosis.host_bytes > 0)
    sheet.line(fmt::format("host memory asked for or held: {}", format_bytes(diagnosis.host_bytes)));

  sheet.gap();
  sheet.part("because");
  sheet.line(diagnosis.candidates.front().because);
  sheet.part("not");
  for (std::size_t i = 1; i < diagnosis.candidates.size() && (full || i < 3); ++i) {
    const why::Candidate& candidate = diagnosis.candidates[i];
    sheet.line(fmt::format("{} ({}): {}; but {}", why::cause_name(candidate.cause), percent(candidate.probability),
                           candidate.because, candidate.against));
  }
  if (answer.ranks.is_told()) write_ranks(answer.ranks, sheet);
  sheet.part("note");
  for (std::size_t i = 0; i < diagnosis.notes.size() && (full || i < 3); ++i) sheet.line(diagnosis.notes[i]);

  if (const auto next = why::next_evidence(diagnosis, answer.known.has_value())) {
    sheet.gap();
    sheet.part("to decide");
    sheet.line(next->command, Style::kBold);
    sheet.line(next->tells);
  }

  if (!fixes.empty()) {
    sheet.gap();
    sheet.part("fixes");
    const std::size_t most = full ? fixes.size() : std::min<std::size_t>(fixes.size(), 4);
    for (std::size_t i = 0; i < most; ++i) write_fix(i + 1, fixes[i], full, sheet);
    if (most < fixes.size()) sheet.line(fmt::format("and {} more: --full", fixes.size() - most), Style::kDim);
  }
  const std::vector<why::Myth> myths = why::myths_for(diagnosis);
  if (!myths.empty()) {
    sheet.gap();
    sheet.part("no help");
    for (std::size_t i = 0; i < myths.size() && (full || i < 2); ++i)
      sheet.line(fmt::format("{}: {}", myths[i].what, myths[i].truth));
  }
  return sheet.take();
}

}  // namespace plimsoll::cli

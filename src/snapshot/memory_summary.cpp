// SPDX-License-Identifier: Apache-2.0
// Line by line: a title opens a table, a rule of = after the rows closes it. A row is known by the label in the
// fifth cell from its right, so that bars in a log's prefix do no harm.
#include "snapshot/memory_summary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace plimsoll::snapshot {

namespace {

constexpr std::string_view kTitle = "PyTorch CUDA memory summary, device ID";
constexpr std::size_t kMostTables = 4096;
constexpr std::size_t kCells = 5;  // label, current, peak, allocated, freed

struct Label {
  std::string_view text;
  Stat stat;
};
constexpr Label kLabels[] = {{"Allocated memory", Stat::kAllocatedBytes},
                             {"Active memory", Stat::kActiveBytes},
                             {"Requested memory", Stat::kRequestedBytes},
                             {"GPU reserved memory", Stat::kReservedBytes},
                             {"Non-releasable memory", Stat::kInactiveSplitBytes},
                             {"Allocations", Stat::kAllocation},
                             {"Active allocs", Stat::kActive},
                             {"GPU reserved segments", Stat::kSegment},
                             {"Non-releasable allocs", Stat::kInactiveSplit}};

struct Unit {
  std::string_view name;
  std::int64_t size;
};
constexpr Unit kSizes[] = {{"B", 1},           {"KiB", 1LL << 10}, {"MiB", 1LL << 20},
                           {"GiB", 1LL << 30}, {"TiB", 1LL << 40}, {"PiB", 1LL << 50}};
constexpr Unit kCounts[] = {{"", 1}, {"K", 1000}, {"M", 1000000}};

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// The digits at the start of `text`, which they leave; nothing when there are none or too many.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool is_bytes(Stat stat) { return stat <= Stat::kInactiveSplitBytes; }

class Reader {
 public:
  Result<std::vector<MemoryStats>> read(std::string_view text) {
    while (!text.empty()) {
      ++line_;
      const std::size_t end = std::min(text.find('\n'), text.size());
      PLIMSOLL_TRY_STATUS(read_line(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (is_open_) return wrong("the text ends inside the table of a memory summary; wanted its last line of =");
    if (tables_.empty())
      return bad_input(fmt::format("no line has \"{}\"; wanted the text of torch.cuda.memory_summary()", kTitle));
    return std::move(tables_);
  }

 private:
  [[nodiscard]] tl::unexpected<Error> wrong(const std::string& what) const {
    return bad_input(fmt::format("line {}: {}", line_, what));
  }

  Status read_line(std::string_view line) {
    if (const std::size_t at = line.find(kTitle); at != std::string_view::npos) {
      if (is_open_) return wrong("a second memory summary begins inside the first; wanted one after the other");
      if (tables_.size() >= kMostTables) return wrong(fmt::format("more than {} memory summaries", kMostTables));
      return open(trim(line.substr(at + kTitle.size())));
    }
    if (!is_open_) return {};
    if (line.find("==========") != std::string_view::npos) return close();
    if (line.find("CUDA OOMs:") != std::string_view::npos) return read_counts(line);
    return read_row(line);
  }

  Status open(std::string_view after) {
    const auto device = take_number(after);
    if (!device) return wrong("no device number follows the title; wanted one");
    tables_.emplace_back().device = *device;
    is_open_ = true;
    rows_ = 0;
    pools_ = nullptr;
    is_unknown_ = false;
    return {};
  }

  // The rule above the rows does not close the table.
  Status close() {
    if (rows_ == 0) return {};
    is_open_ = false;
    if (auto status = check_memory_stats(tables_.back()); !status) return wrong(status.error().message);
    return {};
  }

  Status read_counts(std::string_view line) {
    const auto after = [&](std::string_view label) -> std::optional<std::int64_t> {
      const std::size_t at = line.find(label);
      if (at == std::string_view::npos) return std::nullopt;
      std::string_view rest = trim(line.substr(at + label.size()));
      return take_number(rest);
    };
    tables_.back().num_ooms = after("CUDA OOMs:");
    tables_.back().num_alloc_retries = after("cudaMalloc retries:");
    if (!tables_.back().num_ooms || !tables_.back().num_alloc_retries)
      return wrong("CUDA OOMs or cudaMalloc retries has no number; wanted both");
    return {};
  }

  // Whether the line has a row's cells: those between its last six bars.
  static bool split(std::string_view line, std::array<std::string_view, kCells>& cells) {
    std::size_t end = line.rfind('|');
    for (std::size_t i = kCells; i-- > 0;) {
      if (end == std::string_view::npos || end == 0) return false;
      const std::size_t begin = line.rfind('|', end - 1);
      if (begin == std::string_view::npos) return false;
      cells[i] = trim(line.substr(begin + 1, end - begin - 1));
      end = begin;
    }
    return true;
  }

  Status read_row(std::string_view line) {
    std::array<std::string_view, kCells> cells;
    if (!split(line, cells)) return {};  // a rule, or a line of another program in between
    const std::string_view label = cells[0];
    if (label == "Metric") return {};
    Usage* usage = nullptr;
    if (label == "from large pool" || label == "from small pool") {
      if (is_unknown_) return {};
      if (pools_ == nullptr) return wrong(fmt::format("\"{}\" follows no row; wanted it below one", label));
      usage = label == "from large pool" ? &pools_->large_pool : &pools_->small_pool;
    } else if (label == "Oversize allocations" || label == "Oversize GPU segments") {
      usage =
          label == "Oversize allocations" ? &tables_.back().oversize_allocations : &tables_.back().oversize_segments;
      is_bytes_ = false;
      is_unknown_ = false;
      pools_ = nullptr;
    } else {
      const auto* found =
          std::find_if(std::begin(kLabels), std::end(kLabels), [&](const Label& known) { return known.text == label; });
      is_unknown_ = found == std::end(kLabels);  // a row of a newer version, with those of its pools
      if (is_unknown_) return {};
      pools_ = &tables_.back().stats[static_cast<std::size_t>(found->stat)];
      usage = &pools_->all;
      is_bytes_ = is_bytes(found->stat);
    }
    if (usage->current) return wrong(fmt::format("\"{}\" stands twice; wanted one row of it", label));
    ++rows_;
    std::optional<Figure>* const figures[] = {&usage->current, &usage->peak, &usage->allocated, &usage->freed};
    for (std::size_t i = 1; i < kCells; ++i) PLIMSOLL_TRY_STATUS(read_figure(label, cells[i], *figures[i - 1]));
    return {};
  }

  Status read_figure(std::string_view label, std::string_view cell, std::optional<Figure>& figure) const {
    std::string_view rest = cell;
    const auto number = take_number(rest);
    const std::string_view unit = trim(rest);
    const Unit* known = nullptr;
    for (const Unit& candidate : kSizes)
      if (is_bytes_ && candidate.name == unit) known = &candidate;
    for (const Unit& candidate : kCounts)
      if (!is_bytes_ && candidate.name == unit) known = &candidate;
    if (!number || known == nullptr || *number > INT64_MAX / known->size - 1)
      return wrong(fmt::format("{}: found \"{}\"; wanted {}", label, cell.substr(0, 40),
                               is_bytes_ ? "a number and B, KiB, MiB, GiB, TiB or PiB" : "a number, perhaps K or M"));
    figure = Figure{*number * known->size, known->size};
    return {};
  }

  std::vector<MemoryStats> tables_;
  std::size_t line_ = 0;
  std::size_t rows_ = 0;
  bool is_open_ = false;
  bool is_unknown_ = false;     // the row above
  bool is_bytes_ = false;       // of the row at hand
  StatUsage* pools_ = nullptr;  // of the row above
};

}  // namespace

bool looks_like_memory_summary(std::string_view text) { return text.find(kTitle) != std::string_view::npos; }

Result<std::vector<MemoryStats>> read_memory_summaries(std::string_view name, std::string_view text) {
  auto tables = Reader().read(text);
  if (!tables) return tl::make_unexpected(std::move(tables.error()).with_context(std::string(name)));
  return tables;
}

}  // namespace plimsoll::snapshot

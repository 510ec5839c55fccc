// SPDX-License-Identifier: Apache-2.0
#include "live/parts.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "answer/input.h"
#include "answer/log_facts.h"
#include "answer/recording.h"
#include "base/crew.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/text.h"
#include "live/fates.h"
#include "live/folder.h"
#include "live/nodes.h"
#include "live/prediction.h"
#include "live/rank_file.h"

namespace plimsoll::live {

namespace {

using document::Node;
namespace fs = std::filesystem;

constexpr const char* kPartKind = "plimsoll-part";
constexpr std::int64_t kMostParts = 100'000;
// A snapshot in memory takes several times its file: two at a time stay below a gigabyte.
constexpr unsigned kMostReaders = 2;

bool is_snapshot(const std::string& name) {
  return name.ends_with(".pickle") || name.ends_with(".pickle.gz") || name.ends_with(".pickle.zst") ||
         name.ends_with(".pkl");
}
bool is_rank_file(const std::string& name) { return name.starts_with("rank-") && name.ends_with(".jsonl"); }

// The first number in a name: "rank-12.oom.pickle" is rank 12.
std::optional<std::int64_t> number_in(const std::string& name) {
  const std::size_t at = name.find_first_of("0123456789");
  if (at == std::string::npos) return std::nullopt;
  std::int64_t number = 0;
  const auto parsed = std::from_chars(name.data() + at, name.data() + name.size(), number);
  return parsed.ec == std::errc{} ? std::optional(number) : std::nullopt;
}

void sort_by_number(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::pair(number_in(a).value_or(-1), a) < std::pair(number_in(b).value_or(-1), b);
  });
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> snapshots;
  std::vector<std::string> ranks;
  for (const std::string& name : names_in(folder)) {
    if (is_snapshot(name)) snapshots.push_back(name);
    if (is_rank_file(name)) ranks.push_back(name);
  }
  std::vector<std::string>& files = snapshots.size() > ranks.size() ? snapshots : ranks;
  sort_by_number(files);
  return std::move(files);
}

// At any depth, by their names below the folder: torchrun has a folder per rank.
std::vector<std::string> logs_in(const std::string& folder) {
  std::error_code error;
  const auto paths = fs::is_directory(folder, error) ? why::log_files({folder}) : bad_input("no folder");
  std::vector<std::string> names;
  if (!paths) return names;
  for (const std::string& path : *paths) names.push_back(fs::path(path).lexically_relative(folder).string());
  sort_by_number(names);
  return names;
}

// FNV-1a: tells folders apart, and need not resist anybody.
std::string digest(const std::vector<std::string>& names) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::string& name : names)
    for (const char c : name + "\n") hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return fmt::format("{:016x}", hash);
}

void read_snapshot(const std::string& path, RankFacts& facts) {
  const auto file = answer::read_recording_file(path);
  if (!file) {
    facts.problem = printable(to_string(file.error()), 300);
    return;
  }
  if (file->snapshot == nullptr) {
    facts.problem = "holds counters, not a snapshot";
    return;
  }
  // The busiest device is the rank's own.
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> devices;
  for (const snapshot::Segment& segment : file->snapshot->segments) {
    devices[segment.device].first += segment.total_size;
    devices[segment.device].second += segment.allocated_size;
  }
  for (const auto& [device, sizes] : devices)
    if (sizes.first > facts.reserved) {
      facts.reserved = sizes.first;
      facts.allocated = sizes.second;
    }
}

void read_rank_file(const std::string& path, const std::string& name, RankFacts& facts) {
  const auto text = read_file(path);
  const auto run = text ? read_rank(name, *text) : Result<RankRun>{tl::make_unexpected(text.error())};
  if (!run) {
    facts.problem = printable(to_string(run.error()), 300);
    return;
  }
  facts.rank = run->rank;
  facts.host = run->host;
  facts.allocated = run->peak_allocated;
  facts.reserved = run->peak_reserved;
  facts.steps = run->steps_done;
  facts.seconds = run->step_seconds().value_or(0);
  facts.restart = run->restart;
  facts.ended = run->ended;
  facts.error_type = run->error_type;
  facts.error = printable(run->error, 300);
  facts.error_time = run->error_time;
  if (run->oom) {
    facts.ran_out = run->oom->phase.empty() ? "unknown" : run->oom->phase;
    facts.requested = run->oom->requested;
  }
}

void read_log(const std::string& path, std::size_t files, RankFacts& facts) {
  const auto log = answer::read_log_facts(path, files);
  if (!log) {
    facts.problem = printable(to_string(log.error()), 300);
    return;
  }
  facts.rank = log->rank.value_or(facts.rank);
  facts.allocated = log->allocated;
  facts.reserved = log->reserved;
  facts.steps = log->steps;
  facts.cause = log->cause;
  facts.phase = log->phase;
  facts.is_echo = log->is_echo;
  facts.requested = log->requested;
  if (log->ran_out) facts.ran_out = log->phase.empty() ? "unknown" : log->phase;
}

// The job of the run, where its file lies beside those of the ranks.
std::optional<job::Job> job_in(const std::string& folder) {
  const std::string path = (fs::path(folder) / kJobFile).string();
  if (!file_exists(path)) return std::nullopt;
  answer::Input input;
  input.operands = {path};
  const auto request = answer::read_input(std::move(input));
  const auto job = request ? job::resolve(*request) : Result<job::Job>{tl::make_unexpected(request.error())};
  return job ? std::optional(*job) : std::nullopt;
}

void place(const job::Job& job, RankFacts& facts) {
  if (!facts.problem.empty() || facts.rank < 0 || facts.rank >= job.cluster.gpus) return;
  if (job.parallel.pipeline > 1) facts.stage = pipeline_rank(job, facts.rank, job.cluster.gpus);
  // Ranks of one expert's tensors are neighbours, then come those with other experts.
  if (job.parallel.expert > 1) facts.expert = facts.rank / job.expert_tensor() % job.parallel.expert;
}

Node row_node(const RankFacts& facts) {
  Object row;
  row.set("index", facts.index).set("file", facts.file);
  if (!facts.problem.empty()) return row.set("problem", facts.problem).take();
  row.set("rank", facts.rank).set("host", facts.host);
  row.set_if("stage", facts.stage).set_if("expert", facts.expert).set("allocated", facts.allocated);
  row.set("reserved", facts.reserved).set("steps", facts.steps).set("seconds", facts.seconds);
  if (!facts.ran_out.empty()) row.set("ran_out", facts.ran_out).set("requested", facts.requested);
  if (facts.restart > 0) row.set("restart", facts.restart);
  if (facts.ended) row.set("ended", true);
  if (!facts.error_type.empty())
    row.set("error_type", facts.error_type).set("error", facts.error).set("error_time", facts.error_time);
  if (facts.is_log) row.set("cause", facts.cause).set("phase", facts.phase).set("echo", facts.is_echo);
  return row.take();
}

RankFacts row_of(const Node& node) {
  RankFacts facts;
  facts.index = integer_in(node, "index").value_or(-1);
  facts.file = text_in(node, "file");
  facts.problem = text_in(node, "problem");
  constexpr std::int64_t kMost = std::int64_t{1} << 50;  // sums of a few cannot overflow
  const auto count = [&](const char* key) {
    return std::clamp<std::int64_t>(integer_in(node, key).value_or(0), 0, kMost);
  };
  facts.rank = count("rank");
  facts.host = text_in(node, "host");
  if (node.has("stage")) facts.stage = count("stage");
  if (node.has("expert")) facts.expert = count("expert");
  facts.allocated = count("allocated");
  facts.reserved = count("reserved");
  facts.steps = count("steps");
  facts.seconds = real_in(node, "seconds").value_or(0);
  facts.ran_out = text_in(node, "ran_out");
  facts.requested = count("requested");
  facts.restart = count("restart");
  facts.ended = node.has("ended");
  facts.error_type = text_in(node, "error_type");
  facts.error = text_in(node, "error");
  facts.error_time = real_in(node, "error_time").value_or(0);
  facts.is_log = node.has("cause");
  facts.cause = text_in(node, "cause");
  facts.phase = text_in(node, "phase");
  const Node* echo = node.find("echo");
  facts.is_echo = echo != nullptr && echo->is_bool() && echo->boolean;
  return facts;
}

}  // namespace

Result<Share> parse_share(const std::string& text) {
  const std::size_t slash = text.find('/');
  Share share{0, 0};
  if (slash != std::string::npos) {
    const auto part = std::from_chars(text.data(), text.data() + slash, share.part);
    const auto of = std::from_chars(text.data() + slash + 1, text.data() + text.size(), share.of);
    const bool complete = part.ptr == text.data() + slash && of.ptr == text.data() + text.size();
    if (complete && share.part >= 1 && share.part <= share.of && share.of <= kMostParts) return share;
  }
  return tl::make_unexpected(
      Error{Code::kUsage, fmt::format("--part is '{}'; wanted I/N, such as 3/16", text), {}, {}});
}

std::size_t count_rank_files(const std::string& folder) { return files_in(folder).size(); }

bool holds_ranks(const std::string& folder) { return !files_in(folder).empty() || !logs_in(folder).empty(); }

Result<Part> read_part(const std::string& folder, const Share& share) {
  std::vector<std::string> names = files_in(folder);
  const bool are_logs = names.empty();
  if (are_logs) names = logs_in(folder);
  if (names.empty())
    return bad_input(fmt::format("{}: neither snapshots, rank files nor logs in it", folder),
                     "wanted rank-N.jsonl of plimsoll run, *.pickle of torch.cuda.memory._dump_snapshot(), or logs");
  Part part;
  part.names = digest(names);
  part.files = static_cast<std::int64_t>(names.size());
  for (std::size_t i = static_cast<std::size_t>(share.part - 1); i < names.size();
       i += static_cast<std::size_t>(share.of)) {
    RankFacts facts;
    facts.index = static_cast<std::int64_t>(i);
    facts.file = names[i];
    facts.rank = number_in(names[i]).value_or(facts.index);
    facts.is_log = are_logs;
    part.rows.push_back(std::move(facts));
  }
  std::atomic<std::size_t> next{0};
  share_work(kMostReaders, [&](unsigned) {
    for (std::size_t i = next++; i < part.rows.size(); i = next++) {
      RankFacts& facts = part.rows[i];
      const std::string path = (fs::path(folder) / facts.file).string();
      if (const Status regular = check_regular_file(path); !regular)  // a pipe would be waited for
        facts.problem = printable(to_string(regular.error()), 300);
      else if (are_logs)
        read_log(path, names.size(), facts);
      else if (is_snapshot(facts.file))
        read_snapshot(path, facts);
      else
        read_rank_file(path, facts.file, facts);
    }
  });
  if (const auto job = job_in(folder))
    for (RankFacts& facts : part.rows) place(*job, facts);
  return part;
}

Result<Part> join(const std::vector<Part>& parts) {
  if (parts.empty()) return bad_input("there are no parts to join");
  Part all;
  all.names = parts.front().names;
  all.files = parts.front().files;
  std::map<std::int64_t, const RankFacts*> rows;
  for (const Part& part : parts) {
    if (part.names != all.names || part.files != all.files)
      return bad_input("the parts are of different folders, or files came and went between them",
                       "make all parts again from one folder");
    for (const RankFacts& row : part.rows) rows.try_emplace(row.index, &row);  // the same part twice is one
  }
  for (const auto& [index, row] : rows) all.rows.push_back(*row);
  return all;
}

namespace {

// By name of what a rank belongs to; nothing where a rank does not say.
template <class NameOf>
void add_imbalance(const Part& part, const char* kind, const NameOf& name_of, std::vector<Imbalance>& found) {
  constexpr double kWorthSaying = 0.02;
  struct Sum {
    double held = 0;
    double ranks = 0;
    [[nodiscard]] double mean() const { return held / ranks; }
  };
  std::map<std::string, Sum> sums;
  Sum all;
  const std::int64_t last = last_restart(part);
  for (const RankFacts& facts : part.rows) {
    if (!facts.problem.empty() || facts.restart < last) continue;
    const std::string name = name_of(facts);
    if (name.empty()) return;
    for (Sum* sum : {&sums[name], &all}) {
      sum->held += static_cast<double>(facts.reserved);
      sum->ranks += 1;
    }
  }
  if (sums.size() < 2 || all.held <= 0) return;
  const auto fullest = std::max_element(sums.begin(), sums.end(),
                                        [](const auto& a, const auto& b) { return a.second.mean() < b.second.mean(); });
  const double above = fullest->second.mean() / all.mean() - 1;
  if (above >= kWorthSaying)
    found.push_back({kind, fullest->first, fullest->second.mean(), above, static_cast<std::int64_t>(sums.size())});
}

}  // namespace

std::vector<Imbalance> imbalances(const Part& part) {
  std::vector<Imbalance> found;
  const auto text = [](const std::optional<std::int64_t>& number) { return number ? std::to_string(*number) : ""; };
  add_imbalance(part, "host", [](const RankFacts& facts) { return facts.host; }, found);
  add_imbalance(part, "stage", [&](const RankFacts& facts) { return text(facts.stage); }, found);
  add_imbalance(part, "expert rank", [&](const RankFacts& facts) { return text(facts.expert); }, found);
  return found;
}

std::int64_t last_restart(const Part& part) {
  std::int64_t last = 0;
  for (const RankFacts& facts : part.rows) last = std::max(last, facts.restart);
  return last;
}

std::vector<std::string> fates_of(const Part& part) {
  std::vector<RankRun> all;
  for (const RankFacts& facts : part.rows) {
    if (!facts.problem.empty() || !is_rank_file(facts.file)) continue;
    RankRun& run = all.emplace_back();
    run.rank = facts.rank;
    run.host = facts.host;
    run.restart = facts.restart;
    run.steps_done = facts.steps;
    run.ended = facts.ended;
    run.error_type = facts.error_type;
    run.error = facts.error;
    run.error_time = facts.error_time;
    if (facts.ran_out.empty()) continue;
    run.oom.emplace();
    run.oom->phase = facts.ran_out;
  }
  std::vector<RankRun> earlier;
  const std::vector<RankRun> ranks = take_last_start(std::move(all), earlier);
  std::vector<std::string> said = fates(ranks, Over::kPerhaps);
  if (std::string restarts = earlier_starts(earlier); !restarts.empty()) said.push_back(std::move(restarts));
  return said;
}

std::vector<std::string> not_read(const Part& part) {
  std::vector<std::string> files;
  for (const RankFacts& facts : part.rows)
    if (!facts.problem.empty()) files.push_back(fmt::format("{}: {}", facts.file, facts.problem));
  return files;
}

Status check_some_read(const Part& part) {
  const std::vector<std::string> problems = not_read(part);
  if (problems.empty() || problems.size() < part.rows.size()) return {};
  return bad_input(fmt::format("none of {} files could be read; the first: {}", problems.size(), problems.front()));
}

std::string part_json(const Part& part) {
  // One row per line: parts are large, and people look into them.
  std::string text = fmt::format("{{\"schema\": 1, \"kind\": \"{}\", \"names\": \"{}\", \"files\": {}, \"rows\": [",
                                 kPartKind, part.names, part.files);
  for (std::size_t i = 0; i < part.rows.size(); ++i)
    text += (i > 0 ? ",\n" : "\n") + document::to_json(row_node(part.rows[i]));
  return text + "\n]}\n";
}

Result<Part> read_part_file(const std::string& path) {
  PLIMSOLL_TRY(text, read_file(path));
  auto root = document::parse_json(text);
  if (!root) return tl::make_unexpected(std::move(root.error()).with_context(path));
  const Node* rows = root->find("rows");
  if (text_in(*root, "kind") != kPartKind || rows == nullptr || !rows->is_array())
    return bad_input(fmt::format("{}: not a part", path), "plimsoll map FOLDER --part I/N --out FILE writes one");
  Part part;
  part.names = text_in(*root, "names");
  part.files = integer_in(*root, "files").value_or(0);
  for (const Node& node : rows->items) {
    RankFacts facts = row_of(node);
    if (facts.index < 0 || facts.index >= part.files || facts.file.empty())
      return bad_input(fmt::format("{}: a row has no file, or an index outside 0 to {}", path, part.files - 1));
    part.rows.push_back(std::move(facts));
  }
  return part;
}

std::vector<RankComparison> rows_of(const Part& part) {
  std::vector<RankComparison> rows;
  std::map<std::int64_t, std::size_t> of_logs;  // rank -> row
  const std::int64_t last = last_restart(part);
  for (const RankFacts& facts : part.rows) {
    if (facts.restart < last || !facts.problem.empty() || (facts.is_log && facts.reserved <= 0)) continue;
    std::int64_t allocated = facts.allocated;
    std::int64_t reserved = facts.reserved;
    std::size_t at = rows.size();
    if (facts.is_log) at = of_logs.try_emplace(facts.rank, at).first->second;
    if (at == rows.size()) {
      rows.emplace_back();
    } else {
      allocated = std::max(allocated, static_cast<std::int64_t>(rows[at].allocated.measured.value_or(0)));
      reserved = std::max(reserved, static_cast<std::int64_t>(rows[at].reserved.measured.value_or(0)));
    }
    RankComparison& row = rows[at];
    row.rank = facts.rank;
    row.host = facts.host;
    row.pp_rank = facts.stage;
    row.allocated.measured = static_cast<double>(allocated);
    row.reserved.measured = static_cast<double>(reserved);
    if (facts.seconds > 0) row.seconds.measured = facts.seconds;
    row.fragmentation = reserved > 0 ? 1 - static_cast<double>(allocated) / static_cast<double>(reserved) : 0;
  }
  return rows;
}

}  // namespace plimsoll::live

// SPDX-License-Identifier: Apache-2.0
// Uniform-cost search over sets of rungs. All single rungs and pairs are queued at the start, so that a rung which
// makes the step shorter cannot hide a better pair; larger sets follow from those that were looked at. Memory, which
// is the slow answer, is computed only for what leaves the queue.
#include "plan/ladder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::plan {

namespace {

// Bounds of the work: answers of memory, and rungs of one set.
constexpr std::int64_t kMostAnswers = 500;
constexpr std::size_t kMostRungs = 12;
// What counts as saved: less is lost in the rounding of a report.
constexpr std::int64_t kLeastSaving = std::int64_t{16} << 20;

using job::Settings;
using lever::Change;

using Rungs = std::vector<std::string>;  // labels, in the order taken

struct Node {
  Rungs rungs;
  Settings settings;
  job::Job job;
  double slower = 0;  // share of time more per token than the job as it was
  int reach = 0;
  std::string_view lever = {};  // of the last rung
};

int reach(const Change& change) { return static_cast<int>(lever::lever_of(change).reach); }

struct Memory {
  memory::RankAnswer worst;
  bool fits = false;
  bool host_fits = true;
};

// The same for settings that make the same job, whatever their order.
std::string identity(const Settings& settings) {
  std::vector<std::string> words;
  for (const auto& [key, value] : settings) {
    std::string text = value;
    if (text.starts_with('[') && text.ends_with(']')) {
      std::vector<std::string> names;
      const std::string inside = text.substr(1, text.size() - 2);  // what split() returns points into it
      for (const std::string_view name : split(inside, ',')) names.emplace_back(name);
      std::sort(names.begin(), names.end());
      text = join(names, ",");
    }
    words.push_back(key + "=" + text);
  }
  std::sort(words.begin(), words.end());
  return join(words, " ");
}

int time_step(double slower) { return static_cast<int>(std::floor(slower / kSameTime + 1e-9)); }

std::tuple<int, int, double> cost(const Node& node) { return {time_step(node.slower), node.reach, node.slower}; }

class Climber {
 public:
  Climber(const job::Request& request, job::Job job, const lever::World& world, bool changes_numerics)
      : request_(request), world_(world), broken_(lever::broken_rules(job)) {
    which_.science = changes_numerics;
    if (const auto time = lever::time_of(job, world_)) rate_ = time->tokens_per_second_per_gpu;
    root_.job = std::move(job);
  }

  [[nodiscard]] const Node& root() const { return root_; }
  [[nodiscard]] std::int64_t answers() const { return answers_; }

  // Nothing where the framework or a rule refuses what was accepted before.
  std::optional<Node> child(const Node& node, const Change& rung) const {
    Node next{node.rungs, merged(node.settings, rung.settings), {}, 0, node.reach + reach(rung), rung.lever};
    next.rungs.push_back(rung.label);
    auto job = lever::changed_job(request_, next.settings, broken_);
    if (!job) return {};
    const auto time = lever::time_of(*job, world_);
    // A job whose time is not known counts as twice as long.
    next.slower = time && rate_ > 0 && time->tokens_per_second_per_gpu > 0 ? rate_ / time->tokens_per_second_per_gpu - 1
                                                                           : (rate_ > 0 ? 1 : 0);
    next.job = std::move(*job);
    return next;
  }

  std::vector<Node> children(const Node& node) const {
    std::vector<Node> found;
    if (node.rungs.size() >= kMostRungs) return found;
    for (const Change& rung : lever::changes_of(node.job, which_))
      if (auto next = child(node, rung)) found.push_back(std::move(*next));
    return found;
  }

  // Null where the memory of the job cannot be told.
  const Memory* memory(const Node& node) {
    const auto [place, is_new] = memory_.try_emplace(identity(node.settings));
    if (is_new) {
      ++answers_;
      if (const auto answer = memory::answer(node.job, {}))
        place->second = Memory{answer->ranks[answer->worst], answer->fits, answer->host.fits};
    }
    return place->second ? &*place->second : nullptr;
  }

  // With the upper end of its interval, unless only the prediction itself is asked to fit.
  bool fits(const Node& node) {
    const Memory* found = memory(node);
    return found != nullptr && found->fits && (!wants_sure_ || found->worst.surely_fits());
  }
  void accept_tight() { wants_sure_ = false; }

  std::int64_t saved(const Node& from, const Node& to) {
    const Memory* before = memory(from);
    const Memory* after = memory(to);
    if (before == nullptr || after == nullptr || (before->host_fits && !after->host_fits)) return 0;
    return before->worst.device_used - after->worst.device_used;
  }

  // The same rungs taken one after another from the start; nothing where one needs another that is gone.
  std::optional<Node> replay(const Rungs& rungs) const {
    Node node = root_;
    for (const std::string& label : rungs) {
      const std::vector<Change> changes = lever::changes_of(node.job, which_);
      const auto rung =
          std::find_if(changes.begin(), changes.end(), [&](const Change& change) { return change.label == label; });
      if (rung == changes.end()) return {};
      auto next = child(node, *rung);
      if (!next) return {};
      node = std::move(*next);
    }
    return node;
  }

  PricedChange priced(const Node& from, const Node& to) {
    const Memory* after = memory(to);
    PricedChange change;
    change.change.label = to.rungs.back();
    change.change.lever = to.lever;
    for (const auto& setting : to.settings)
      if (std::find(from.settings.begin(), from.settings.end(), setting) == from.settings.end())
        change.change.settings.push_back(setting);
    change.worst_rank = after->worst.pp_rank;
    change.device_used = after->worst.device_used;
    change.difference = -saved(from, to);
    change.fits = after->fits;
    if (rate_ > 0) change.slower = (1 + to.slower) / (1 + from.slower) - 1;
    return change;
  }

 private:
  const job::Request& request_;
  const lever::World& world_;
  lever::Which which_;
  Node root_;
  lever::RuleIds broken_;
  double rate_ = 0;  // tokens per second of the job as it was; 0: its time is not known
  std::map<std::string, std::optional<Memory>> memory_;
  std::int64_t answers_ = 0;
  bool wants_sure_ = true;
};

struct CostsMore {
  bool operator()(const Node& a, const Node& b) const { return cost(a) > cost(b); }
};

// The cheapest set that fits. At the bound of the work no larger sets are looked at any more, only the single rungs and
// pairs that are left (`bounded`).
std::optional<Node> cheapest(Climber& climber, bool& bounded) {
  std::priority_queue<Node, std::vector<Node>, CostsMore> queue;
  std::set<std::string> seen = {identity({})};
  const auto push = [&](std::vector<Node> nodes) {
    for (Node& node : nodes)
      if (seen.insert(identity(node.settings)).second) queue.push(std::move(node));
  };
  const std::vector<Node> singles = climber.children(climber.root());
  push(singles);
  for (const Node& single : singles) push(climber.children(single));
  while (!queue.empty()) {
    const Node node = queue.top();
    queue.pop();
    bounded = bounded || climber.answers() >= kMostAnswers;
    if (bounded && node.rungs.size() > 2) continue;
    if (climber.fits(node)) return node;
    if (bounded || node.rungs.size() < 2 || climber.saved(climber.root(), node) < kLeastSaving) continue;
    push(climber.children(node));
  }
  return {};
}

// Rungs that save most, one after another, until it fits or nothing saves any more.
Node leanest(Climber& climber) {
  Node node = climber.root();
  while (!climber.fits(node)) {
    std::vector<Node> next = climber.children(node);
    const auto best = std::max_element(next.begin(), next.end(), [&](const Node& a, const Node& b) {
      return climber.saved(node, a) < climber.saved(node, b);
    });
    if (best == next.end() || climber.saved(node, *best) < kLeastSaving) break;
    Node taken = std::move(*best);
    node = std::move(taken);
  }
  return node;
}

// Without every rung that it does not need: it fits still, and is not slower for it.
Node without_unneeded(Climber& climber, Node node) {
  const double most = node.slower + kSameTime;
  for (std::size_t i = 0; i < node.rungs.size();) {
    Rungs fewer = node.rungs;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    auto leaner = climber.replay(fewer);
    if (leaner && leaner->slower <= most && climber.fits(*leaner)) {
      node = std::move(*leaner);
      i = 0;
    } else {
      ++i;
    }
  }
  return node;
}

// The order in which every step saves something, cheapest first.
std::vector<Node> path_of(Climber& climber, const Node& goal) {
  std::vector<Node> path = {climber.root()};
  Rungs left = goal.rungs;
  while (!left.empty()) {
    std::optional<Node> best;
    bool best_saves = false;
    for (const std::string& label : left) {
      Rungs rungs = path.back().rungs;
      rungs.push_back(label);
      auto next = climber.replay(rungs);
      if (!next) continue;
      const bool saves = climber.saved(path.back(), *next) >= kLeastSaving;
      if (!best || std::tuple(!saves, cost(*next)) < std::tuple(!best_saves, cost(*best))) {
        best = std::move(next);
        best_saves = saves;
      }
    }
    if (!best) break;
    const std::string taken = best->rungs.back();
    left.erase(std::find(left.begin(), left.end(), taken));
    path.push_back(std::move(*best));
  }
  return path;
}

bool costs_less(const PricedChange& a, const PricedChange& b) {
  const auto key = [](const PricedChange& change) {
    return std::make_tuple(time_step(change.slower.value_or(0)), reach(change.change), change.difference);
  };
  return key(a) < key(b);
}

LadderStep step_between(Climber& climber, const Node& from, const Node& to) {
  LadderStep step{climber.priced(from, to), {}};
  for (const Node& other : climber.children(from))
    if (other.rungs.back() != to.rungs.back() && climber.saved(from, other) >= kLeastSaving)
      step.passed_over.push_back(climber.priced(from, other));
  std::sort(step.passed_over.begin(), step.passed_over.end(), costs_less);
  return step;
}

// The search that a user would ask instead, in the job's framework or the one whose sharding was taken.
std::string search_command(const job::Job& job) {
  const bool is_own = job.is_megatron() || job.facts().own_sharding == job.sharding.kind;
  const job::Framework framework =
      is_own ? job.framework : job::framework_of(job.sharding.kind).value_or(job.framework);
  return fmt::format("plimsoll plan {} --framework {} --gpu {} --gpus {} --seq-length {} --global-batch-size {}",
                     job.model.name, job::name_of(framework), job.cluster.gpu.id, job.cluster.gpus,
                     job.batch.seq_length, job.batch.micro_batch * job.data_parallel * job.micro_batches);
}

}  // namespace

job::Settings merged(job::Settings settings, const job::Settings& more) {
  for (const auto& setting : more) {
    const std::string& key = setting.first;
    std::erase_if(settings, [&](const auto& old) { return old.first == key; });
    settings.push_back(setting);
  }
  return settings;
}

Result<Ladder> climb(const job::Request& request, const lever::World& world, const ClimbOptions& options) {
  PLIMSOLL_TRY(first, job::resolve(request));
  PLIMSOLL_TRY(price, lever::price(first, world));
  Ladder ladder;
  ladder.before = ladder.after = price.worst();
  ladder.fits = ladder.fits_already = price.fits();
  if (ladder.fits_already) return ladder;

  Climber climber(request, std::move(first), world, options.changes_numerics);
  bool bounded = false;
  std::optional<Node> found = cheapest(climber, bounded);
  if (!found) {  // nothing fits surely: what fits by the prediction
    climber.accept_tight();
    found = cheapest(climber, bounded);
  }
  Node goal = found ? *found : leanest(climber);
  if (found && bounded)
    if (Node lean = leanest(climber); climber.fits(lean) && cost(lean) < cost(goal)) goal = std::move(lean);
  ladder.fits = climber.fits(goal);
  ladder.is_cheapest = !bounded;
  if (ladder.fits) goal = without_unneeded(climber, std::move(goal));
  ladder.tried = climber.answers();
  const std::vector<Node> path = path_of(climber, goal);
  for (std::size_t i = 1; i < path.size(); ++i) ladder.steps.push_back(step_between(climber, path[i - 1], path[i]));
  ladder.settings = path.back().settings;
  ladder.slower = path.back().slower;
  ladder.search_command = search_command(path.back().job);
  if (const Memory* after = climber.memory(path.back())) ladder.after = after->worst;
  if (!options.changes_numerics)
    ladder.science = lever::price_changes(request.with(ladder.settings), path.back().job, price, world,
                                          lever::changes_of(path.back().job, {.lossless = false, .science = true}));
  return ladder;
}

}  // namespace plimsoll::plan

// SPDX-License-Identifier: Apache-2.0
#include "plan/evaluator.h"

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "job/keys.h"
#include "job/refusal.h"
#include "memory/outside.h"
#include "timing/step_time.h"

namespace plimsoll::plan {

namespace {

constexpr std::size_t kLayoutKinds = 3;  // as given, written out, derived

const lever::World& built_in_world() {
  static const lever::World world;
  return world;
}

// Exact where nothing was learned.
std::int64_t scaled(std::int64_t bytes, double factor) {
  return factor == 1 ? bytes : static_cast<std::int64_t>(factor * static_cast<double>(bytes));
}

// Whether a layer is one of those that stay in bf16 under FP8.
bool at_edge(const job::Job& job, std::int64_t layer) {
  const job::Precision& p = job.precision;
  return p.first_last_layers_bf16 &&
         (layer < p.bf16_layers_at_start || layer >= job.model.depth() - p.bf16_layers_at_end);
}

bool hold_the_same(const job::Job& job, const std::vector<job::Chunk>& a, const std::vector<job::Chunk>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].num_layers != b[i].num_layers || a[i].has_embedding != b[i].has_embedding ||
        a[i].has_loss != b[i].has_loss || a[i].mtp_layers != b[i].mtp_layers)
      return false;
    for (std::int64_t l = 0; l < a[i].num_layers; ++l) {
      const std::int64_t first = a[i].first_layer + l;
      const std::int64_t second = b[i].first_layer + l;
      if (job.model.layers[static_cast<std::size_t>(first)] != job.model.layers[static_cast<std::size_t>(second)] ||
          at_edge(job, first) != at_edge(job, second))
        return false;
    }
  }
  return true;
}

}  // namespace

std::vector<std::int64_t> ranks_to_price(const job::Job& job, const job::PipelineLayout& layout) {
  std::vector<std::int64_t> ranks;
  // Messages of an interleaved pipeline that waits for each of them pile up on ranks in the middle.
  const bool waits = job.parallel.virtual_pipeline > 1 && !job.parallel.overlap_p2p;
  for (std::size_t rank = 0; rank < layout.ranks.size(); ++rank)
    if (ranks.empty() || waits ||
        !hold_the_same(job, layout.ranks[rank], layout.ranks[static_cast<std::size_t>(ranks.back())]))
      ranks.push_back(static_cast<std::int64_t>(rank));
  return ranks;
}

Evaluator::Evaluator(const job::Job& job, const Space& space, const lever::World* world, const Beside* beside)
    : given_(job),
      space_(space),
      world_(world != nullptr ? *world : built_in_world()),
      machine_(job.cluster, world_.calibration),
      learned_bytes_(world_.learned.more_outside(job)),
      learned_factor_(world_.learned.time_factor(job)),
      learned_tensors_(world_.learned.tensor_factor(job)),
      beside_(beside),
      states_(space.states.size()) {
  std::map<std::vector<std::string>, std::int16_t> classes;
  for (const Variant& variant : space.activations) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : variant.settings) keys.push_back(key);
    activation_class_.push_back(classes.try_emplace(keys, static_cast<std::int16_t>(classes.size())).first->second);
  }
  activation_classes_ = classes.size();
  families_.resize(space.states.size() * activation_classes_ * kLayoutKinds);
}

std::string_view Evaluator::refusal(const Candidate& c) const {
  if (!given_.batch.global_batch || given_.batch.accumulation) return {};
  const std::int64_t ranks = given_.cluster.gpus / (std::int64_t{c.tensor} * c.pipeline * c.context);
  const std::int64_t at_once = ranks * c.micro_batch;
  if (at_once > *given_.batch.global_batch || *given_.batch.global_batch % at_once != 0)
    return "the global batch does not divide over micro-batch and data-parallel ranks (R004)";
  if (c.virtual_pipeline == 1 || given_.parallel.microbatch_group_size) return {};
  const std::int64_t micro_batches = *given_.batch.global_batch / at_once;
  if (micro_batches < c.pipeline) return "interleaving needs as many micro-batches as pipeline ranks (R042)";
  if (micro_batches % c.pipeline != 0)
    return "interleaving needs a multiple of the pipeline ranks as micro-batches (R043)";
  return {};
}

Evaluator::Family& Evaluator::family_of(const Candidate& c) {
  const std::size_t layout = c.layout == LayoutChoice::kAsGiven ? 0U : c.writes_layout() ? 1U : 2U;
  const auto activations = static_cast<std::size_t>(activation_class_[static_cast<std::size_t>(c.activations)]);
  Family& family =
      families_[(static_cast<std::size_t>(c.state) * activation_classes_ + activations) * kLayoutKinds + layout];
  if (!family.is_made) {
    family.is_made = true;
    family.job = given_;
    family.job.given = given_of(space_, c, given_);
    // What a file wrote for a key that is chosen anew is no longer stated.
    std::erase_if(family.job.stated, [&family](const auto& written) {
      return job::is_key(written.first) && !family.job.given.contains(written.first);
    });
    apply(space_, c, family.job);
  }
  return family;
}

Result<const job::Job*> Evaluator::make(const Candidate& candidate) {
  Family& family = family_of(candidate);
  job::Job& job = family.job;
  const auto layout_of = [](const Candidate& c) { return std::tuple{c.layout, c.pipeline, c.virtual_pipeline}; };
  const bool has_layout = family.made && layout_of(*family.made) == layout_of(candidate);
  apply_within_state(space_, candidate, job, has_layout);
  family.made = candidate;
  job.warnings.clear();
  auto done = family.has_model ? job::complete_again_tersely(job) : job::complete_tersely(job);
  // A candidate that is refused has a model all the same, and where all are refused it is not to be checked for each.
  if (!family.has_model) family.has_model = done || model::validate(job.model);
  PLIMSOLL_TRY_STATUS(std::move(done));
  candidate_ = candidate;
  job_ = &job;
  family_ = &family;
  outside_ = memory::outside_torch_bytes(job) + learned_bytes_;
  if (split_is_known_ && !same_layout(candidate, split_)) split_is_known_ = false;
  return job_;
}

Status Evaluator::allowed() {
  if (family_->checker == nullptr)
    family_->checker = std::make_unique<rules::Checker>(rules::catalogue(), family_->job);
  if (!family_->checker->violates_any_error(*job_)) return {};
  for (const std::uint16_t violated : family_->checker->check(*job_)) {
    const rules::Rule& rule = rules::catalogue().rules()[violated];
    if (rule.severity == rules::Severity::kError)
      return bad_input(fmt::format("{} ({})", family_->checker->fill(rule.wrong, *job_), rule.id));
  }
  return {};
}

Status Evaluator::enter_split() {
  if (!split_is_known_) {
    PLIMSOLL_TRY(layout, job::pipeline_layout(*job_));
    layout_ = std::move(layout);
    ranks_ = ranks_to_price(*job_, layout_);
    for (RankStates& states : states_) states.is_known = false;
    split_ = candidate_;
    split_is_known_ = true;
  }
  return {};
}

void Evaluator::measure_state(std::int64_t enough) {
  RankStates& states = states_[static_cast<std::size_t>(candidate_.state)];
  if (states.is_known && (!states.is_cut || states.floor > enough)) return;
  states.profiles.clear();
  states.floor = 0;
  states.is_known = true;
  states.is_cut = false;
  if (!job_->is_megatron()) return;
  for (const std::int64_t rank : ranks_) {
    const step::StateProfile& state = states.profiles.emplace_back(step::profile_state(*job_, layout_, rank));
    const std::int64_t after_first_step =
        state.construction.net + state.begin[0].net + state.quantised.net + state.update[0].net;
    states.floor = std::max({states.floor, state.construction.peak, after_first_step});
    if (states.floor <= enough) continue;
    states.is_cut = true;
    return;
  }
}

Result<std::int64_t> Evaluator::floor(std::int64_t enough) {
  PLIMSOLL_TRY_STATUS(enter_split());
  measure_state(scaled(enough - outside_, 1 / learned_tensors_));
  return scaled(states_[static_cast<std::size_t>(candidate_.state)].floor, learned_tensors_) + outside_;
}

Result<timing::StepTime> Evaluator::simulated(const job::Job& job) const {
  PLIMSOLL_TRY(layout, job::pipeline_layout(job));
  timing::StepTime time = timing::predict(job, layout, machine_);
  world_.learned.apply(job, time);
  return time;
}

double Evaluator::seconds() const {
  timing::Options options;
  options.detail = timing::Detail::kFast;
  options.known = &known_prices_;
  return learned_factor_ * timing::predict(*job_, layout_, machine_, options).seconds;
}

std::int64_t Evaluator::peak(std::int64_t enough) const {
  const RankStates& states = states_[static_cast<std::size_t>(candidate_.state)];
  const step::Need need = step::worst_need(*job_, layout_, ranks_, states.profiles,
                                           scaled(enough - outside_, 1 / learned_tensors_), &known_);
  const cluster::Cluster& cluster = job_->cluster;
  const std::int64_t per_node = std::min(cluster.gpus_per_node, std::max<std::int64_t>(1, cluster.gpus));
  if (cluster.host_memory > 0 && need.host > cluster.host_memory / per_node) return kHostTooSmall;
  const std::int64_t step = outside_ + scaled(need.peak, learned_tensors_);
  return step + (beside_ != nullptr ? beside_->least(*job_, step) : 0);
}

Result<Priced> price(const job::Job& job, const Space& space, const Candidate& candidate) {
  Evaluator evaluator(job, space);
  PLIMSOLL_TRY(made, evaluator.make(candidate));
  (void)made;
  PLIMSOLL_TRY_STATUS(evaluator.allowed());
  PLIMSOLL_TRY(floor, evaluator.floor());
  (void)floor;
  return Priced{candidate, evaluator.seconds(), evaluator.peak(std::numeric_limits<std::int64_t>::max())};
}

}  // namespace plimsoll::plan

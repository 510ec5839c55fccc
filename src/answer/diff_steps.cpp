// SPDX-License-Identifier: Apache-2.0
// A captured step against another, or against the job that describes it: the microscope that names the tensor in which
// a description and the real code differ.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "answer/captured.h"
#include "answer/diff.h"
#include "answer/json.h"
#include "base/text.h"
#include "base/usage.h"
#include "capture/answer.h"
#include "memory/answer.h"
#include "memory/course.h"

namespace plimsoll::answer {

namespace {

struct Step {
  StepDiff::Side side;
  step::Tape tape{true};
  // Of a capture: who made each tensor.
  std::optional<capture::Capture> captured;
  std::vector<capture::Maker> makers;

  [[nodiscard]] memory::TapeAtPeak at_peak() const { return {tape, side.rank.peak.event}; }

  [[nodiscard]] NamedTensor named(const memory::TapeTensor& tensor) const {
    NamedTensor named{"", "", std::string(step::text_of(tensor.made.phase)), tensor.bytes};
    if (captured) {
      const capture::Origin origin = capture::origin_of(*captured, makers, tensor.id);
      named.made_by = origin.operation.empty() ? "the step's inputs" : origin.operation;
      named.in = origin.place;
      return named;
    }
    named.made_by = step::text_of(tensor.name);
    named.in = step::text_of(tensor.made.operation);
    if (tensor.made.layer >= 0)
      named.in += fmt::format("{}layer {}", named.in.empty() ? "" : " of ", tensor.made.layer);
    return named;
  }
};

Result<Step> captured_step(const std::string& path, const StepDiffQuestion& question, const std::string& gpu_name) {
  PLIMSOLL_TRY(gpu, cluster::find_gpu(gpu_name));
  PLIMSOLL_TRY(settings, allocator::parse_settings(question.allocator));
  PLIMSOLL_TRY(read, capture::read_capture(path));
  Step step;
  capture::Recorded recorded = capture::record_on(read, gpu);
  capture::Answer found = capture::answer(read, recorded, gpu, settings);
  step.side = {path, std::move(found.rank), "PyTorch " + read.torch, std::move(found.warnings)};
  step.tape = std::move(recorded.tape);
  step.makers = std::move(recorded.makers);
  step.captured = std::move(read);
  return step;
}

Result<job::Job> job_of(const std::string& path, const StepDiffQuestion& question) {
  Input input;
  input.operands = {path};
  input.settings = question.settings;
  input.gpu = question.gpu;
  PLIMSOLL_TRY(request, read_input(std::move(input)));
  return job::resolve(request);
}

Result<Step> described_step(const std::string& path, const job::Job& job) {
  PLIMSOLL_TRY(answer, memory::answer(job, {}));
  Step step;
  step.side = {path, answer.ranks[answer.worst], "", answer.warnings};
  PLIMSOLL_TRY(course, memory::make_course(job, step.side.rank.pp_rank));
  step.tape = std::move(course.tape);
  step.side.rank.peak = course.walk.peak;
  return step;
}

std::vector<TensorGroup> grouped(const Step& a, const Step& b, const memory::TapeDifference& found) {
  std::map<std::pair<std::string, std::string>, TensorGroup> groups;
  const auto group_of = [&groups](const NamedTensor& named) -> TensorGroup& {
    const std::string place = capture::without_numbers(named.in);
    return groups.try_emplace({named.made_by, place}, TensorGroup{named.made_by, place}).first->second;
  };
  for (const memory::TapeTensor& tensor : found.only_a) {
    TensorGroup& group = group_of(a.named(tensor));
    ++group.count_a;
    group.bytes_a += tensor.bytes;
  }
  for (const memory::TapeTensor& tensor : found.only_b) {
    TensorGroup& group = group_of(b.named(tensor));
    ++group.count_b;
    group.bytes_b += tensor.bytes;
  }
  std::vector<TensorGroup> all;
  for (auto& [key, group] : groups) all.push_back(std::move(group));
  std::ranges::stable_sort(all, [](const TensorGroup& x, const TensorGroup& y) {
    return std::abs(x.difference()) > std::abs(y.difference());
  });
  return all;
}

StepDiff::Requests requests_of(const Step& step, const std::vector<memory::TapeTensor>& alone) {
  StepDiff::Requests requests{alone.size(), std::nullopt};
  if (!alone.empty()) requests.first = step.named(alone.front());
  return requests;
}

void write(JsonWriter& json, const char* name, const StepDiff::Requests& requests) {
  json.key(name).begin_object().member("alone", static_cast<std::int64_t>(requests.alone));
  if (requests.first)
    json.key("first")
        .begin_object(Layout::kInline)
        .member("bytes", requests.first->bytes)
        .member("made_by", requests.first->made_by)
        .member("in", requests.first->in)
        .member("phase", requests.first->phase)
        .end_object();
  json.end_object();
}

}  // namespace

Result<StepDiff> compare_steps(const StepDiffQuestion& question) {
  std::string gpu = question.gpu;
  std::vector<Step> steps(2);
  const std::array<const std::string*, 2> paths = {&question.path_a, &question.path_b};
  bool has_job = false;
  for (std::size_t i = 0; i < 2; ++i) {
    if (capture::is_capture(*paths[i])) continue;
    has_job = true;
    PLIMSOLL_TRY(job, job_of(*paths[i], question));
    gpu = job.cluster.gpu.id;
    PLIMSOLL_TRY(step, described_step(*paths[i], job));
    steps[i] = std::move(step);
  }
  if (gpu.empty()) return usage_error("--gpu is missing; wanted a name of plimsoll gpus");
  if (!has_job && !question.settings.empty())
    return usage_error(
        fmt::format("--{} is a key of jobs; these are captures", replace(question.settings.front().first, '_', '-')));
  for (std::size_t i = 0; i < 2; ++i) {
    if (!capture::is_capture(*paths[i])) continue;
    PLIMSOLL_TRY(step, captured_step(*paths[i], question, gpu));
    steps[i] = std::move(step);
  }
  const memory::TapeDifference found = memory::compare(steps[0].at_peak(), steps[1].at_peak());
  StepDiff diff;
  diff.groups = grouped(steps[0], steps[1], found);
  diff.difference = steps[1].side.rank.peak.requested - steps[0].side.rank.peak.requested;
  diff.least = found.least;
  diff.same_requests = found.same_requests;
  diff.requested_by_a = requests_of(steps[0], found.requested_by_a);
  diff.requested_by_b = requests_of(steps[1], found.requested_by_b);
  diff.a = std::move(steps[0].side);
  diff.b = std::move(steps[1].side);
  return diff;
}

std::string to_json(const StepDiff& diff, bool within_limit) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("kind", "steps").member("within_limit", within_limit);
  for (const auto& [name, side] : {std::pair{"a", &diff.a}, std::pair{"b", &diff.b}}) {
    json.key(name).begin_object(Layout::kInline).member("file", side->name);
    if (!side->captured_with.empty()) json.member("captured_with", side->captured_with);
    json.member("device_used", side->rank.device_used)
        .member("peak_reserved", side->rank.peak_reserved)
        .member("peak_allocated", side->rank.peak_allocated)
        .member("parameters", side->rank.parameters)
        .end_object();
  }
  json.member("difference", diff.difference);
  json.key("groups").begin_array();
  for (const TensorGroup& group : diff.groups)
    json.begin_object(Layout::kInline)
        .member("made_by", group.made_by)
        .member("in", group.in)
        .member("difference", group.difference())
        .member("count_a", group.count_a)
        .member("bytes_a", group.bytes_a)
        .member("count_b", group.count_b)
        .member("bytes_b", group.bytes_b)
        .end_object();
  json.end_array();
  json.key("requests").begin_object().member("least", diff.least);
  json.member("same", static_cast<std::int64_t>(diff.same_requests));
  write(json, "a", diff.requested_by_a);
  write(json, "b", diff.requested_by_b);
  json.end_object();
  return json.end_object().take();
}

}  // namespace plimsoll::answer

// SPDX-License-Identifier: Apache-2.0
// run.json of `plimsoll run`: one job, and what its ranks measured. The job stands in it once, as a job file.
#include <fmt/format.h>

#include "job/read.h"
#include "truth/fields.h"
#include "truth/record.h"

namespace plimsoll::truth {

using document::Node;

namespace {

constexpr Field kFields[] = {
    {"id", Want::kText},
    {"pp_rank", Want::kInteger, true},
    {"steps", Want::kInteger, true},
    {"failed", Want::kFlag},
    {"measured", Want::kTable, true},
    {"measured.peak_allocated", Want::kInteger},
    {"measured.peak_reserved", Want::kInteger},
    {"measured.step_seconds", Want::kNumber},
};

std::optional<std::int64_t> positive(const Node& table, std::string_view key) {
  const std::int64_t value = integer_or(table, key, 0);
  return value > 0 ? std::optional(value) : std::nullopt;
}

Record read_one(const Node& node, const Result<job::Job>& job) {
  Record record;
  record.id = text_of(node, "id");
  record.skip = first_problem(node, kFields);
  if (!record.skip.empty()) return record;
  if (!job) {
    record.skip = to_string(job.error());
    return record;
  }
  const std::int64_t steps = integer_or(node, "steps", 0);
  if (steps < 2) {
    record.skip = fmt::format("it ended after {} steps; the peak that lasts is that of the second", steps);
    return record;
  }
  const Node& measured = table_of(node, "measured");
  record.job = *job;
  record.pp_rank = integer_or(node, "pp_rank", 0);
  record.groups = {{"gpu", text_of(node, "gpu")}, {"framework", std::string(job::name_of(job->framework))}};
  record.peak_allocated = positive(measured, "peak_allocated");
  record.peak_reserved = positive(measured, "peak_reserved");
  if (const Node* seconds = measured.find("step_seconds")) record.step_seconds = seconds->as_real();
  record.whole_job = true;
  return record;
}

}  // namespace

std::vector<Record> read_run(const Node& root) {
  const std::string text = text_of(root, "job");
  const Result<job::Job> job =
      text.empty() ? Result<job::Job>{bad_input("the run was started without --job: there is nothing to predict")}
                   : job::read_job({{"job.toml", text}}, {});
  std::vector<Record> records;
  for (const Node& node : root.find("records")->items) records.push_back(read_one(node, job));
  return records;
}

}  // namespace plimsoll::truth

// SPDX-License-Identifier: Apache-2.0
#include "serve/plan_picture.h"

#include <fmt/format.h>

#include "base/text.h"
#include "document/json_writer.h"

namespace plimsoll::serve {

namespace {

using document::JsonWriter;
using document::Layout;

void write_point(JsonWriter& json, const plan::Plan& plan, const plan::Priced& point) {
  const plan::Candidate& c = point.candidate;
  json.begin_object(Layout::kInline)
      .member("configuration", answer::shown(plan, c))
      .member("peak", point.peak)
      .member("step_seconds", point.seconds)
      .member("tp", c.tensor)
      .member("pp", c.pipeline)
      .member("vpp", c.virtual_pipeline)
      .member("cp", c.context)
      .member("ep", c.expert)
      .member("micro_batch", c.micro_batch)
      .member("recompute", plan.space.activations[static_cast<std::size_t>(c.activations)].label)
      .end_object();
}

}  // namespace

std::string plan_json(const plan::Plan& plan) {
  JsonWriter json;
  json.begin_array();
  for (const plan::Priced& point : plan.seen) write_point(json, plan, point);
  for (const plan::Priced& point : plan.pareto) write_point(json, plan, point);
  return fmt::format("{{\"schema\": 1, \"plan\": {}, \"points\": {}}}\n", answer::to_json(plan),
                     json.end_array().take());
}

Result<std::string> launch_json(const plan::Plan& plan, const Query& query) {
  if (query.event < 0 || query.event >= static_cast<std::int64_t>(plan.best.size()))
    return bad_input(fmt::format("row {}: the plan has {}", query.event, plan.best.size()));
  const plan::Found& row = plan.best[static_cast<std::size_t>(query.event)];
  const auto target = emit::target_from(query.setting);
  if (!target)
    return bad_input(
        fmt::format("the target is '{}'; wanted one of {}", query.setting, join(emit::target_names(), ", ")));
  PLIMSOLL_TRY(files, emit::emit(row.job, *target, answer::reasons_of(plan, row)));
  JsonWriter json;
  json.begin_object().member("schema", 1).key("files").begin_array();
  for (const emit::File& file : files)
    json.begin_object().member("name", file.name).member("text", file.text).end_object();
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::serve

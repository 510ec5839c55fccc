// SPDX-License-Identifier: Apache-2.0
// job.toml: the framework, the model by name or in full, every key that was given or differs from the
// framework's own choice, and the environment.
#include <fmt/format.h>

#include "emit/model_source.h"
#include "emit/targets.h"
#include "emit/text.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::emit {

using job::integer_node;
using job::Job;

namespace {

bool carries_all(std::string_view) { return true; }

}  // namespace

Result<std::vector<File>> write_job_file(const Order& order) {
  const Job& job = order.job;
  Choice choice{
      job.framework, carries_all, {"gpus", "micro_batch_size", "seq_length", "global_batch_size"}, {}, {}, {}};
  choice.keeps_idle = true;
  const ModelSource source = model_source(job);
  const bool in_keys = job.base_model.layers.empty() && (job.model_keys.any || source.config.is_null());
  if (!source.name.empty()) {
    choice.base = source.base;
    choice.model = source.changes;
  } else if (!in_keys && !source.config.is_null()) {
    choice.base = job.model;
  } else {
    choice.model = model_settings(job);
    choice.model.push_back({"vocab_size", integer_node(job.model.vocab)});
  }
  if (!job.batch.global_batch && !job.has("gradient_accumulation_steps") && job.micro_batches > 1)
    choice.instead.push_back(
        {"global_batch_size", integer_node(job.micro_batches * job.batch.micro_batch * job.data_parallel)});
  if (job.padded_vocab) choice.instead.push_back({"padded_vocab_size", integer_node(*job.padded_vocab)});
  choice.instead.push_back({"make_vocab_size_divisible_by", integer_node(job.make_vocab_size_divisible_by)});
  choice.instead.push_back({"should_pad_vocab", job::bool_node(job.pad_vocab)});
  std::vector<Setting> settings = chosen_settings(job, choice);

  std::string text =
      fmt::format("# A job of plimsoll: plimsoll fit job.toml\nframework = {}\n", quoted(job::name_of(job.framework)));
  if (!source.name.empty()) text += fmt::format("model = {}\n", quoted(source.name));
  std::vector<Line> model;
  for (const std::vector<Setting>* list : {&choice.model, &settings})
    for (const Setting& setting : *list)
      for (const job::KeyInfo& info : job::key_table())
        if (info.name == setting.key && info.section == "model" && !setting.value.is_null())
          model.push_back({fmt::format("{} = {}", setting.key, value_text(setting.value, " = ")),
                           why_value(setting.key, setting.value, order.reasons)});
  if (choice.base.layers.empty()) {
    text += "\n[model]\n" + with_comments(model);
  } else {
    text += with_comments(model);  // a key may stand outside its section
  }
  if (source.name.empty() && !choice.base.layers.empty()) {
    text += "\n[model]\n";
    for (const auto& [key, value] : source.config.members)
      text += fmt::format("{} = {}\n", key, value_text(value, " = "));
  }
  text += toml_sections(settings, order.reasons);
  std::vector<Line> environment;
  for (const Variable& variable : order.environment)
    environment.push_back({fmt::format("{} = {}", variable.name, quoted(variable.value)), variable.why});
  if (!environment.empty()) text += "\n[environment]\n" + with_comments(environment);
  return std::vector<File>{{"job.toml", std::move(text), false}};
}

}  // namespace plimsoll::emit

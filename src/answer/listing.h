// SPDX-License-Identifier: Apache-2.0
// Lists of what there is: the catalogues of models and GPUs, the keys of a job, the names of a framework. Each takes a
// text that a row must contain; an empty text lists everything.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/setting_table.h"
#include "base/result.h"
#include "cluster/architecture.h"
#include "cluster/cluster.h"
#include "job/keys.h"
#include "job/variables.h"
#include "model/catalog.h"

namespace plimsoll::answer {

// Whether any of the names contains the text, in any case; true when it is empty.
[[nodiscard]] bool is_asked_for(std::string_view text, const std::vector<std::string>& names);

// The error of a list that is empty: nothing contains the text. `noun` is what was listed: "model".
[[nodiscard]] tl::unexpected<Error> nothing_matches(std::string_view text, std::string_view noun,
                                                    const std::vector<std::string>& names);

struct ListedModel {
  const model::CatalogEntry* entry;
  model::Architecture architecture;
};
using Models = std::vector<ListedModel>;
[[nodiscard]] Result<Models> find_models(std::string_view text);
[[nodiscard]] std::string to_json(const Models& models);

using Gpus = std::vector<const cluster::Gpu*>;
[[nodiscard]] Result<Gpus> find_gpus(std::string_view text);
[[nodiscard]] std::string to_json(const Gpus& gpus);

using Keys = std::vector<const job::KeyInfo*>;
[[nodiscard]] Result<Keys> find_keys(std::string_view text);
[[nodiscard]] std::string to_json(const Keys& keys);

// The names in a framework's own files and what becomes of each: a key of the job, nothing, a named warning or an
// error. Read from the tables that the readers use, so that the reference cannot differ from them.
struct FrameworkName {
  std::string name;          // "log_*" stands for every name that starts so
  std::string_view becomes;  // "key", "no effect", "not modelled", "refused"
  std::string meaning;       // the key, or the reason; "" without effect
};
struct FrameworkNames {
  job::Framework framework;
  std::vector<FrameworkName> names;
};
[[nodiscard]] Result<FrameworkNames> find_framework_names(job::Framework framework, std::string_view text);
[[nodiscard]] std::string to_json(const FrameworkNames& names);

// The settings of PYTORCH_CUDA_ALLOC_CONF.
using AllocatorSettings = std::vector<const allocator::Setting*>;
[[nodiscard]] Result<AllocatorSettings> find_allocator_settings(std::string_view text);
[[nodiscard]] std::string to_json(const AllocatorSettings& settings);

// "tp", "pp" and what else everybody says: answer/input's full_key_name() has the keys.
[[nodiscard]] std::vector<std::string> short_key_names();

}  // namespace plimsoll::answer

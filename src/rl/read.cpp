// SPDX-License-Identifier: Apache-2.0
#include "rl/read.h"

#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "base/file.h"
#include "base/lines.h"
#include "base/suggest.h"
#include "base/text.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "model/catalog.h"
#include "rl/keys.h"

namespace plimsoll::rl {

using document::Node;

namespace {

struct Given {
  std::string key;
  Node value;
  std::string where;
  bool trainer = false;  // of the [trainer] table
};

// Names that vLLM and SGLang use inside the [inference] table, where no other pool can be meant.
std::string inside_inference(const std::string& key) {
  constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"tensor_parallel_size", "inference_tensor_parallel_size"},
      {"tp", "inference_tensor_parallel_size"},
      {"pipeline_parallel_size", "inference_pipeline_parallel_size"},
      {"pp", "inference_pipeline_parallel_size"},
      {"version", "engine_version"},
      {"weights", "inference_weights"},
      {"gpus", "inference_num_workers"},
  };
  for (const auto& [brief, full] : kShort)
    if (key == brief) return std::string{full};
  return key;
}

Status add_trainer_table(const Node& table, const std::string& where, int depth, std::vector<Given>& given) {
  for (const auto& [key, value] : table.members) {
    if (value.is_object() && key == "environment") {
      for (const auto& [name, text] : value.members)
        given.push_back({"environment." + name, text, where + ".environment." + name, true});
    } else if (value.is_object()) {
      if (depth > 0) return bad_input(fmt::format("{}.{}: tables do not nest this deep", where, key));
      PLIMSOLL_TRY_STATUS(add_trainer_table(value, where + "." + key, depth + 1, given));
    } else {
      const std::string name = key == "framework" ? "trainer_framework" : key == "gpus" ? "trainer_num_workers" : key;
      given.push_back({name, value, where + "." + key, name != "trainer_num_workers"});
    }
  }
  return {};
}

Status check_section(const std::string& name) {
  const std::vector<std::string> names = section_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return {};
  const std::string near = nearest(name, names);
  return bad_input(fmt::format("unknown section [{}]", name),
                   near.empty() ? "sections are " + join(names, ", ") : fmt::format("did you mean [{}]?", near));
}

Result<std::vector<Given>> keys_of(const Node& root) {
  std::vector<Given> given;
  for (const auto& [key, value] : root.members) {
    if (key == "framework" || key == "name" || key == "description") continue;
    if (!value.is_object()) {
      given.push_back({key, value, key});
      continue;
    }
    PLIMSOLL_TRY_STATUS(check_section(key));
    if (key == "trainer") {
      PLIMSOLL_TRY_STATUS(add_trainer_table(value, key, 0, given));
      continue;
    }
    for (const auto& [inner, item] : value.members) {
      if (item.is_object()) return bad_input(fmt::format("{}.{}: found a table, wanted a value", key, inner));
      given.push_back({key == "inference" ? inside_inference(inner) : inner, item, key + "." + inner});
    }
  }
  return given;
}

std::string canonical(const Given& given) {
  const Key* key = find_key(given.key);
  return (given.trainer ? "trainer " : "") + (key == nullptr ? given.key : std::string{key->name});
}

Status refuse_twice(const std::vector<Given>& given) {
  std::map<std::string, std::string> seen;
  for (const Given& one : given) {
    const auto [before, is_new] = seen.emplace(canonical(one), one.where);
    if (!is_new) return bad_input(fmt::format("{} is given twice: {} and {}", one.key, before->second, one.where));
  }
  return {};
}

constexpr std::string_view kBundles[] = {"trainer_framework", "gpu"};

Status set_all(Run& run, const std::vector<Given>& given) {
  return job::for_each_bundle_first(
      given, kBundles,
      [](const Given& one) {
        const Key* key = find_key(one.key);
        return key == nullptr ? std::string_view{} : key->name;
      },
      [&run](const Given& one) -> Status {
        auto done = one.trainer ? set_trainer_key(run, one.key, one.value) : set_key(run, one.key, one.value);
        if (!done) return tl::make_unexpected(std::move(done.error()).with_context(one.where));
        return {};
      });
}

// A version stays text: 0.20 is not 0.2.
Node flag_value(const std::string& key, const std::string& text) {
  const Key* found = find_key(key);
  return found != nullptr && type_name(*found) == "version" ? job::text_node(text) : document::parse_scalar(text);
}

Result<Framework> framework_of(const Node* root, const Settings& overrides) {
  std::string name;
  if (root != nullptr) {
    if (const Node* node = root->find("framework"); node != nullptr) {
      auto word = job::to_word(*node);
      if (!word) return bad_input(fmt::format("framework: {}", word.error().message));
      name = *word;
    }
  }
  for (const auto& [key, value] : overrides)
    if (key == "framework") name = value;
  if (name.empty()) return Framework::kGeneric;
  const auto found = from_name<Framework>(name);
  if (!found)
    return bad_input(fmt::format("framework: found '{}', wanted {}", name, choices<Framework>()),
                     did_you_mean(name, choices<Framework>()));
  return *found;
}

Status read_histogram(Lengths& lengths, const char* key, const std::string& folder) {
  if (lengths.histogram.empty()) return {};
  const std::string path =
      lengths.histogram.front() == '/' || folder == "." ? lengths.histogram : folder + "/" + lengths.histogram;
  auto text = job::read_named_file(path);
  if (!text) return tl::make_unexpected(std::move(text.error()).with_context(key));
  auto counts = parse_histogram(*text);
  if (!counts) return tl::make_unexpected(std::move(counts.error()).with_context(path));
  lengths.counts = *std::move(counts);
  return {};
}

bool parses_as(std::string_view text, std::int64_t& number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
}

}  // namespace

Result<std::vector<std::pair<std::int64_t, std::int64_t>>> parse_histogram(std::string_view text) {
  constexpr std::int64_t kLongest = 1 << 30;
  constexpr std::int64_t kMost = 1LL << 40;
  std::map<std::int64_t, std::int64_t> counts;
  int number = 0;
  for (const std::string_view line : lines(text)) {
    ++number;
    const std::string_view body = trim(line);
    if (body.empty() || body.front() == '#') continue;
    const std::size_t gap = body.find_first_of(" \t,");
    std::int64_t length = 0;
    std::int64_t count = 1;
    if (!parses_as(body.substr(0, gap), length) ||
        (gap != std::string_view::npos && !parses_as(trim(body.substr(gap + 1)), count)))
      return bad_input(
          fmt::format("line {}: found '{}', wanted a length, or a length and a count", number, body.substr(0, 40)));
    if (length < 1 || length > kLongest || count < 0 || count > kMost)
      return bad_input(fmt::format("line {}: length {} and count {}: wanted 1 to {} and 0 to {}", number, length, count,
                                   kLongest, kMost));
    counts[length] += count;
    if (counts.size() > 1'000'000) return bad_input("more than a million different lengths", "merge lengths into bins");
  }
  std::erase_if(counts, [](const auto& entry) { return entry.second == 0; });
  if (counts.empty()) return bad_input("found no length with a count");
  return std::vector<std::pair<std::int64_t, std::int64_t>>(counts.begin(), counts.end());
}

Result<Run> read_draft(const std::optional<job::InputFile>& file, const Settings& overrides) {
  Node root;
  root.kind = Node::Kind::kObject;
  if (file) {
    if (const auto kind = job::recognise(*file); kind && *kind == job::FileKind::kLaunchScript)
      return bad_input(fmt::format("{}: the script starts no post-training run that is known", file->path),
                       "verl, OpenRLHF, NeMo-RL, slime, open-instruct, SkyRL and GRPO of TRL are read from scripts; "
                       "plimsoll fit reads pretraining, supervised and preference training");
    auto parsed = job::parse_document(file->text);
    if (!parsed) return tl::make_unexpected(std::move(parsed.error()).with_context(file->path));
    root = *std::move(parsed);
    if (!root.is_object()) return bad_input(fmt::format("{}: wanted a table of keys", file->path));
  }
  const auto in_file = [&](Error error) {
    return tl::make_unexpected(file ? std::move(error).with_context(file->path) : std::move(error));
  };
  auto framework = framework_of(&root, overrides);
  if (!framework) return in_file(std::move(framework.error()));
  Run run = defaults_for(*framework);
  run.name = file ? file->path : "the command line";
  auto given = keys_of(root);
  if (!given && file && !root.has("framework"))
    return in_file(
        {Code::kBadInput,
         fmt::format("not recognised as a post-training run: as one in our own keys, {}", given.error().message),
         {},
         "configurations of verl, OpenRLHF, NeMo-RL, prime-rl, slime, AReaL, open-instruct, SkyRL, "
         "Trinity-RFT and GRPO of TRL are read; plimsoll fit reads other training"});
  if (!given) return in_file(std::move(given.error()));
  if (auto done = refuse_twice(*given); !done) return in_file(std::move(done.error()));
  if (auto done = set_all(run, *given); !done) return in_file(std::move(done.error()));
  std::vector<Given> flags;
  for (const auto& [key, value] : overrides)
    if (key != "framework") flags.push_back({key, flag_value(key, value), "--" + replace(key, '_', '-')});
  PLIMSOLL_TRY_STATUS(set_all(run, flags));
  const std::string folder = file ? parent_folder(file->path) : ".";
  PLIMSOLL_TRY_STATUS(read_histogram(run.prompt, "prompt_histogram", folder));
  PLIMSOLL_TRY_STATUS(read_histogram(run.completion, "completion_histogram", folder));
  // A path in the file is meant beside it, one on the command line where the user stands.
  const bool by_flag =
      std::any_of(overrides.begin(), overrides.end(), [](const auto& o) { return o.first == "model"; });
  if (!by_flag && folder != "." && !run.model_name.empty() && run.model_name.front() != '/' &&
      !model::find_model(run.model_name) && file_exists(folder + "/" + run.model_name))
    run.model_name = folder + "/" + run.model_name;
  return run;
}

Result<Run> read_run(const std::optional<job::InputFile>& file, const Settings& overrides) {
  PLIMSOLL_TRY(run, read_draft(file, overrides));
  if (auto done = complete(run); !done)
    return tl::make_unexpected(file ? std::move(done.error()).with_context(file->path) : std::move(done.error()));
  return run;
}

}  // namespace plimsoll::rl

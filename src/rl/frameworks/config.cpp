// SPDX-License-Identifier: Apache-2.0
#include "rl/frameworks/config.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/text.h"
#include "document/repeated_keys.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/omega.h"
#include "model/catalog.h"
#include "rl/frameworks/easyr1.h"
#include "rl/frameworks/items.h"
#include "rl/frameworks/settings.h"
#include "rl/frameworks/unread.h"
#include "rl/keys.h"

namespace plimsoll::rl {

namespace {

std::string reason_of(const Item& item, const std::vector<KeyReason>& reasons) {
  const std::string& key = item.key;
  for (const KeyReason& reason : reasons)
    if (reason.key == key) return reason.text;
  if (!item.why.empty()) return item.why;
  if (key == "framework") return "whose defaults and rules apply";
  if (const Key* found = find_key(key)) return std::string{found->doc};
  for (const job::KeyInfo& info : job::key_table())
    if (info.name == key && !info.doc.empty()) return "trainer: " + info.doc;
  return "of the trainer";
}

std::string file_name(Framework framework) {
  switch (framework) {
    case Framework::kTelescope:
    case Framework::kNemoRl:
      return "run.yaml";
    case Framework::kVerl:
    case Framework::kOpenRlhf:
      return "run.sh";
    case Framework::kPrimeRl:
      return "rl.toml";
    case Framework::kGeneric:
      return "run.toml";
  }
  return {};
}

Status encode(const Run& run, Items& items) {
  switch (run.framework) {
    case Framework::kTelescope:
      return encode_telescope(run, items);
    case Framework::kVerl:
      return encode_verl(run, items);
    case Framework::kOpenRlhf:
      return encode_openrlhf(run, items);
    case Framework::kNemoRl:
      return encode_nemo_rl(run, items);
    case Framework::kPrimeRl:
      return encode_prime_rl(run, items);
    case Framework::kGeneric:
      break;
  }
  // Our own file: every key in its section.
  for (const auto& [name, value] : items.settings()) {
    if (value == "null") continue;
    const Key* key = find_key(name);
    const std::string section = key == nullptr && name != "framework" ? "trainer"
                                : key == nullptr                      ? ""
                                                                      : std::string{key->section};
    const std::string path = section.empty() ? name : section + "." + name;
    const bool is_text = name == "model" || name == "framework" || (key != nullptr && type_name(*key) == "version");
    if (is_text)
      items.add_word(path, value, name);
    else
      items.add(path, document::parse_scalar(value), name);
  }
  return {};
}

std::string render(const Run& run, const std::vector<Item>& items, const std::vector<std::string>& comments) {
  switch (run.framework) {
    case Framework::kTelescope:
    case Framework::kNemoRl:
      return yaml_text(items, comments);
    case Framework::kPrimeRl:
    case Framework::kGeneric:
      return toml_text(items, comments);
    case Framework::kOpenRlhf:
      return shell_text(items, comments, "python3 -m openrlhf.cli.train_ppo_ray", true);
    case Framework::kVerl:
      return shell_text(items, comments,
                        run.staleness.mode == Mode::kAsync
                            ? "python3 -m verl.experimental.fully_async_policy.fully_async_main"
                        : run.is_colocated() ? "python3 -m verl.trainer.main_ppo"
                                             : "python3 -m verl.experimental.one_step_off_policy.main_ppo",
                        false);
  }
  return {};
}

// Keys whose value differs, or that only one side has.
std::vector<std::string> differences(const Settings& wanted, const Settings& found) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : wanted)
    if (setting(found, key) != value) keys.push_back(key);
  for (const auto& [key, value] : found)
    if (setting(wanted, key).empty() && !value.empty() && value != "null") keys.push_back(key);
  return keys;
}

Result<Settings> reread(const Run& run, const std::string& text) {
  PLIMSOLL_TRY(again, read_config(run.framework, file_name(run.framework), text));
  return settings_of(again);
}

}  // namespace

namespace {
constexpr std::int64_t kUsualPrompt = 1024;
}

// A framework's own file has the longest lengths, never the usual ones: half of them is taken.
namespace {

// trainer/config/ppo_trainer.yaml: what a run has that says nothing of its batch.
void assume_batch_of_verl(const Values& values, const Settings& given, ConfigSettings& config) {
  constexpr const char* kKey = "prompts_batch_size_for_trainer";
  constexpr std::int64_t kPrompts = 1024;
  constexpr std::int64_t kMinibatches = 4;
  const bool is_open = values.unknown().find("data.train_batch_size") != values.unknown().end();
  if (is_open || !setting(config.settings, kKey).empty() || !setting(given, kKey).empty()) return;
  put_setting(config.settings, kKey, std::to_string(kPrompts));
  if (setting(config.settings, "number_of_minibatches").empty())
    put_setting(config.settings, "number_of_minibatches", std::to_string(kMinibatches));
  config.assumed.push_back(fmt::format(
      "data.train_batch_size: not in the file; verl's own {} prompts in {} steps of the optimizer are counted",
      kPrompts, kMinibatches));
}

}  // namespace

void assume_means(const Settings& given, ConfigSettings& config) {
  const auto value = [&](const std::string& key) -> std::int64_t {
    const std::string_view flag = setting(given, key);
    const document::Node node = document::parse_scalar(flag.empty() ? setting(config.settings, key) : flag);
    return node.is_integer() ? node.integer : 0;
  };
  const auto is_said = [&](const std::string& key) {
    return !setting(config.settings, key).empty() || !setting(given, key).empty();
  };
  const std::pair<const char*, const char*> kLengths[] = {{"prompt", "prompt_max"}, {"completion", "max_tokens"}};
  for (const auto& [what, limit] : kLengths) {
    const std::string mean = fmt::format("{}_mean", what);
    if (is_said(mean) || is_said(fmt::format("{}_histogram", what))) continue;
    std::int64_t longest = value(limit) > 0 ? value(limit) : value("max_model_len") / 2;
    if (longest < 2) {  // a prompt of a file that limits answers alone
      const std::int64_t room = std::max(value("max_tokens"), value("seq_len"));
      longest = room > 0 ? std::min(kUsualPrompt, room) : kUsualPrompt;
      if (longest < 2) continue;
      put_setting(config.settings, mean, std::to_string(longest / 2));
      config.assumed.push_back(
          fmt::format("{}: neither it nor a limit is in the file; {} tokens are assumed (--{}-mean changes that)", mean,
                      longest / 2, what));
      continue;
    }
    put_setting(config.settings, mean, std::to_string(longest / 2));
    config.assumed.push_back(
        fmt::format("{}: not in the file; half of the longest, {} tokens, is assumed (--{}-mean changes that)", mean,
                    longest / 2, what));
  }
}

// A fine-tuned model whose name begins with that of a known one.
void take_ancestor(const Settings& given, ConfigSettings& config) {
  const std::string name(setting(config.settings, "model"));
  if (name.empty() || !setting(given, "model").empty()) return;
  const std::string ancestor = model::ancestor_in_name(name);
  if (ancestor.empty()) return;
  put_setting(config.settings, "model", ancestor);
  config.assumed.push_back(fmt::format("model: '{}' is taken as {}, as its name says (--model names another)",
                                       name.substr(0, 200), ancestor));
}

bool can_be_told(const Run& run, const Settings& trainer) {
  if (run.framework == Framework::kGeneric) return true;
  Run with = run;
  Settings wanted;
  for (const auto& [key, value] : trainer) {
    if (key.starts_with("environment.")) continue;  // the launcher's shell
    std::erase_if(with.trainer_keys, [&name = key](const auto& given) { return given.first == name; });
    with.trainer_keys.emplace_back(key, value);
    wanted.emplace_back(key, value);
  }
  Items items(with);
  if (!encode(with, items)) return false;
  const auto own = read_config_settings(run.framework, file_name(run.framework), render(with, items.all(), {}));
  if (!own) return false;
  Run told = defaults_for(run.framework);
  for (const auto& [key, value] : own->settings)
    if (key != "framework") static_cast<void>(set_key(told, key, document::parse_scalar(value)));
  // What it never mentions keeps the trainer's own default.
  const auto is_default = [&run](const std::string& key, const std::string& value) {
    const auto value_now = job::value_of(run.trainer, key);
    return setting(run.trainer_keys, key).empty() && value_now && document::to_text(*value_now) == value;
  };
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& one) {
    const std::string_view said = setting(told.trainer_keys, one.first);
    return said == one.second || (said.empty() && is_default(one.first, one.second));
  });
}

Result<ConfigFile> write_config(const Run& run, const std::vector<KeyReason>& reasons) {
  Items collected(run);
  PLIMSOLL_TRY_STATUS(encode(run, collected));
  std::vector<Item> items = collected.all();
  for (Item& item : items) item.why = reason_of(item, reasons);
  const Settings& wanted = collected.settings();
  const bool is_ours = run.framework == Framework::kGeneric;

  // What the framework's own keys do not say, or say otherwise, is told in comments. The first draft tells everything,
  // so that it can be read; the second only what the keys alone leave open.
  const auto directive = [](const std::string& key, std::string_view value) {
    return fmt::format("plimsoll: {} = {}", key, value);
  };
  std::vector<std::string> comments;
  if (!is_ours) {
    comments.emplace_back("what sets speed and memory; data, rewards, learning rate and logging are yours to add");
    PLIMSOLL_TRY(own, read_config_settings(run.framework, file_name(run.framework), render(run, items, {})));
    const Settings defaults = settings_of(defaults_for(run.framework));
    for (const auto& [key, value] : wanted) {
      const std::string_view said = setting(own.settings, key);
      const bool is_default = said.empty() && setting(defaults, key) == value;
      if (key != "framework" && said != value && !is_default) comments.push_back(directive(key, value));
    }
  }
  std::string text = render(run, items, comments);
  // complete() may derive from what is given; what it derives otherwise is told as well.
  PLIMSOLL_TRY(first, reread(run, text));
  for (const std::string& key : differences(wanted, first))
    if (const std::string_view value = setting(wanted, key); !value.empty() && !is_ours)
      comments.push_back(directive(key, value));
  text = render(run, items, comments);
  PLIMSOLL_TRY(second, reread(run, text));
  if (const auto left = differences(wanted, second); !left.empty())
    return bad_input(fmt::format("the configuration of {} does not carry {}: it reads back as '{}' instead of '{}'",
                                 name_of(run.framework), left.front(), setting(second, left.front()),
                                 setting(wanted, left.front())));
  return ConfigFile{file_name(run.framework), std::move(text),
                    run.framework == Framework::kVerl || run.framework == Framework::kOpenRlhf};
}

namespace {

// PPO and distillation of NeMo-RL are its GRPO in other words: PPO trains a value model beside the policy, distillation
// asks a teacher that is loaded for its pass alone and offloaded after it (algorithms/distillation.py).
void take_nemo_loop(Values& values, ConfigSettings& config) {
  if (values.has_section("grpo")) return;
  if (values.has_section("ppo")) {
    values.rename_section("ppo.async_ppo", "grpo.async_grpo");
    values.rename_section("ppo", "grpo");
    values.rename_section("value", "loss_fn.value");  // its sizes are taken as the policy's
    put_setting(config.settings, "critic", "true");
    config.assumed.emplace_back("value: the value model is counted with the policy's size and sharding");
  } else if (values.has_section("distillation") && values.has_section("teacher")) {
    const std::string teacher = values.take_word("teacher.model_name");
    values.rename_section("distillation", "grpo");
    values.rename_section("teacher", "loss_fn.teacher");
    put_setting(config.settings, "reference_pass", "false");
    config.assumed.push_back(fmt::format(
        "teacher: {} is loaded for its own pass and offloaded after it; that pass is not counted, in memory or time",
        teacher.empty() ? "it" : teacher));
  }
}

}  // namespace

Result<ConfigSettings> read_config_settings(Framework framework, std::string_view name, std::string_view text,
                                            const Settings& given) {
  const auto in_file = [&](Error error) {
    return tl::make_unexpected(std::move(error).with_context(std::string{name}));
  };
  Result<Values> values = Values{};
  const std::string path{name};
  std::vector<document::RepeatedKey> repeated;
  if (framework == Framework::kNemoRl && !is_yaml(text)) {
    values = parse_configured(text, path);
  } else if (framework == Framework::kTelescope || framework == Framework::kNemoRl ||
             (framework == Framework::kVerl && is_yaml(text))) {
    values = parse_tree(job::parse_omega(text, path));
    repeated = document::repeated_yaml_keys(text);
  } else if (framework == Framework::kPrimeRl || framework == Framework::kGeneric) {
    values = parse_tree(document::parse_toml(text));
  } else if (framework == Framework::kVerl) {
    values = parse_overrides(text, path);
  } else {
    values = parse_flags(text, path);
  }
  if (!values) return in_file(std::move(values.error()));
  ConfigSettings result;
  if (framework == Framework::kNemoRl) take_nemo_loop(*values, result);
  if (framework == Framework::kVerl) take_easyr1_names(*values);
  if (const auto on = values->take_flag("reward_model.enable");
      framework == Framework::kVerl && (on.value_or(false) || values->has_section("reward_model.prime_model")))
    result.assumed.emplace_back("reward_model: a model of its own beside trainer and servers, which is not counted");
  if (framework == Framework::kNemoRl && !values->has_section("grpo"))
    return in_file({Code::kBadInput,
                    "has no grpo, ppo or distillation section",
                    {},
                    "plimsoll fit reads supervised and preference training of NeMo-RL"});
  put_setting(result.settings, "framework", std::string{name_of(framework)});
  switch (framework) {
    case Framework::kTelescope:
      decode_telescope(*values, result.settings);
      break;
    case Framework::kVerl:
      decode_verl(*values, result.settings);
      assume_batch_of_verl(*values, given, result);
      break;
    case Framework::kOpenRlhf:
      decode_openrlhf(*values, result.settings);
      break;
    case Framework::kNemoRl:
      decode_nemo_rl(*values, result.settings);
      break;
    case Framework::kPrimeRl:
      decode_prime_rl(*values, result.settings);
      break;
    case Framework::kGeneric:
      return in_file({Code::kBadInput, "a generic run is read by read_run()", {}, {}});
  }
  // Engines without an account of their own.
  if (const std::string engine{setting(result.settings, "engine")};
      engine == "megatron" || engine == "trtllm" || engine == "tensorrt_llm" || engine == "hf") {
    put_setting(result.settings, "engine", "vllm");
    result.assumed.push_back(
        fmt::format("engine: servers of '{}' are counted as vLLM's (--engine changes that)", engine));
  }
  // "vllm_agentic", "sglang_async": a fork's own loop around an engine.
  if (const std::string engine{setting(result.settings, "engine")}; engine != "vllm" && engine != "sglang")
    for (const char* known : {"vllm", "sglang"})
      if (engine.starts_with(std::string(known) + "_")) {
        put_setting(result.settings, "engine", known);
        result.assumed.push_back(fmt::format("engine: '{}' is counted as {}'s servers", engine, known));
      }
  for (auto& [key, value] : parse_directives(text)) put_setting(result.settings, key, value);
  for (const document::RepeatedKey& again : repeated)
    result.assumed.push_back(
        fmt::format("'{}' is given twice; the value in line {} counts, as for the framework", again.key, again.line));
  take_ancestor(given, result);
  assume_means(given, result);
  if (auto read = check_unread(framework, *values, given, result.ignored); !read)
    return in_file(std::move(read.error()));
  return result;
}

Result<Run> read_config(Framework framework, const std::string& path, std::string_view text,
                        const Settings& overrides) {
  if (framework == Framework::kGeneric) return read_run(job::InputFile{path, std::string{text}}, overrides);
  PLIMSOLL_TRY(config, read_config_settings(framework, path, text, overrides));
  for (const auto& [key, value] : overrides) put_setting(config.settings, key, value);
  auto run = read_run(std::nullopt, config.settings);
  if (!run) return tl::make_unexpected(std::move(run.error()).with_context(path));
  run->name = path;
  run->warnings.insert(run->warnings.end(), config.assumed.begin(), config.assumed.end());
  if (!config.ignored.empty()) {
    constexpr std::size_t kMostNamed = 12;
    std::vector<std::string> named = config.ignored;
    const std::size_t more = named.size() > kMostNamed ? named.size() - kMostNamed : 0;
    named.resize(named.size() - more);
    run->warnings.push_back(fmt::format("{}: these keys were not read: {}{}", path, join(named, ", "),
                                        more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  return run;
}

std::optional<Framework> recognise_config(std::string_view text, const std::string& path) {
  struct Sign {
    std::string_view text;
    Framework framework;
  };
  constexpr Sign kSigns[] = {
      {"actor_rollout_ref.", Framework::kVerl},
      {"train_ppo_ray", Framework::kOpenRlhf},
      {"--actor.model_name_or_path", Framework::kOpenRlhf},
      {"\ngrpo:", Framework::kNemoRl},
      {"\npolicy:", Framework::kNemoRl},
      {"run_grpo", Framework::kNemoRl},
      {"run_vlm_grpo", Framework::kNemoRl},
      {"examples/run_ppo", Framework::kNemoRl},
      {"run_distillation", Framework::kNemoRl},
      {"\nactor_rollout_ref:", Framework::kVerl},
      {"[orchestrator", Framework::kPrimeRl},
      {"prompts_batch_size_for_trainer:", Framework::kTelescope},
      {"inference_num_workers:", Framework::kTelescope},
      {"max_concurrent_prompts_per_server:", Framework::kTelescope},
  };
  for (const Sign& sign : kSigns)
    if (text.find(sign.text) != std::string_view::npos ||
        (sign.text.starts_with('\n') && text.starts_with(sign.text.substr(1))))
      return sign.framework;
  if (is_easyr1(text)) return Framework::kVerl;
  // What a file of a few lines is may be said by the files below it.
  if (text.find("defaults:") != std::string_view::npos && is_yaml(text))
    if (const auto whole = job::load_omega(text, path); whole && whole->is_object()) {
      if (job::is_nemo_rl(*whole)) return Framework::kNemoRl;
      if (whole->has("actor_rollout_ref")) return Framework::kVerl;
    }
  return std::nullopt;
}

}  // namespace plimsoll::rl

// SPDX-License-Identifier: Apache-2.0
// Between a run and the text of a configuration: paths with values on the way out, paths still to be read on the way
// in. One file per framework translates, the formats are common.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "document/node.h"
#include "job/readers/shell.h"
#include "rl/frameworks/names.h"
#include "rl/read.h"

namespace plimsoll::rl {

// One line of a configuration.
struct Item {
  std::string path;  // dotted
  document::Node value;
  std::string key;  // canonical key whose reason is the comment; empty: `why` is
  std::string why;
};

class Items {
 public:
  explicit Items(const Run& run);

  void add(std::string path, document::Node value, std::string key, std::string why = {});
  void add_word(std::string path, std::string_view word, std::string key, std::string why = {});
  void add_number(std::string path, std::int64_t number, std::string key, std::string why = {});
  void add_flag(std::string path, bool flag, std::string key, std::string why = {});
  // The canonical value as it stands; nothing where it is unset.
  void add_setting(std::string path, const std::string& key);

  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] const std::vector<Item>& all() const { return items_; }

 private:
  Settings settings_;
  std::vector<Item> items_;
};

// A file as its paths and scalars; what nobody takes is left over.
class Values {
 public:
  void put(std::string path, document::Node value);
  [[nodiscard]] bool has(std::string_view path) const { return values_.find(path) != values_.end(); }
  [[nodiscard]] bool has_section(std::string_view section) const;
  // Everything below `from` stands below `to` from now on.
  void rename_section(std::string_view from, std::string_view to);
  // Marks it as read.
  [[nodiscard]] const document::Node* take(std::string_view path);
  [[nodiscard]] std::optional<std::int64_t> take_integer(std::string_view path);
  [[nodiscard]] std::optional<bool> take_flag(std::string_view path);
  [[nodiscard]] std::string take_word(std::string_view path);
  [[nodiscard]] std::vector<std::string> left_over() const;

  // A path whose value needs a variable that the script does not set.
  void put_unknown(std::string path, std::string variable);
  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& unknown() const { return unknown_; }
  [[nodiscard]] bool was_asked(std::string_view path) const { return asked_.find(path) != asked_.end(); }
  // Without marking it as read.
  [[nodiscard]] const document::Node* look(std::string_view path) const;

 private:
  std::map<std::string, document::Node, std::less<>> values_;
  std::map<std::string, std::string, std::less<>> unknown_;
  std::set<std::string, std::less<>> taken_;
  std::set<std::string, std::less<>> asked_;
};

// GPUs as nodes and GPUs of a node; an error that names the key where nodes would be uneven.
struct Nodes {
  std::int64_t nodes = 1;
  std::int64_t per_node = 1;
};
[[nodiscard]] Result<Nodes> nodes_of(std::int64_t gpus, std::int64_t gpus_per_node, std::string_view key);
// prompts (or samples) of one optimizer step; an error where minibatches do not divide them.
[[nodiscard]] Result<std::int64_t> per_minibatch(std::int64_t total, std::int64_t minibatches);

// Trainer keys of a job that a framework has under a path of its own.
struct TrainerName {
  std::string_view key;
  std::string_view path;
};
void add_trainer_names(const Run& run, std::span<const TrainerName> names, Items& items);
void take_trainer_names(Values& values, std::span<const TrainerName> names, Settings& settings);

// Formats.
[[nodiscard]] std::string yaml_text(const std::vector<Item>& items, const std::vector<std::string>& comments);
[[nodiscard]] std::string toml_text(const std::vector<Item>& items, const std::vector<std::string>& comments);
// "path=value" words of a bash array; `flags` writes "--path value" and leaves a false flag out.
[[nodiscard]] std::string shell_text(const std::vector<Item>& items, const std::vector<std::string>& comments,
                                     std::string_view command, bool flags);

[[nodiscard]] Result<Values> parse_tree(const Result<document::Node>& root);
// "path=value" and "--path value" words of the command that a script starts; its variables are filled in.
// The same with the file that --config names below them.
[[nodiscard]] Result<Values> parse_configured(std::string_view text, const std::string& path);
// Whether a text is a YAML file and no script.
[[nodiscard]] bool is_yaml(std::string_view text);
// OpenRLHF before its flags had sections: --actor_num_nodes is actor.num_nodes. Empty for other words.
[[nodiscard]] std::string_view current_openrlhf_name(std::string_view flag);
[[nodiscard]] Result<Values> parse_overrides(std::string_view text, const std::string& path);
// How a script is followed: files that it sources are looked for beside it.
[[nodiscard]] job::ShellOptions beside(const std::string& path);
[[nodiscard]] Result<Values> parse_flags(std::string_view text, const std::string& path);
// "# plimsoll: key = value" lines.
[[nodiscard]] Settings parse_directives(std::string_view text);

// One pair per framework.
[[nodiscard]] Status encode_telescope(const Run& run, Items& items);
[[nodiscard]] Status encode_verl(const Run& run, Items& items);
[[nodiscard]] Status encode_openrlhf(const Run& run, Items& items);
[[nodiscard]] Status encode_nemo_rl(const Run& run, Items& items);
[[nodiscard]] Status encode_prime_rl(const Run& run, Items& items);
void decode_telescope(Values& values, Settings& settings);
void decode_verl(Values& values, Settings& settings);
void decode_openrlhf(Values& values, Settings& settings);
void decode_nemo_rl(Values& values, Settings& settings);
void decode_prime_rl(Values& values, Settings& settings);

}  // namespace plimsoll::rl

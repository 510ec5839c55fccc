// SPDX-License-Identifier: Apache-2.0
// YAML as OmegaConf and Hydra read it: `defaults:` names files that lie below, "${a.b}" is the value of another key,
// and a command line lays "a.b=value" over all of it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "document/node.h"
#include "job/readers/shell.h"

namespace plimsoll::job {

// The file with the files of its `defaults:` below it; interpolations still stand in it. `path` is where the text was
// read. A file of a group ("- actor: dp_actor", "- optim@actor.optim: fsdp") lies at the place that it is named for.
[[nodiscard]] Result<document::Node> load_omega(std::string_view text, const std::string& path);

// Members of `top` over those of `base`; tables are joined.
void lay_over(const document::Node& top, document::Node& base);

// Sets a dotted path, making the tables on the way.
void put_path(document::Node& root, std::string_view path, document::Node value);

// Fills in "${a.b}", alone or inside a text, "${mul:a,b}" and other arithmetic, and the default of "${oc.env:NAME,x}".
// What cannot be filled in stays as it is written.
void interpolate(document::Node& root);

// load_omega() and interpolate().
[[nodiscard]] Result<document::Node> parse_omega(std::string_view text, const std::string& path);

// "a.b=value", "+a.b=value", "++a.b=value" of a command line as its path and value; an empty path where the word is
// something else. "~a.b" deletes and has no value.
struct Override {
  std::string_view path;
  std::string_view value;
  bool deletes = false;
};
[[nodiscard]] Override split_override(std::string_view word);

// The file behind --config (or --config-name in --config-path) with the overrides of the command over it. Words whose
// values the script does not set are left out and named in `unknown`: the path and the variable.
struct Configured {
  document::Node root;  // not interpolated
  std::string path;     // of the file
  std::vector<std::pair<std::string, std::string>> unknown;
};
// `program` is the one that is started, where it may find its configuration by itself.
[[nodiscard]] Result<Configured> read_configured_command(std::span<const ShellWord> words, const std::string& folder,
                                                         const std::string& program = {});

// "# @package _global_" at the head of a file: where its keys go, as it says itself; empty is the top.
[[nodiscard]] std::optional<std::string> package_in_comment(std::string_view text);

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
// What one file says, before it is known what the others say. Readers only translate; draft.cpp joins
// the drafts into one set of canonical keys, where two files that disagree are an error naming both.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "document/node.h"
#include "job/job.h"
#include "job/keys.h"
#include "job/read.h"

namespace plimsoll::job {

struct Assignment {
  std::string key;  // canonical, or an alias of the draft's framework
  document::Node value;
  std::string where;             // "ds.json: zero_optimization.stage"
  bool weak = false;             // a default that any other file overrules
  std::string problem = {};      // why the value is not known; an error unless a flag decides it
  bool problem_is_ours = false;  // the value is good, but not modelled
};

struct Draft {
  // Defined once, not in every source that copies or drops one: they are long.
  Draft();
  Draft(const Draft&);
  Draft(Draft&&) noexcept;
  Draft& operator=(const Draft&);
  Draft& operator=(Draft&&) noexcept;
  ~Draft();

  std::string path;
  FileKind kind = FileKind::kJob;
  Framework vocabulary{};              // whose alias table explains the keys
  std::span<const Alias> names = {};   // of the tool that wrote the file; they go before the vocabulary
  std::optional<Framework> framework;  // what this file makes of the job; none for a bare model
  bool framework_is_stated = false;    // by a key of the file, not by its kind
  std::vector<Assignment> assignments;
  std::map<std::string, std::string> environment;
  model::Architecture model;   // without layers: this file names no model
  bool model_is_weak = false;  // gives way to a model that another file gives
  std::string unknown_model;   // a name that is in no catalogue and no file; an error unless a model is given
  std::string read_as;         // the tool whose file this is, for the answer: "axolotl"
  // A name of ours that a translator uses -> the one in the file; places are told in the file's words.
  std::map<std::string, std::string, std::less<>> written_names;
  std::vector<std::string> warnings;
  std::vector<std::string> notes;  // what was taken or assumed; the numbers are none the worse
  std::vector<Draft> parts;        // files and tables that this one includes, in their own vocabulary

  bool launch_is_whole = false;         // a command with its environment: what it does not set is not set
  bool is_filled_in_by_others = false;  // a value "${x}" is one that the file beside it says
  bool has_too_many = false;            // more keys than any configuration; join_drafts() refuses it

  // Adds or replaces an assignment of this file.
  void assign(std::string key, document::Node value, std::string_view written_as = {}, bool weak = false);
};

// The drafts of all files as one: canonical keys, each with its value and the place it came from. What
// the options decide (--framework, --model, an override) is no contradiction between files.
struct Joined {
  std::optional<Framework> framework;
  std::vector<Assignment> assignments;
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string, std::less<>> stated;  // as written, also what is in no assignment
  model::Architecture model;
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
  std::vector<FileKind> kinds;  // of all drafts and their parts
  bool launch_is_whole = false;
};
[[nodiscard]] Result<Joined> join_drafts(const std::vector<Draft>& drafts, const ReadOptions& options);

// Whether an option or override gives this canonical key.
[[nodiscard]] bool decided_by_option(const ReadOptions& options, std::string_view key);

// Recognises and reads one file: what the readers of scripts do with a file that a command names.
[[nodiscard]] Result<Draft> read_any(const InputFile& file, const ReadOptions& options);

// Our own job file.
[[nodiscard]] Result<Draft> read_job_file(const InputFile& file);

}  // namespace plimsoll::job

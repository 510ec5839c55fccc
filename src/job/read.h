// SPDX-License-Identifier: Apache-2.0
// From the files and flags that a user has to one completed job.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "document/node.h"
#include "framework/list.h"
#include "job/job.h"

namespace plimsoll::job {

// What kind of file this is, by content.
enum class FileKind {
  kJob,               // our job file, TOML or JSON
  kHfConfig,          // config.json of a model
  kSafetensorsIndex,  // model.safetensors.index.json
#define PLIMSOLL_ROW(kind, reader) kind,
  PLIMSOLL_FORMATS(PLIMSOLL_ROW) PLIMSOLL_DIALECTS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
};

// Whether such a file is the log of a run, which may hold all of its settings.
[[nodiscard]] bool is_log(FileKind kind);

struct InputFile {
  std::string path;  // for messages; relative model paths are resolved beside it
  std::string text;
};

// What would have ended the reading.
struct Problem {
  std::string key;  // canonical, or as written; empty where the job as a whole does not hold together
  Error error;
};

// Keys and their values as text, in the order in which they are laid over one another.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct ReadOptions {
  std::optional<Framework> framework;    // --framework overrules recognition
  Settings overrides;                    // flag or key name, value; flags overrule keys
  std::string model;                     // --model: catalogue name or path
  std::string gpu;                       // --gpu
  std::optional<std::int64_t> gpus;      // --gpus
  std::vector<std::string> script_args;  // --script-args: what a script is started with
  int command = 0;                       // --command: which training command of a script
  std::string config;                    // --config: which configuration of a file that holds several
  bool strict = false;                   // --strict: an unknown key is an error
  std::vector<std::string> notes;        // what was assumed for the asker; the job carries them
  // Of resolve(request, problems) alone: where to collect what would have ended the reading.
  std::vector<Problem>* problems = nullptr;
};

// Recognises one file; an unknown one is an error that says what was looked for.
[[nodiscard]] Result<FileKind> recognise(const InputFile& file);

// Reads all files as one job (a config.json, TrainingArguments and a DeepSpeed JSON together, say),
// applies the overrides, and completes it: resolve(read_request(files, options)) of job/request.h.
[[nodiscard]] Result<Job> read_job(const std::vector<InputFile>& files, const ReadOptions& options);

// Names of all keys that a flag, --sweep or --fix may set, in canonical spelling (Megatron's names).
[[nodiscard]] const std::vector<std::string>& key_names();

// Sets one key by its canonical name or a framework's alias ("micro_batch_size",
// "per_device_train_batch_size"), without completing the job. Unknown keys suggest the nearest.
[[nodiscard]] Status set_key(Job& job, std::string_view key, const document::Node& value);

}  // namespace plimsoll::job

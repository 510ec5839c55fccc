// SPDX-License-Identifier: Apache-2.0
// Scripts that stand in YAML: `run: |` of SkyPilot and tools like it, and the containers of a Kubernetes manifest (Job,
// JobSet, PyTorchJob, MPIJob, TrainJob, Pod and their like).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace plimsoll::job {

struct ScriptInYaml {
  std::string text;                          // a shell script; empty where the file is a script itself
  std::int64_t gpus = 0;                     // of all replicas; 0: not said
  std::map<std::string, std::string> files;  // of ConfigMaps in the same file, by name
  bool is_manifest = false;
};

[[nodiscard]] Result<ScriptInYaml> script_in_yaml(std::string_view text);

}  // namespace plimsoll::job

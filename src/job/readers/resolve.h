// SPDX-License-Identifier: Apache-2.0
// What several readers share: a model by name or path, files beside the one that names them, bitsandbytes sections.
#pragma once

#include <string>
#include <string_view>

#include "job/draft.h"

namespace plimsoll::job {

// config.json; `index` is the text of model.safetensors.index.json, or empty to look beside the file.
[[nodiscard]] Result<Draft> read_hf_model(const InputFile& file, std::string_view index);

// A catalogue name, or the path of a config.json or of the folder that holds it, relative to `folder`.
[[nodiscard]] Result<Draft> find_model_or_file(const std::string& name, const std::string& folder);

// A file that another file names. Only regular files: a device or a pipe would be waited for.
[[nodiscard]] Result<std::string> read_named_file(const std::string& path);

// Where a file that another one names is: beside that one, in the working directory, or in a folder above either up
// to the root of the repository. The error names the places.
[[nodiscard]] Result<std::string> locate(const std::string& name, const std::string& folder);

// The model that a file names: a catalogue name, a path, or one that is not known and must be given otherwise.
[[nodiscard]] Status name_model(const std::string& name, Draft& draft);

// BitsAndBytesConfig, from a config.json or TrainingArguments.
void read_quantization(const document::Node& config, Draft& draft);

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
// The catalogue of public models (catalog/models.json, compiled in): name or alias -> Architecture.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.h"

namespace plimsoll::model {

struct CatalogEntry {
  std::string name;
  std::vector<std::string> aliases;
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;  // 0 for dense models
  std::int64_t mtp_parameters = 0;
  std::string source;
};

// All entries, in file order; parsed once.
[[nodiscard]] const std::vector<CatalogEntry>& catalog_entries();

// Case-insensitive by name, alias, or alias without its owner ("Meta-Llama-3-70B"). Unknown names are
// an error that suggests the nearest ones.
[[nodiscard]] Result<Architecture> find_model(std::string_view name);

// The catalogue's name of the model that a fine-tuned one was made from, where its name begins with it and says nothing
// of another shape ("someone/Qwen3-0.6B-Reverse-Text-SFT"); empty otherwise, and for names that find_model() knows.
[[nodiscard]] std::string ancestor_in_name(std::string_view name);

}  // namespace plimsoll::model

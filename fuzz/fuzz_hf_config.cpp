// SPDX-License-Identifier: Apache-2.0
// Any JSON as a config.json: what is accepted is valid and its parameters can be counted. The same
// bytes also pass as the index of a checkpoint.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/hf_config.h"
#include "model/limits.h"
#include "model/parameters.h"
#include "model/safetensors_index.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Result<document::Node> node = document::parse_json({reinterpret_cast<const char*>(data), size});
  if (!node) return 0;
  const Result<model::SafetensorsIndex> index = model::read_safetensors_index(*node);
  const Result<model::Architecture> model = model::read_hf_config(*node);
  if (!model) {
    if (model.error().message.empty()) std::abort();
    return 0;
  }
  if (!model::validate(*model)) std::abort();
  const model::Parameters count = model::count_parameters(*model);
  if (count.total <= 0 || count.active > count.total || count.total > 2 * model::limits::kParameters) std::abort();
  if (index) static_cast<void>(model::check_safetensors_index(*index, *model, *node));
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "answer/json.h"

namespace plimsoll::answer {

void write_texts(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts, Layout layout) {
  json.key(name).begin_array(layout);
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

void write_settings(JsonWriter& json, const std::vector<std::pair<std::string, std::string>>& settings, Layout layout) {
  json.key("settings").begin_object(layout);
  for (const auto& [key, value] : settings) json.member(key, value);
  json.end_object();
}

}  // namespace plimsoll::answer

// SPDX-License-Identifier: Apache-2.0
#include "serve/query.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "document/node.h"

namespace plimsoll::serve {

namespace {

using document::Node;

constexpr std::size_t kMostItems = 1000;
constexpr std::size_t kLongestText = 20'000;
constexpr std::size_t kLongestAsk = 64;

tl::unexpected<Error> wanted(std::string_view member, std::string_view what, const Node& found) {
  return bad_input(fmt::format("{} is {}; wanted {}", member, document::kind_name(found.kind), what));
}

Result<std::string> text_of(std::string_view member, const Node& node) {
  if (!node.is_string()) return wanted(member, "a text", node);
  if (node.text.size() > kLongestText) return bad_input(fmt::format("{} is too long", member));
  if (node.text.find('\0') != std::string::npos) return bad_input(fmt::format("{} holds a zero byte", member));
  return node.text;
}

Result<std::vector<std::string>> texts_of(std::string_view member, const Node& node) {
  if (!node.is_array()) return wanted(member, "a list of texts", node);
  if (node.items.size() > kMostItems) return bad_input(fmt::format("{} has too many entries", member));
  std::vector<std::string> texts;
  for (const Node& item : node.items) {
    PLIMSOLL_TRY(text, text_of(member, item));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<std::int64_t> number_of(std::string_view member, const Node& node, std::int64_t low, std::int64_t high) {
  if (!node.is_integer() || node.integer < low || node.integer > high)
    return bad_input(fmt::format("{} wants a whole number from {} to {}", member, low, high));
  return node.integer;
}

Result<double> real_of(std::string_view member, const Node& node) {
  if (!node.is_number() || !std::isfinite(node.as_real())) return wanted(member, "a number", node);
  return node.as_real();
}

Status set_keys(const Node& node, Query& query) {
  if (!node.is_object()) return wanted("keys", "an object", node);
  if (node.members.size() > kMostItems) return bad_input("keys has too many entries");
  for (const auto& [key, value] : node.members) {
    const bool is_name = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    });
    if (!is_name) return bad_input("a key wants small letters, digits and _");
    PLIMSOLL_TRY(text, text_of(key, value));
    query.keys.emplace_back(key, std::move(text));
  }
  return {};
}

Status set_member(const std::string& name, const Node& value, Query& query) {
  constexpr std::int64_t kMostEvents = std::int64_t{1} << 32;
  constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;
  if (name == "files" || name == "flags") {
    PLIMSOLL_TRY(texts, texts_of(name, value));
    (name == "files" ? query.files : query.flags) = std::move(texts);
  } else if (name == "keys") {
    return set_keys(value, query);
  } else if (name == "rank") {
    PLIMSOLL_TRY(number, number_of(name, value, 0, kMostRanks));
    query.rank = number;
  } else if (name == "event") {
    PLIMSOLL_TRY(number, number_of(name, value, 0, kMostEvents));
    query.event = number;
  } else if (name == "columns") {
    PLIMSOLL_TRY(number, number_of(name, value, 1, kMostColumns));
    query.columns = number;
  } else if (name == "from" || name == "to") {
    PLIMSOLL_TRY(number, real_of(name, value));
    (name == "from" ? query.from : query.to) = number;
  } else if (name == "low" || name == "high") {
    PLIMSOLL_TRY(number, real_of(name, value));
    (name == "low" ? query.low : query.high) = number;
  } else if (name == "axis" || name == "by" || name == "setting") {
    PLIMSOLL_TRY(text, text_of(name, value));
    (name == "axis" ? query.axis : name == "by" ? query.by : query.setting) = std::move(text);
  } else if (name == "ask" || name == "cancel") {
    PLIMSOLL_TRY(text, text_of(name, value));
    if (text.size() > kLongestAsk) return bad_input(fmt::format("{} is too long", name));
    (name == "ask" ? query.ask : query.cancel) = std::move(text);
  } else {
    return bad_input("there is no such member of a question");
  }
  return {};
}

}  // namespace

bool Query::has(std::string_view flag) const { return std::find(flags.begin(), flags.end(), flag) != flags.end(); }

Result<Query> parse_query(std::string_view body) {
  if (body.size() > kLargestQuery) return bad_input("the question is larger than 1 MiB");
  PLIMSOLL_TRY(node, document::parse_json(body));
  if (!node.is_object()) return wanted("a question", "an object", node);
  Query query;
  for (const auto& [name, value] : node.members) PLIMSOLL_TRY_STATUS(set_member(name, value, query));
  if (query.from && query.to && !(*query.from < *query.to)) return bad_input("from lies behind to");
  if (query.low && query.high && !(*query.low < *query.high)) return bad_input("low lies above high");
  return query;
}

}  // namespace plimsoll::serve

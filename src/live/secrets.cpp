// SPDX-License-Identifier: Apache-2.0
#include "live/secrets.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"

namespace plimsoll::live {

namespace {

bool ends_with_word(std::string_view name, std::string_view word) {
  if (!name.ends_with(word)) return false;
  if (name.size() == word.size()) return true;
  const char before = name[name.size() - word.size() - 1];
  return before == '-' || before == '_' || before == '.';
}

// "--hub_token", "WANDB_API_KEY", but not "--tokenizer" nor "--max-tokens".
bool names_secret(std::string_view flag) {
  const std::string name = lower(flag);
  constexpr std::array<std::string_view, 9> kWords = {"token", "secret", "password",   "passwd",     "apikey",
                                                      "key",   "pwd",    "passphrase", "credentials"};
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) { return ends_with_word(name, word); });
}

// Tokens that are recognised by how they begin, wherever they stand.
bool is_token(std::string_view value) {
  constexpr std::array<std::string_view, 7> kBegins = {"hf_", "sk-", "ghp_", "github_pat_", "xoxb-", "AKIA", "glpat-"};
  return value.size() >= 16 &&
         std::any_of(kBegins.begin(), kBegins.end(), [&](std::string_view begin) { return value.starts_with(begin); });
}

// https://user:password@host
std::string without_login(std::string word) {
  const std::size_t scheme = word.find("://");
  const std::size_t at = scheme == std::string::npos ? scheme : word.find('@', scheme);
  if (at == std::string::npos || word.find('/', scheme + 3) < at) return word;
  return word.substr(0, scheme + 3) + kMasked + word.substr(at);
}

}  // namespace

std::vector<std::string> without_secrets(const std::vector<std::string>& words) {
  std::vector<std::string> shown;
  bool value_follows = false;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (value_follows && !word.starts_with("--")) {
      shown.emplace_back(kMasked);
      value_follows = false;
      continue;
    }
    value_follows = false;
    if (equals != std::string::npos && (names_secret(word.substr(0, equals)) || is_token(word.substr(equals + 1)))) {
      shown.push_back(word.substr(0, equals + 1) + kMasked);
    } else if (is_token(word)) {
      shown.emplace_back(kMasked);
    } else {
      value_follows = word.starts_with('-') && names_secret(word);
      shown.push_back(without_login(word));
    }
  }
  return shown;
}

}  // namespace plimsoll::live

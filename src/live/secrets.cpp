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

// What names the word after it: "--token abc", "x-api-key: abc", "Authorization: Bearer abc".
bool announces_secret(std::string_view word) {
  const std::string name = lower(word);
  if (name == "bearer" || name == "basic") return true;
  return (name.starts_with('-') && names_secret(name)) ||
         (name.ends_with(':') && names_secret(std::string_view(name).substr(0, name.size() - 1)));
}

// The inside of one word that is a script, a header or JSON: bash -c 'export KEY=abc; curl -H "Authorization: Bearer
// x"'.
class Inside {
 public:
  explicit Inside(std::string_view text) : text_(text) {}

  std::string shown() {
    while (at_ < text_.size()) {
      if (kBetween.find(text_[at_]) == std::string_view::npos)
        piece();
      else
        between();
    }
    return std::move(shown_);
  }

 private:
  void between() {
    const char c = text_[at_];
    const std::size_t end = kQuotes.find(c) == std::string_view::npos ? std::string_view::npos : text_.find(c, at_ + 1);
    if (value_follows_ && end != std::string_view::npos) {  // a value in quotes ends with them
      shown_ += c + std::string(kMasked) + c;
      at_ = end + 1;
      value_follows_ = false;
      return;
    }
    shown_ += c;
    ++at_;
  }

  void piece() {
    const std::size_t end = std::min(text_.find_first_of(kBetween, at_), text_.size());
    const std::string word(text_.substr(at_, end - at_));
    at_ = end;
    const std::size_t equals = word.find('=');
    if (word == ":" && named_) {  // {"api_key" : "abc"}
      value_follows_ = true;
      shown_ += word;
    } else if (announces_secret(word)) {  // before the next: what follows "Authorization:" may be "Bearer"
      value_follows_ = true;
      shown_ += word;
    } else if (value_follows_ || is_token(word)) {
      value_follows_ = false;
      shown_ += kMasked;
    } else if (equals != std::string::npos &&
               (names_secret(word.substr(0, equals)) || is_token(word.substr(equals + 1)))) {
      shown_ += word.substr(0, equals + 1);
      value_follows_ = equals + 1 == word.size();  // KEY="a b"
      if (!value_follows_) shown_ += kMasked;
    } else {
      shown_ += without_login(word);
    }
    named_ = names_secret(word);
  }

  static constexpr std::string_view kQuotes = "\"'";
  static constexpr std::string_view kBetween = " \t\n\"'`;&|()<>";
  std::string_view text_;
  std::size_t at_ = 0;
  std::string shown_;
  bool value_follows_ = false;
  bool named_ = false;  // the piece before this one is the name of a secret
};

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
    const bool is_setting = equals != std::string::npos && word.find_first_of(" \"'") >= equals;
    if (is_setting && (names_secret(word.substr(0, equals)) || is_token(word.substr(equals + 1)))) {
      shown.push_back(word.substr(0, equals + 1) + kMasked);
    } else if (is_token(word)) {
      shown.emplace_back(kMasked);
    } else {
      value_follows = word.starts_with('-') && names_secret(word);
      shown.push_back(word.find_first_of(" \"'") == std::string::npos ? without_login(word) : Inside(word).shown());
    }
  }
  return shown;
}

}  // namespace plimsoll::live

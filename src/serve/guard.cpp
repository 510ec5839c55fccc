// SPDX-License-Identifier: Apache-2.0
#include "serve/guard.h"

#include <sys/random.h>
#include <array>

#include <fmt/format.h>

namespace plimsoll::serve {

namespace {

// Takes as long for a wrong token as for the right one.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

bool Guard::is_here(std::string_view host) const {
  return host == fmt::format("127.0.0.1:{}", port_) || host == fmt::format("localhost:{}", port_);
}

Verdict Guard::judge(const Caller& caller, bool needs_token) const {
  if (!is_here(caller.host)) return Verdict::kWrongHost;
  if (!caller.origin.empty()) {
    constexpr std::string_view kScheme = "http://";
    if (!caller.origin.starts_with(kScheme) || !is_here(caller.origin.substr(kScheme.size())))
      return Verdict::kWrongOrigin;
  }
  if (needs_token && (token_.empty() || !same(caller.token, token_))) return Verdict::kWrongToken;
  return Verdict::kAllowed;
}

std::string_view text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAllowed:
      return "allowed";
    case Verdict::kWrongHost:
      return "the address names another host; open the one that plimsoll view printed";
    case Verdict::kWrongOrigin:
      return "another page asked; only the page of plimsoll view may";
    case Verdict::kWrongToken:
      return "the address lacks the token of this run; open the one that plimsoll view printed";
  }
  return {};
}

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

}  // namespace plimsoll::serve

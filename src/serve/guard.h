// SPDX-License-Identifier: Apache-2.0
// Who may ask. The page is for the person who started it: a request must name this machine as its host (a foreign name
// that resolves to it is a rebinding attack), come from the page itself where it says from where it comes, and carry
// the token that only the printed address has.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::serve {

// What of a request decides whether it is answered.
struct Caller {
  std::string_view host;    // header Host
  std::string_view origin;  // header Origin; empty where there is none
  std::string_view token;   // of the address or of the header
};

enum class Verdict { kAllowed, kWrongHost, kWrongOrigin, kWrongToken };

class Guard {
 public:
  Guard(int port, std::string token) : port_(port), token_(std::move(token)) {}

  // Files of the page hold nothing secret and need no token.
  [[nodiscard]] Verdict judge(const Caller& caller, bool needs_token) const;
  [[nodiscard]] const std::string& token() const { return token_; }
  [[nodiscard]] int port() const { return port_; }

 private:
  [[nodiscard]] bool is_here(std::string_view host) const;

  int port_;
  std::string token_;
};

// A sentence for the person who sees it refused.
[[nodiscard]] std::string_view text_of(Verdict verdict);

// 128 random bits from the system, as 32 hexadecimal digits; empty where the system gives none.
[[nodiscard]] std::string random_token();

}  // namespace plimsoll::serve

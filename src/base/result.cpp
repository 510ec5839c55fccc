// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <cstdio>
#include <cstdlib>

#include "base/usage.h"

namespace plimsoll {

Error::Error(Code what, std::string text, std::vector<std::string> where, std::string advice)
    : code(what), message(std::move(text)), context(std::move(where)), hint(std::move(advice)) {}
Error::Error(const Error&) = default;
Error::Error(Error&&) noexcept = default;
Error& Error::operator=(const Error&) = default;
Error& Error::operator=(Error&&) noexcept = default;
Error::~Error() = default;

Error Error::with_context(std::string where) && {
  context.push_back(std::move(where));
  return std::move(*this);
}

tl::unexpected<Error> bad_input(std::string message, std::string hint) {
  return tl::make_unexpected(Error{Code::kBadInput, std::move(message), {}, std::move(hint)});
}

tl::unexpected<Error> usage_error(std::string message, std::string hint) {
  return tl::make_unexpected(Error{Code::kUsage, std::move(message), {}, std::move(hint)});
}

std::string to_string(const Error& error) {
  std::string text;
  for (auto it = error.context.rbegin(); it != error.context.rend(); ++it) text += *it + ": ";
  return text + error.message;
}

void check_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr,
               "plimsoll: this is our bug, not yours: %s does not hold at %s:%d\n"
               "please report it with the command and the input that led here\n",
               what, file, line);
  std::_Exit(70);
}

}  // namespace plimsoll

// SPDX-License-Identifier: Apache-2.0
// Errors as values. A function that can fail on its input returns Result<T>; the error says what was
// being done, on which file and key, what was found and what was wanted. Programmer errors are
// PLIMSOLL_CHECK and can never be reached from input.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

namespace plimsoll {

// Each code is also the exit code of the program (design.md, Verbs).
enum class Code : int {
  kUsage = 2,     // the command line itself is wrong
  kBadInput = 3,  // a file or value cannot be used
  kMissing = 4,   // a capability of this machine is missing (file not found, no permission)
};

struct Error {
  Code code = Code::kBadInput;
  std::string message;               // lower case: what was found, what was wanted
  std::vector<std::string> context;  // outermost last: "reading job.toml"
  std::string hint;                  // a command or key to change; may be empty

  // Errors are rare and pass through a thousand returns: what makes, moves and ends them is called there and not
  // written out.
  Error() = default;
  [[gnu::cold]] Error(Code code, std::string message, std::vector<std::string> context, std::string hint);
  [[gnu::cold]] Error(const Error&);
  [[gnu::cold]] Error(Error&&) noexcept;
  [[gnu::cold]] Error& operator=(const Error&);
  [[gnu::cold]] Error& operator=(Error&&) noexcept;
  [[gnu::cold]] ~Error();

  [[gnu::cold, nodiscard]] Error with_context(std::string where) &&;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

[[gnu::cold, nodiscard]] tl::unexpected<Error> bad_input(std::string message, std::string hint = {});

// "job.toml: [parallel]: message" with the outermost context first.
[[nodiscard]] std::string to_string(const Error& error);

[[noreturn]] void check_failed(const char* file, int line, const char* what);

}  // namespace plimsoll

// Evaluates a Result; returns its error from the enclosing function or names its value.
#define PLIMSOLL_TRY(name, expr)                                                    \
  auto name##_result = (expr);                                                      \
  if (!name##_result) return tl::make_unexpected(std::move(name##_result.error())); \
  auto name = *std::move(name##_result)

// The same for a Status.
#define PLIMSOLL_TRY_STATUS(expr)                                                                \
  do {                                                                                           \
    if (auto status_ = (expr); !status_) return tl::make_unexpected(std::move(status_.error())); \
  } while (false)

#define PLIMSOLL_CHECK(cond) ((cond) ? static_cast<void>(0) : ::plimsoll::check_failed(__FILE__, __LINE__, #cond))

// SPDX-License-Identifier: Apache-2.0
// A value, or why there is none. Nothing of this library throws for what is wrong with an input.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace plimsoll::api {

struct Error {
  int code = 3;         // the exit code of the program: 2 the question, 3 an input, 4 something is missing
  std::string message;  // what was found, what was wanted; names file and key
  std::string hint;     // what to do; may be empty
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::move(value)) {}      // NOLINT: an answer is a result
  Result(Error error) : held_(std::move(error)) {}  // NOLINT: so is an error

  [[nodiscard]] bool ok() const { return held_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Only where ok().
  [[nodiscard]] const T& value() const { return std::get<0>(held_); }
  [[nodiscard]] const T& operator*() const { return value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }

  // Only where not ok().
  [[nodiscard]] const Error& error() const { return std::get<1>(held_); }

 private:
  std::variant<T, Error> held_;
};

}  // namespace plimsoll::api

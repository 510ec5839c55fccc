// SPDX-License-Identifier: Apache-2.0
// What the server asks of the program behind it. A verb's answer is the text that the command line prints with --json,
// so that the page cannot say anything else.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "job/request.h"
#include "lever/world.h"

namespace plimsoll::serve {

class Answers {
 public:
  Answers() = default;
  virtual ~Answers() = default;
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // The verb and its words; --json is added. An answer "no" (exit code 1) is an answer.
  [[nodiscard]] virtual Result<std::string> ask(std::vector<std::string> words) const = 0;
  // fit --all-ranks without its table of changes, which takes longer than all the rest.
  [[nodiscard]] virtual Result<std::string> fit(const std::vector<std::string>& words) const = 0;
  [[nodiscard]] virtual Result<job::Request> request(const std::vector<std::string>& words) const = 0;
  [[nodiscard]] virtual std::string version() const = 0;
};

}  // namespace plimsoll::serve

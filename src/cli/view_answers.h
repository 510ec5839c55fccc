// SPDX-License-Identifier: Apache-2.0
// The verbs of this program as the page asks them.
#pragma once

#include "serve/answers.h"

namespace plimsoll::cli {

class ViewAnswers final : public serve::Answers {
 public:
  [[nodiscard]] Result<std::string> ask(std::vector<std::string> words) const override;
  [[nodiscard]] Result<std::string> fit(const std::vector<std::string>& words) const override;
  [[nodiscard]] Result<job::Request> request(const std::vector<std::string>& words) const override;
  [[nodiscard]] std::string version() const override;
};

}  // namespace plimsoll::cli

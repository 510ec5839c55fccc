// SPDX-License-Identifier: Apache-2.0
#include "cli/view_answers.h"

#include <cstdio>
#include <cstdlib>

#include "cli/fit_json.h"
#include "cli/fit_report.h"
#include "cli/job_input.h"
#include "cli/job_keys.h"
#include "cli/program.h"
#include "lever/price.h"
#include "timing/interval.h"

namespace plimsoll::cli {

namespace {

// A stream into memory.
class Sink {
 public:
  Sink() : file_(open_memstream(&text_, &bytes_)) {}
  ~Sink() {
    if (file_ != nullptr) std::fclose(file_);
    std::free(text_);  // NOLINT(cppcoreguidelines-no-malloc): it is open_memstream's
  }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  [[nodiscard]] std::FILE* file() const { return file_; }
  [[nodiscard]] std::string take() {
    if (file_ == nullptr) return {};
    std::fflush(file_);
    return {text_, bytes_};
  }

 private:
  char* text_ = nullptr;
  std::size_t bytes_ = 0;
  std::FILE* file_;
};

// What the program said on its error stream, as the error that it was.
Error error_of(int exit_code, std::string said) {
  Error error;
  error.code = exit_code == static_cast<int>(Code::kUsage)     ? Code::kUsage
               : exit_code == static_cast<int>(Code::kMissing) ? Code::kMissing
                                                               : Code::kBadInput;
  constexpr std::string_view kName = "plimsoll: ";
  constexpr std::string_view kHint = "\nhint: ";
  if (said.starts_with(kName)) said.erase(0, kName.size());
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (const std::size_t hint = said.find(kHint); hint != std::string::npos) {
    error.hint = said.substr(hint + kHint.size());
    said.erase(hint);
  }
  error.message = std::move(said);
  return error;
}

Result<Arguments> fit_arguments(const std::vector<std::string>& words) {
  const KeySet keys = job_keys();
  return parse_arguments("fit", words, job_flags(), &keys);
}

}  // namespace

Result<std::string> ViewAnswers::ask(std::vector<std::string> words) const {
  words.insert(words.begin() + 1, {"--json", "--quiet"});
  Sink out;
  Sink err;
  if (out.file() == nullptr || err.file() == nullptr)
    return tl::make_unexpected(Error{Code::kMissing, "there is not enough memory for this answer", {}, {}});
  Console console;
  console.out = out.file();
  console.err = err.file();
  const int exit_code = run_program(words, console);
  if (exit_code == static_cast<int>(ExitCode::kYes) || exit_code == static_cast<int>(ExitCode::kNo)) return out.take();
  return tl::make_unexpected(error_of(exit_code, err.take()));
}

Result<std::string> ViewAnswers::fit(const std::vector<std::string>& words) const {
  PLIMSOLL_TRY(asked, request(words));
  PLIMSOLL_TRY(job, job::resolve(asked));
  memory::AskedRanks ranks;
  ranks.all = true;
  PLIMSOLL_TRY(price, lever::price(job, lever::World{}, ranks));
  FitAnswer fit{std::move(job), std::move(price.memory), ranks, {}, std::move(price.time)};
  fit.violations = rules::check(fit.job);
  for (const std::string& assumed : timing::unmodelled(fit.job)) fit.answer.warnings.push_back("time: " + assumed);
  return fit_json(fit);
}

Result<job::Request> ViewAnswers::request(const std::vector<std::string>& words) const {
  PLIMSOLL_TRY(arguments, fit_arguments(words));
  return read_input(arguments);
}

std::string ViewAnswers::version() const { return std::string{cli::version()}; }

}  // namespace plimsoll::cli

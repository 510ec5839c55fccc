// SPDX-License-Identifier: Apache-2.0
// Exceptions and the shell's word for a kill, read by their own words: what kind they are, not what caused them.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "why/complaint.h"
#include "why/signal.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

// At least two words with a capital each: "EnforceNotMet", not "Trainer" and not "INFO".
bool is_camel(std::string_view type) {
  int words = 0;
  for (std::size_t i = 0; i + 1 < type.size(); ++i)
    if (type[i] >= 'A' && type[i] <= 'Z' && type[i + 1] >= 'a' && type[i + 1] <= 'z') ++words;
  return words >= 3 && type.find('_') == kNone;
}

// "ValueError('text\nmore text')", as Python prints an exception: line ends are two letters, and the last line is the
// exception's own.
std::optional<ExceptionLine> parse_call_of_exception(std::string_view text) {
  const std::size_t open = text.find('(');
  if (open == kNone || open + 2 >= text.size() || (text[open + 1] != '\'' && text[open + 1] != '"'))
    return std::nullopt;
  std::optional<ExceptionLine> found = parse_exception(text.substr(0, open));
  if (!found) return std::nullopt;
  std::string_view message = text.substr(open + 2);
  const std::size_t close = message.find_last_of("'\"");
  if (close == kNone || message.find_first_not_of(",) .]}", close + 1) != kNone) return std::nullopt;
  message = message.substr(0, close);
  while (message.ends_with("\\n")) message.remove_suffix(2);
  const std::size_t last = message.rfind("\\n");
  if (last != kNone) message = trim(message.substr(last + 2));
  if (last != kNone)
    if (const auto inner = parse_exception(message)) return inner;
  found->message = message;
  return found;
}

}  // namespace

std::optional<ExceptionLine> parse_exception(std::string_view text) {
  // Visual Studio Code's heading; the message follows on the next line.
  for (const std::string_view heading :
       {"Exception has occurred: ", "\xE5\x8F\x91\xE7\x94\x9F\xE5\xBC\x82\xE5\xB8\xB8: "})
    if (text.starts_with(heading)) text.remove_prefix(heading.size());
  std::size_t end = 0;
  std::size_t last = 0;
  while (end < text.size() && (is_word(text[end]) || text[end] == '.')) {
    if (text[end] == '.') last = end + 1;
    ++end;
  }
  if (end == 0 || end > 120 || last >= end) return std::nullopt;
  const std::string_view type = text.substr(last, end - last);
  // The mark that ended a quotation belongs to nobody's message.
  if (text.find_first_not_of("`\"'", end) == kNone) text = text.substr(0, end);
  if (end < text.size() && text[end] != ':') return std::nullopt;
  if (type.size() < 4 || type.front() == '.') return std::nullopt;
  const bool named =
      type.find("Error") != kNone || type.find("Exception") != kNone || type.find("Interrupt") != kNone ||
      type == "Unsupported" || type == "SystemExit" || type == "StopIteration" || type == "OutOfResources" ||
      type.ends_with("Exhausted") || type.ends_with("Full") || type.ends_with("Failure") || type.ends_with("Fault") ||
      type.ends_with("Exceeded") || type.starts_with("Killed") || (type.ends_with("Failed") && type.size() > 9);
  // "paddle.core.EnforceNotMet: text": a class of a module, whatever it is called.
  const bool qualified = last > 0 && end < text.size() && is_camel(type);
  if ((!named && !qualified) || type == "Error") return std::nullopt;
  // "ERROR:torch..." and "error: text" are levels, not classes: a class has a capital and small letters.
  if (type.front() != '_' && !(type.front() >= 'A' && type.front() <= 'Z')) return std::nullopt;
  ExceptionLine line{type, {}};
  if (end < text.size()) line.message = trim(text.substr(end + 1));
  return line;
}

std::optional<ExceptionLine> parse_quoted_exception(std::string_view text) {
  if (has_any(text, {"retry", "ignor", "skip", "warning"})) return std::nullopt;  // the run went on
  // "Run 7 errored: ValueError('text\nmore text')": the words before it say that it is no line of code.
  for (std::size_t at = text.find(": "); at != kNone; at = text.find(": ", at + 1))
    if (has_any(text.substr(0, at), {"error", "exception", "fail", "raised", "crash", "died"}))
      if (const auto found = parse_call_of_exception(text.substr(at + 2))) return found;
  // A worker's exception as the loader passes it on, in another program's list of variables.
  constexpr std::string_view kCaught = "'Caught ";
  const std::size_t caught = text.find(kCaught);
  const std::size_t end = text.find(" in DataLoader worker process");
  if (caught == kNone || end == kNone || end < caught + kCaught.size()) return std::nullopt;
  return parse_exception(text.substr(caught + kCaught.size(), end - caught - kCaught.size()));
}

bool is_shell_killed(std::string_view text) {
  static constexpr std::string_view kWords[] = {"killed",
                                                "get\xC3\xB6tet",
                                                "tu\xC3\xA9",
                                                "processus arr\xC3\xAAt\xC3\xA9",
                                                "terminado (killed)",
                                                "matado",
                                                "ucciso",
                                                "morto",
                                                "\xE5\xB7\xB2\xE6\x9D\x80\xE6\xAD\xBB",
                                                "\xE5\xB7\xB2\xE7\xA0\x8D\xE6\x8E\x89",
                                                "\xE5\xBC\xB7\xE5\x88\xB6\xE7\xB5\x82\xE4\xBA\x86",
                                                "\xEC\xA3\xBD\xEC\x97\x88\xEC\x9D\x8C",
                                                "\xD0\xA3\xD0\xB1\xD0\xB8\xD1\x82\xD0\xBE",
                                                "unicestwiony",
                                                "ge\xC3\xABlimineerd",
                                                "d\xC3\xB6"
                                                "dad",
                                                "matat",
                                                "\xD0\x92\xD0\xB1\xD0\xB8\xD1\x82\xD0\xBE",
                                                "zabito",
                                                "zabit (sigkill)",
                                                "tapettu",
                                                "\xC3\xB6ld\xC3\xBCr\xC3\xBCld\xC3\xBC"};
  std::string_view rest = trim(text);
  // Whoever quotes a log sets the word in bold.
  while (rest.size() > 2 && (rest.front() == '*' || rest.front() == '`') && rest.front() == rest.back())
    rest = rest.substr(1, rest.size() - 2);
  // "run.sh: line 12:  4242 Killed   python train.py": after the last colon come a pid, the word, the command.
  const std::size_t colon = rest.rfind(": ", std::min<std::size_t>(rest.size(), 120));
  bool after_script = false;
  if (colon != kNone) {
    const std::string_view tail = trim(rest.substr(colon + 2));
    if (!tail.empty() && is_digit(tail.front())) {
      rest = tail;
      after_script = true;
    }
  }
  // "zsh: killed     python train.py"
  for (const std::string_view shell : {"zsh: ", "bash: ", "sh: ", "ksh: ", "fish: "})
    if (rest.starts_with(shell)) {
      rest.remove_prefix(shell.size());
      after_script = true;
      break;
    }
  // A shell that reports on a job begins with its number: "[1]  + 26478 killed     python test.py".
  if (const std::size_t close = rest.find(']'); rest.starts_with('[') && close < 6 && leading_integer(rest.substr(1))) {
    rest.remove_prefix(close + 1);
    while (!rest.empty() && (is_blank(rest.front()) || rest.front() == '+' || rest.front() == '-'))
      rest.remove_prefix(1);
    after_script = true;
  }
  while (!rest.empty() && (is_digit(rest.front()) || is_blank(rest.front()))) {
    rest.remove_prefix(1);
    after_script = true;
  }
  for (const std::string_view word : kWords) {
    if (find_word(rest.substr(0, word.size()), word) != 0) continue;
    const std::string_view after = rest.substr(word.size());
    if (after.empty() || after == ".") return true;
    if (after_script && after.front() == ' ') return true;
    if (after.starts_with(" (core dumped)")) return true;
  }
  return false;
}

std::optional<SignalKind> reports_error(const Line& line) {
  const std::string_view text = line.text;
  if (line.level == Level::kWarning || line.level == Level::kInfo || text.size() > 2000) return std::nullopt;
  if (has_any(text, {"0 error", "no error", "error rate", "without error", "errors: 0", "error: 0", "warning:"}))
    return std::nullopt;
  if (has_any(text, {"non-zero exit status", "returned non-zero", "exit status 1"})) return SignalKind::kExit;
  // "error: text", "srun: error: text", "nvml error: text"; a figure after it is a metric.
  const std::size_t at = find_word(text, "error:");
  const std::string_view after = at == kNone ? std::string_view{} : trim(text.substr(at + 6));
  const bool tool = (at != kNone && !after.empty() && !is_digit(after.front()) && after.front() != '-') ||
                    find_word(text, "failed to ") == 0 ||
                    has_any(text, {"error response from", " failed for ", "restarting failed"});
  const bool stops = has_whole(text, "nan") && has_any(text, {"stopping", "aborting", "exiting", "terminating"});
  const auto system = parse_system_error(text);
  if (system && resource_of(*system, text) == Resource::kUnknown && has_any(text, {"errno", "os error"}))
    return SignalKind::kException;
  if (has_any(text, {"shape mismatch", "size mismatch", "dtype mismatch"})) return SignalKind::kException;
  const auto exception = parse_exception(text);
  const bool bare = exception && !has_any(exception->type, {"warning", "interrupt"}) && exception->type != "SystemExit";
  if (line.level == Level::kError || tool || stops || bare || has_whole(text, "fatal") ||
      has_any(text, {"check failed:", "cuda_error_", "hip_error_"}))
    return SignalKind::kUnclear;
  return std::nullopt;
}

bool names_other_reason(std::string_view text) {
  return has_any(text, {"permission denied", "operation not permitted", "no such file or directory",
                        "read-only file system", "not a directory", "stale file handle"}) &&
         has_any(text, {"fail", "error", "cannot", "could not", "unable"}) &&
         !has_any(text, {"nccl info", "shared object", "warning:"});
}

bool states_constraint(std::string_view message) {
  if (has_any(message, {"to be installed", "pip install", "conda install", "is not installed"})) return false;
  return has_any(message, {"divisib",           "multiple of",        "must be",
                           "should be",         "must have",          "not supported",
                           "only supported",    "supported only",     "unsupported",
                           "incompatible",      "not compatible",     "cannot be used",
                           "can not be used",   "mutually exclusive", "exclusive with",
                           "no support for",    "requires",           "is required",
                           "required when",     "cannot be set",      "cannot be combined",
                           "cannot be enabled", "not allowed",        "conflict",
                           "must match",        "at the same time",   "not mentioned",
                           "does not work",     "cannot use",         "cannot have both",
                           "not equal to",      "must equal",         "does not support",
                           "is not valid",      "cannot specify",     "choose one",
                           "either ",           "simultaneously",     "together with",
                           "is only",           "no longer valid",    "has to be",
                           "needs to be",       "invalid parallel",   "please use",
                           "cannot work",       "not yet supported",  "is set but",
                           "while it is not"});
}

bool is_ordinary(const ExceptionLine& exception) {
  static constexpr std::array<std::string_view, 5> kVague = {"RuntimeError", "RuntimeException", "Exception", "OSError",
                                                             "SystemError"};
  const bool unnamed = !has_any(exception.type, {"error", "exception", "stopiteration", "interrupt", "unsupported"});
  const bool vague =
      unnamed || std::find(kVague.begin(), kVague.end(), exception.type) != kVague.end() ||
      has_any(exception.type, {"xlaruntime", "internal", "raytask", "fatal", "process", "worker", "cuda", "died",
                               "actor", "engine", "child", "dead", "crash", "mxnet", "launch", "device", "failed"});
  if (!vague) return true;
  return has_any(
      exception.message,
      {"shape",        "size mismatch",  "mismatch",         "expected",     "dtype",      "not found",
       "no such file", "does not exist", "not implemented",  "undefined",    "gradient",   "grad",
       "state_dict",   "missing key",    "unexpected key",   "kernel image", "ordinal",    "driver",
       "no cuda gpus", "not compiled",   "already in use",   "permission",   "connection", "address",
       "index",        "out of range",   "is not available", "inplace",      "in-place",   "backward through",
       "same device",  "on cpu",         "on cuda",          "nan",          "inf ",       "central directory",
       "corrupt",      "version",        "symbol",           "import",       "tokenizer",  "timed out",
       "broken pipe",  "element 0",      "tensor a",         "dimension",    "type",       "argument",
       "unsupported",  "not supported",  "invalid",          "checksum",     "decod",      "parse"});
}

}  // namespace plimsoll::why

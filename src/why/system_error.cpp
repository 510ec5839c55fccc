// SPDX-License-Identifier: Apache-2.0
// Error numbers of the system: which one a line names, what it was about, which resource it speaks of.
#include "why/complaint.h"
#include "why/resource_words.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr int kEnomem = 12;
constexpr int kEnfile = 23;
constexpr int kEmfile = 24;
constexpr int kEfbig = 27;
constexpr int kEnospc = 28;
constexpr int kEdquot = 122;

struct Code {
  std::string_view text;
  int number;
};

// What Windows numbers otherwise: its code, the same in the numbers of POSIX. The words after it are the system's
// language's.
struct WindowsCode {
  std::int64_t code;
  int number;
};
constexpr WindowsCode kWindowsCodes[] = {{4, kEmfile},   {8, kEnomem},    {14, kEnomem},  {39, kEnospc},
                                         {112, kEnospc}, {1450, kEnomem}, {1455, kEnomem}};

std::optional<int> windows_number(std::string_view text) {
  // "[WinError 1455]"; Rust prints "os error" on every system, and numbers beyond those of POSIX on Windows only.
  const auto own = integer_after(text, "winerror");
  const auto any = own ? own : integer_after(text, "os error");
  constexpr std::int64_t kLargestOfPosix = 255;
  if (!any || (!own && *any <= kLargestOfPosix)) return std::nullopt;
  for (const WindowsCode& known : kWindowsCodes)
    if (known.code == *any) return known.number;
  return std::nullopt;
}

std::optional<int> error_number(std::string_view text) {
  static constexpr Code kNames[] = {{"enospc", kEnospc}, {"enomem", kEnomem}, {"emfile", kEmfile},
                                    {"enfile", kEnfile}, {"edquot", kEdquot}, {"efbig", kEfbig}};
  for (const Code& code : kNames)
    if (has_whole(text, code.text)) return code.number;
  if (const auto number = windows_number(text)) return number;
  for (const std::string_view label :
       {std::string_view{"errno"}, std::string_view{"os error"}, std::string_view{"error code"},
        std::string_view{"code:"}, std::string_view{"oserror("}}) {
    const std::size_t at = find_word(text, label);
    if (at == kNone) continue;
    std::size_t digit = at + label.size();
    while (digit < text.size() && digit < at + label.size() + 3 && !is_digit(text[digit])) ++digit;
    if (digit < text.size() && is_digit(text[digit]))
      if (const auto number = leading_integer(text.substr(digit)); number && *number > 0 && *number < 1000)
        return static_cast<int>(*number);
  }
  // The system's own words stand for their number.
  if (has_text(text, "no space left on device")) return kEnospc;
  if (has_text(text, "quota exceeded")) return kEdquot;
  if (has_text(text, "too many open files")) return kEmfile;
  if (has_text(text, "cannot allocate memory")) return kEnomem;
  return std::nullopt;
}

// A path in quotes or brackets, or a bare absolute one at the end.
std::string_view path_in(std::string_view text) {
  for (std::size_t at = text.find('/'); at != kNone; at = text.find('/', at + 1)) {
    const char before = at == 0 ? ' ' : text[at - 1];
    if (before != '\'' && before != '"' && before != '<' && before != '(' && before != ' ' && before != '`') continue;
    std::size_t end = at;
    while (end < text.size() && !is_blank(text[end]) && text[end] != '\'' && text[end] != '"' && text[end] != '>' &&
           text[end] != ')' && text[end] != '`')
      ++end;
    if (end > at + 2) return text.substr(at, end - at);
  }
  return {};
}

}  // namespace

std::optional<SystemError> parse_system_error(std::string_view text) {
  const auto number = error_number(text);
  if (!number) return std::nullopt;
  return SystemError{*number, path_in(text)};
}

Resource resource_of(const SystemError& error, std::string_view text) {
  switch (error.number) {
    case kEnomem:
      return names_pinned(text) ? Resource::kPinned : names_shared(text) ? Resource::kShared : Resource::kHost;
    case kEmfile:
    case kEnfile:
      return Resource::kDescriptors;
    case kEnospc:
      return names_shared(text) ? Resource::kShared : Resource::kDisk;
    case kEdquot:
      return Resource::kDisk;
    default:
      return Resource::kUnknown;
  }
}

}  // namespace plimsoll::why

// SPDX-License-Identifier: Apache-2.0
// The words of a frame: of its function's name, of its file, of what its line of code calls.
#pragma once

#include <initializer_list>
#include <string_view>

namespace plimsoll::why {

[[nodiscard]] std::string_view file_name(std::string_view path);

// A function's name is made of words; one of them, whole: "validation" in "run_validation_epoch".
[[nodiscard]] bool name_has(std::string_view function, std::string_view word);
[[nodiscard]] bool name_has_any(std::string_view function, std::initializer_list<std::string_view> words);

// What a line of code calls: "load_optimizer" of "self.state = ckpt.load_optimizer(path)". A traceback that is cut
// still says so in the last line that it has.
[[nodiscard]] std::string_view callee(std::string_view code);

}  // namespace plimsoll::why

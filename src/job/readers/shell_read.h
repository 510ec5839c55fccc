// SPDX-License-Identifier: Apache-2.0
// What `read` puts into variables, and the text of here-documents.
#pragma once

#include "job/readers/shell.h"
#include "job/readers/shell_syntax.h"
#include "job/readers/shell_variables.h"

namespace plimsoll::job {

[[nodiscard]] Status read_words(const ShellNode& node, const ShellCommand& command, ShellVariables& variables);
[[nodiscard]] Status read_document(const ShellNode& node, const ShellScript& script, const ShellCommand& command,
                                   ShellVariables& variables);
[[nodiscard]] Result<ShellWord> text_of_document(const ShellNode& node, const ShellScript& script,
                                                 ShellVariables& variables);

// Names whose values come from elsewhere.
[[nodiscard]] Status read_unknown(const ShellCommand& command, ShellVariables& variables);

// The word that names the script of "srun bash -x run.sh a"; the number of words where none does.
[[nodiscard]] std::size_t script_word(const ShellCommand& command);
// What echo writes.
[[nodiscard]] std::string echoed_text(const ShellCommand& command);

}  // namespace plimsoll::job

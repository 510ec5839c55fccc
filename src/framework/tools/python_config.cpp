// SPDX-License-Identifier: Apache-2.0
// Configurations that are Python files of assignments. Whose they are is told by what the names hold at the end.
#include "framework/tools/by_names.h"
#include "framework/tools/dialects.h"
#include "framework/tools/internevo.h"
#include "job/format.h"
#include "job/readers/python_module.h"

namespace plimsoll::job {

using document::Node;

bool is_python_config(std::string_view text) {
  if (!looks_like_python_config(text)) return false;
  const auto root = read_python_module(text);
  return root && (is_xtuner(*root) || is_internevo(*root) || speaks_of_training(*root));
}

Result<Draft> read_python_config(const InputFile& file, const ReadOptions& /*options*/) {
  PLIMSOLL_TRY(root, read_python_module(file.text));
  if (is_internevo(root)) return read_internevo(root, file.path);
  Draft draft;
  draft.path = file.path;
  PLIMSOLL_TRY_STATUS(read_dialect_tree(is_xtuner(root) ? FileKind::kXtuner : FileKind::kByNames, root, draft));
  return draft;
}

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
#include "cli/output_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

namespace plimsoll::cli {

Status write_text(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return bad_input(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written)
    return bad_input(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  return {};
}

}  // namespace plimsoll::cli

// SPDX-License-Identifier: Apache-2.0
// Files appear whole or not at all: written under a temporary name beside their place, synced, then renamed. A full
// disk, a limit on file sizes, a signal or a reader at the same time never sees half a file, and what was there
// before stays until the new content is safe. Links are never written through.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace plimsoll {

enum class Existing { kKeep, kReplace };  // kKeep: a file that is there is an error

struct NewFile {
  std::string path;
  std::string text;
  bool executable = false;
};

// One file. Devices and pipes (/dev/stdout, /dev/null) are written directly.
[[nodiscard]] Status write_whole(const std::string& path, const std::string& text, Existing existing);

// One file that is too large to be held as text. `fill` writes to the stream; its failures are found here.
[[nodiscard]] Status write_streamed(const std::string& path, const std::function<void(std::FILE*)>& fill,
                                    Existing existing);

// Several files, all or none; their folder is made where it is missing, and taken away again if nothing came of it.
// Paths are relative to the folder.
[[nodiscard]] Status write_folder(const std::string& folder, const std::vector<NewFile>& files, Existing existing);

}  // namespace plimsoll

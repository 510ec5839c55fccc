// SPDX-License-Identifier: Apache-2.0
// Libraries of NVIDIA that are loaded while the program runs: the driver's own, those of a toolkit, those inside an
// installed PyTorch. The program neither needs them to start nor to build.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace plimsoll::measure {

class Library {
 public:
  // The first of `files` that can be loaded: from the folders in order; where these have none, not even a broken one,
  // from where the system's loader looks.
  [[nodiscard]] static Result<std::unique_ptr<Library>> open(const std::vector<std::string>& files,
                                                             const std::vector<std::string>& folders);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <class Function>
  bool find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(symbol(name));
    return function != nullptr;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  Library() = default;
  [[nodiscard]] void* symbol(const char* name) const;
  void* handle_ = nullptr;
  std::string path_;
};

// Folders in which libraries of CUDA lie: those `given` alone where there are any; else what LD_LIBRARY_PATH and
// CUDA_HOME name, the usual folders of a toolkit, and those of packages of Python: "nvidia/*/lib" beside an installed
// PyTorch.
[[nodiscard]] std::vector<std::string> library_folders(const std::vector<std::string>& given);

[[nodiscard]] tl::unexpected<Error> missing(std::string message, std::string hint = {});

}  // namespace plimsoll::measure

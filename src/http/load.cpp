// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "http/server.h"

namespace plimsoll::http {

namespace {

constexpr const char* kFile = "plimsoll-http.so";

// Beside the program (a build, a tarball), below its lib/ (what is installed), where a build has it for its tests.
constexpr std::array kFolders{".", "../lib/plimsoll", "../src"};

Error missing(std::string message) {
  return {Code::kMissing, std::move(message), {}, "install the whole package again, or build with ./plimsoll"};
}

Result<MakeServer> load() {
  std::error_code failure;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return tl::make_unexpected(missing("the program's own file cannot be found: " + failure.message()));
  for (const char* folder : kFolders) {
    const std::filesystem::path file = (program.parent_path() / folder / kFile).lexically_normal();
    if (!std::filesystem::exists(file, failure)) continue;
    // Stays for as long as the program runs: servers are made of its code.
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return tl::make_unexpected(missing(fmt::format("{}: {}", file.string(), dlerror())));
    void* const make = dlsym(library, kMakeServer);
    if (make == nullptr)
      return tl::make_unexpected(
          missing(fmt::format("{} is of another version: it has no {}", file.string(), kMakeServer)));
    return reinterpret_cast<MakeServer>(make);
  }
  return tl::make_unexpected(
      missing(fmt::format("{} is not beside {}: nothing can be served without it", kFile, program.string())));
}

}  // namespace

Result<std::unique_ptr<Server>> make_server() {
  PLIMSOLL_TRY(make, load());
  return std::unique_ptr<Server>(make());
}

}  // namespace plimsoll::http

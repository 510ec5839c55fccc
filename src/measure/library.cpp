// SPDX-License-Identifier: Apache-2.0
#include "measure/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/folder.h"
#include "base/text.h"

namespace plimsoll::measure {

namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void add(const fs::path& folder, std::vector<std::string>& folders) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  const std::string text = folder.string();
  if (std::find(folders.begin(), folders.end(), text) == folders.end()) folders.push_back(text);
}

std::vector<fs::path> children(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const std::string& name : names_in(folder.string())) found.push_back(folder / name);
  return found;
}

// site-packages/nvidia/<what>/lib, as the packages of PyTorch lie; torch/lib has NCCL in some builds.
void add_packages(const fs::path& site, std::vector<std::string>& folders) {
  for (const fs::path& package : children(site / "nvidia")) add(package / "lib", folders);
  add(site / "torch" / "lib", folders);
}

// Every lib/python3.*/{site,dist}-packages of an installation.
void add_python(const fs::path& prefix, std::vector<std::string>& folders) {
  for (const fs::path& version : children(prefix / "lib")) {
    if (!version.filename().string().starts_with("python3")) continue;
    add_packages(version / "site-packages", folders);
    add_packages(version / "dist-packages", folders);
  }
}

void add_programs(std::vector<std::string>& folders) {
  const std::string path = environment("PATH");
  for (const std::string_view place : split(path, ':')) {
    if (place.empty()) continue;
    std::error_code error;
    if (fs::exists(fs::path(place) / "python3", error)) add_python(fs::path(place).parent_path(), folders);
  }
}

}  // namespace

tl::unexpected<Error> missing(std::string message, std::string hint) {
  return tl::make_unexpected(Error{Code::kMissing, std::move(message), {}, std::move(hint)});
}

std::vector<std::string> library_folders(const std::vector<std::string>& given) {
  std::vector<std::string> folders;
  for (const std::string& folder : given) {
    add(folder, folders);
    add(fs::path(folder) / "lib64", folders);
    add_packages(folder, folders);
    add_python(folder, folders);
  }
  if (!given.empty()) return folders;  // whoever names a folder does not mean another library of the machine
  const std::string paths = environment("LD_LIBRARY_PATH");
  for (const std::string_view place : split(paths, ':'))
    if (!place.empty()) add(fs::path(place), folders);
  const std::string python_path = environment("PYTHONPATH");
  for (const std::string_view place : split(python_path, ':'))
    if (!place.empty()) add_packages(fs::path(place), folders);
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string prefix = environment(name); !prefix.empty()) add_python(prefix, folders);
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string home = environment(name); !home.empty()) add(fs::path(home) / "lib64", folders);
  add_programs(folders);
  for (const char* prefix : {"/usr/local", "/usr", "/opt/conda"}) add_python(prefix, folders);
  if (const std::string home = environment("HOME"); !home.empty()) add_python(fs::path(home) / ".local", folders);
  add("/usr/local/cuda/lib64", folders);
  add("/usr/lib/x86_64-linux-gnu", folders);
  return folders;
}

Result<std::unique_ptr<Library>> Library::open(const std::vector<std::string>& files,
                                               const std::vector<std::string>& folders) {
  std::vector<std::string> tried;
  for (const std::string& folder : folders)
    for (const std::string& file : files) tried.push_back((fs::path(folder) / file).string());
  tried.insert(tried.end(), files.begin(), files.end());
  std::string broken;
  for (const std::string& path : tried) {
    std::error_code error;
    const bool is_named = path.find('/') != std::string::npos;
    const bool is_there = is_named && fs::exists(path, error);
    if (is_named ? !is_there : !broken.empty()) continue;
    std::unique_ptr<Library> library(new Library);
    library->handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library->handle_ == nullptr) {
      if (const char* why = dlerror(); is_there && why != nullptr && broken.empty()) broken = printable(why, 300);
      continue;
    }
    library->path_ = path;
    return library;
  }
  return missing(broken.empty() ? fmt::format("{} was not found", files.front())
                                : fmt::format("{} cannot be loaded: {}", files.front(), broken));
}

// Left loaded: these libraries have threads and exit handlers of their own, which must not lose their code.
Library::~Library() = default;

void* Library::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace plimsoll::measure

// SPDX-License-Identifier: Apache-2.0
#include "answer/input.h"
#include "library/impl.h"

namespace plimsoll::api {

Error outside(const plimsoll::Error& error) { return {static_cast<int>(error.code), to_string(error), error.hint}; }

namespace {

Settings full_names(const Settings& settings) {
  Settings full;
  for (const auto& [key, value] : settings) full.emplace_back(answer::full_key_name(key), value);
  return full;
}

Result<Job> held(plimsoll::Result<job::Request> request) {
  if (!request) return outside(request.error());
  return Job(std::make_shared<const Job::Impl>(Job::Impl{*std::move(request)}));
}

}  // namespace

answer::Input input_of(const std::vector<std::string>& files, const Options& options) {
  answer::Input input;
  input.operands = files;
  input.framework = options.framework;
  input.model = options.model;
  input.gpu = options.gpu;
  input.gpus = options.gpus;
  input.script_args = options.script_args;
  input.command = options.command;
  input.config = options.config;
  input.strict = options.strict;
  input.settings = full_names(options.settings);
  return input;
}

Result<Job> Job::read(const std::vector<std::string>& files, const Options& options) {
  return held(answer::read_input(input_of(files, options)));
}

Result<Job> Job::parse(const std::vector<Source>& sources, const Options& options) {
  std::vector<job::InputFile> files;
  for (const Source& source : sources) files.push_back({source.name, source.text});
  return held(answer::read_sources(std::move(files), input_of({}, options)));
}

Job Job::with(const Settings& settings) const {
  return Job(std::make_shared<const Impl>(Impl{impl_->request.with(full_names(settings))}));
}

World::World() : impl_(std::make_shared<const Impl>()) {}

Result<World> World::read(const std::string& calibration_file) {
  auto world = answer::read_world(calibration_file);
  if (!world) return outside(world.error());
  return World(std::make_shared<const Impl>(Impl{*std::move(world)}));
}

}  // namespace plimsoll::api

// SPDX-License-Identifier: Apache-2.0
// Everything that Plimsoll offers to other programs.
//
//   const auto job = plimsoll::api::Job::read({"job.toml"});
//   const auto fit = plimsoll::api::fit(*job);
//   if (!fit->fits()) std::puts(fit->text().c_str());
#pragma once

#include <plimsoll/answer.h>
#include <plimsoll/job.h>
#include <plimsoll/recording.h>
#include <plimsoll/result.h>

// SPDX-License-Identifier: Apache-2.0
// The list of verbs. A new one is a file that defines it and two lines here.
#include <array>

#include "cli/program.h"

namespace plimsoll::cli {

extern const Verb kFit;
extern const Verb kPlan;
extern const Verb kRead;
extern const Verb kRun;
extern const Verb kWatch;
extern const Verb kProve;
extern const Verb kLearn;
extern const Verb kCalibrate;
extern const Verb kMap;
extern const Verb kMerge;
extern const Verb kCapture;
extern const Verb kRl;
extern const Verb kLint;
extern const Verb kWhy;
extern const Verb kReplay;
extern const Verb kView;
extern const Verb kDiff;
extern const Verb kScore;
extern const Verb kCheck;
extern const Verb kModels;
extern const Verb kGpus;
extern const Verb kKeys;
extern const Verb kDoctor;
extern const Verb kComplete;
extern const Verb kMan;

std::span<const Verb* const> verbs() {
  static const std::array<const Verb*, 25> kVerbs = {
      &kFit,   &kPlan,   &kRead, &kCapture, &kRun,    &kWatch,    &kProve, &kLearn, &kCalibrate,
      &kMap,   &kMerge,  &kRl,   &kLint,    &kWhy,    &kReplay,   &kView,  &kDiff,  &kScore,
      &kCheck, &kModels, &kGpus, &kKeys,    &kDoctor, &kComplete, &kMan};
  return kVerbs;
}

}  // namespace plimsoll::cli

// SPDX-License-Identifier: Apache-2.0
// What a log says about the settings of the job that failed, as the choice of fixes asks for it.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/text.h"
#include "why/diagnosis.h"
#include "why/words.h"

namespace plimsoll::why {

class KnownSettings {
 public:
  KnownSettings(const Diagnosis& diagnosis, const Findings& findings) : diagnosis_(diagnosis), findings_(findings) {}

  [[nodiscard]] std::string option(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names)
      if (const std::string found = findings_.option(std::string{name}); !found.empty()) return lower(found);
    return {};
  }
  [[nodiscard]] bool is_on(std::initializer_list<std::string_view> names) const {
    const std::string value = option(names);
    return value == "true" || value == "1" || value == "yes" || value == "on";
  }
  [[nodiscard]] bool micro_batch_is_one() const {
    const auto shown = findings_.figures.find("batch");
    return option({"micro_batch_size", "per_device_train_batch_size", "train_micro_batch_size_per_gpu",
                   "batch_size"}) == "1" ||
           (shown != findings_.figures.end() && shown->second == 1);
  }
  [[nodiscard]] bool recomputes() const {
    const std::string granularity = option({"recompute_granularity"});
    return granularity == "full" || is_on({"gradient_checkpointing", "checkpoint_activations"});
  }
  [[nodiscard]] bool is_fp32() const {
    const std::string precision = option({"precision", "dtype", "torch_dtype", "mixed_precision"});
    return precision == "fp32" || precision == "float32" || precision == "32" || precision == "no" ||
           option({"bf16"}) == "false";
  }
  // 2.1 -> 201; 0: not known.
  [[nodiscard]] int torch() const {
    const auto major = leading_integer(findings_.torch_version);
    const std::size_t dot = findings_.torch_version.find('.');
    if (!major || dot == std::string::npos) return 0;
    return static_cast<int>(*major * 100 +
                            leading_integer(std::string_view{findings_.torch_version}.substr(dot + 1)).value_or(0));
  }
  [[nodiscard]] bool has_expandable() const { return !findings_.is_windows && (torch() == 0 || torch() >= 201); }
  [[nodiscard]] bool has_max_split() const { return torch() == 0 || torch() >= 110; }
  [[nodiscard]] bool uses_user_buffers() const { return is_on({"use_nccl_ub", "nccl_ub"}); }
  [[nodiscard]] bool is_serving() const {
    const Speaker* speaker = speaker_of(diagnosis_.framework);
    return speaker != nullptr && speaker->serves;
  }
  [[nodiscard]] bool is_training() const { return !is_serving(); }
  [[nodiscard]] bool many() const { return findings_.is_multi_rank(); }
  [[nodiscard]] const Findings& findings() const { return findings_; }

 private:
  const Diagnosis& diagnosis_;
  const Findings& findings_;
};

}  // namespace plimsoll::why

// SPDX-License-Identifier: Apache-2.0
// A proof of `plimsoll prove`: what one real rank of a job measured. For that very job the interval of an answer is
// what the proof leaves of it; for any other job it says nothing and is refused.
#pragma once

#include <cstdint>
#include <string>

#include "answer/fit.h"

namespace plimsoll::answer {

inline constexpr int kProofSchema = 1;
inline constexpr const char* kProofKind = "plimsoll-proof";

struct ProofFile {
  std::string path;
  std::string job;  // as a job file
  std::int64_t pp_rank = 0;
  std::int64_t peak_allocated = 0;  // bytes, measured
  std::int64_t peak_reserved = 0;
  std::string device;
  std::string torch;
};

[[nodiscard]] Result<ProofFile> read_proof(const std::string& path);

// Narrows the interval of the proven rank. A proof of another job is an error that names the first key that differs.
[[nodiscard]] Status apply_proof(const ProofFile& proof, Fit& fit);

}  // namespace plimsoll::answer

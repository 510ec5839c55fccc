// SPDX-License-Identifier: Apache-2.0
#include "answer/proof.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/file.h"
#include "document/node.h"
#include "emit/settings.h"
#include "job/read.h"

namespace plimsoll::answer {

namespace {

using document::Node;

// What two runs of one job may differ by: other data, a kernel chosen differently, a block of the allocator.
constexpr double kRepeat = 0.001;

std::int64_t measured_in(const Node& root, std::string_view key) {
  const Node* pair = root.find(key);
  const Node* value = pair != nullptr && pair->is_object() ? pair->find("measured") : nullptr;
  constexpr double kMost = 1e15;
  if (value == nullptr || !value->is_number() || !(value->as_real() > 0) || value->as_real() > kMost) return 0;
  return static_cast<std::int64_t>(value->as_real());
}

std::int64_t half_width(std::int64_t measured, std::int64_t predicted) {
  return std::abs(measured - predicted) + static_cast<std::int64_t>(kRepeat * static_cast<double>(measured));
}

}  // namespace

Result<ProofFile> read_proof(const std::string& path) {
  PLIMSOLL_TRY(text, read_file(path));
  auto root = document::parse_json(text);
  if (!root) return tl::make_unexpected(std::move(root.error()).with_context(path));
  const auto text_of = [&root](const char* key) {
    const Node* found = root->find(key);
    return found != nullptr && found->is_string() ? found->text : std::string{};
  };
  ProofFile proof;
  proof.path = path;
  proof.job = text_of("job");
  proof.device = text_of("device");
  proof.torch = text_of("torch");
  proof.peak_allocated = measured_in(*root, "peak_allocated");
  proof.peak_reserved = measured_in(*root, "peak_reserved");
  if (const Node* rank = root->find("pp_rank"); rank != nullptr && rank->is_integer()) proof.pp_rank = rank->integer;
  if (!text_of("out_of_memory").empty())
    return bad_input(fmt::format("{}: the device ran out of memory: nothing was proven", path));
  if (text_of("kind") != kProofKind || proof.job.empty() || proof.peak_allocated == 0 || proof.peak_reserved == 0)
    return bad_input(fmt::format("{}: no proof of a job; wanted kind, job and measured peaks", path),
                     "plimsoll prove JOB --out FILE writes one");
  return proof;
}

Status apply_proof(const ProofFile& proof, Fit& fit) {
  auto proven = job::read_job({{"job.toml", proof.job}}, {});
  if (!proven) return tl::make_unexpected(std::move(proven.error()).with_context(proof.path));
  if (const std::vector<std::string> keys = emit::differing_keys(*proven, fit.job); !keys.empty())
    return bad_input(fmt::format("{}: the proof is of another job: {} differs", proof.path, keys.front()),
                     "plimsoll prove makes one for this job");
  for (memory::RankAnswer& rank : fit.memory.ranks) {
    if (rank.pp_rank != proof.pp_rank) continue;
    rank.spread.allocated = std::min(rank.spread.allocated, half_width(proof.peak_allocated, rank.peak_allocated));
    const std::int64_t before = rank.spread.reserved;
    rank.spread.reserved = std::min(before, half_width(proof.peak_reserved, rank.peak_reserved));
    rank.low += before - rank.spread.reserved;
    rank.high -= before - rank.spread.reserved;
  }
  fit.job.notes.push_back(fmt::format("proven on {} with PyTorch {}: {} allocated, {} reserved at the peak ({})",
                                      proof.device, proof.torch, format_bytes(proof.peak_allocated),
                                      format_bytes(proof.peak_reserved), proof.path));
  return {};
}

}  // namespace plimsoll::answer

// SPDX-License-Identifier: Apache-2.0
// Collectives of NCCL between the GPUs of this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "measure/cuda.h"

namespace plimsoll::measure {

enum class Collective : std::uint8_t { kAllReduce, kAllGather, kAllToAll };
inline constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kAllGather, Collective::kAllToAll};
[[nodiscard]] std::string name_of(Collective collective);

class Messages {
 public:
  // Of all sessions, one per GPU; each gets two buffers of `bytes`.
  [[nodiscard]] static Result<std::unique_ptr<Messages>> open(const std::vector<const Session*>& sessions,
                                                              const std::vector<std::string>& folders,
                                                              std::size_t bytes);
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  [[nodiscard]] const std::string& library() const;
  // Seconds of a collective whose whole tensor has `bytes`: what all gather, what each reduces, what each sends.
  [[nodiscard]] Result<double> time(Collective collective, std::size_t bytes, double burst) const;

 private:
  Messages() = default;
  struct Functions;
  [[nodiscard]] Status start(Collective collective, std::size_t bytes) const;
  [[nodiscard]] Status start_on(std::size_t rank, Collective collective, std::size_t bytes) const;
  [[nodiscard]] Status wait() const;

  std::vector<const Session*> sessions_;
  std::unique_ptr<Functions> call_;
  std::vector<void*> members_;
  std::vector<Buffer> from_;
  std::vector<Buffer> into_;
};

}  // namespace plimsoll::measure

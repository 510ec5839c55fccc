// SPDX-License-Identifier: Apache-2.0
// Finds any of a hundred-odd literals in a stream of bytes at memory speed. A hashed table of four-byte
// pieces is asked at every fourth byte only: each literal is at least seven bytes long and has the four
// pieces that can meet such a position in the table, so none can slip through; what hits is compared.
// ASCII case is ignored.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll::why {

// What a literal announces; a line's topics choose the recognisers that read it.
enum class Topic : std::uint8_t {
  kOom,
  kServing,
  kNccl,
  kLibrary,
  kHost,
  kKill,
  kDisk,
  kException,
  kTraceback,
  kDevice,
  kTime,
  kSetting,
  kMarker,
  kWorld,
  kAbort,
  kElastic,
  kDriver,
  kSummary,
  kFailure,  // a word that only complaints use, whatever they are about
};
using Topics = std::uint32_t;  // one bit per Topic
[[nodiscard]] constexpr Topics bit(Topic topic) { return Topics{1} << static_cast<unsigned>(topic); }
[[nodiscard]] constexpr bool has(Topics topics, Topic topic) { return (topics & bit(topic)) != 0; }

struct Literal {
  std::string_view text;  // lower case, at least kShortest bytes
  Topic topic;
};
inline constexpr std::size_t kShortest = 7;

class LiteralScanner {
 public:
  explicit LiteralScanner(std::span<const Literal> literals);

  // Topics of all literals in the text.
  [[nodiscard]] Topics topics(std::string_view text) const;
  // Position of the first literal found at or after `from`, or npos, with its topic.
  [[nodiscard]] std::size_t find(std::string_view text, std::size_t from, Topic* topic) const;

 private:
  struct Piece {
    std::uint32_t literal;
    std::uint32_t offset;  // of the piece in the literal
  };
  // Answers the literal that holds position `at` of the text, or -1.
  [[nodiscard]] int verify(std::string_view text, std::size_t at, std::uint32_t hash) const;

  std::span<const Literal> literals_;
  std::array<std::uint64_t, 1024> bits_{};
  std::vector<std::uint32_t> starts_;  // by hash, into pieces_; one past the last at the end
  std::vector<Piece> pieces_;
};

// The literals of every recogniser of this module.
[[nodiscard]] std::span<const Literal> log_literals();
[[nodiscard]] const LiteralScanner& log_scanner();

}  // namespace plimsoll::why

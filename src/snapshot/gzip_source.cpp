// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>

#include <fmt/format.h>
#include <zlib.h>

#include "snapshot/source.h"

namespace plimsoll::snapshot {

namespace {

constexpr int kGzipWindow = 15 + 16;

class GzipSource final : public Source {
 public:
  GzipSource(std::unique_ptr<Source> packed, const InflateLimits& limits)
      : packed_(std::move(packed)), meter_("gzip", limits), is_open_(inflateInit2(&stream_, kGzipWindow) == Z_OK) {}
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override {
    if (is_open_) inflateEnd(&stream_);
  }

  Result<std::size_t> read(char* into, std::size_t room) override {
    if (!is_open_) return bad_input("gzip: cannot start to inflate; wanted memory for it");
    room = std::min<std::size_t>(room, std::numeric_limits<uInt>::max());
    stream_.next_out = reinterpret_cast<Bytef*>(into);
    stream_.avail_out = static_cast<uInt>(room);
    while (stream_.avail_out == room) {
      if (stream_.avail_in == 0) PLIMSOLL_TRY_STATUS(fill());
      if (stream_.avail_in == 0) {
        if (is_between_) return 0;
        return bad_input(fmt::format("gzip: the file ends at byte {} inside its data; wanted the whole file", taken()));
      }
      PLIMSOLL_TRY_STATUS(step());
    }
    const std::size_t gave = room - stream_.avail_out;
    PLIMSOLL_TRY_STATUS(meter_.gave(gave));
    return gave;
  }

 private:
  [[nodiscard]] std::size_t taken() const { return meter_.in() - stream_.avail_in; }

  Status fill() {
    PLIMSOLL_TRY(got, packed_->read(buffer_.data(), buffer_.size()));
    meter_.took(got);
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_in = static_cast<uInt>(got);
    return {};
  }

  Status step() {
    if (is_between_) {
      if (taken() != 0 && *stream_.next_in != kFirstByte)
        return bad_input(fmt::format("gzip: byte {}: something follows the end; wanted nothing", taken()));
      inflateReset(&stream_);
      is_between_ = false;
    }
    const int state = inflate(&stream_, Z_NO_FLUSH);
    is_between_ = state == Z_STREAM_END;
    if (state == Z_OK || state == Z_STREAM_END || state == Z_BUF_ERROR) return {};
    return bad_input(fmt::format("gzip: byte {}: {}; wanted gzip data", taken(),
                                 stream_.msg != nullptr ? stream_.msg : "the data is broken"));
  }

  static constexpr Bytef kFirstByte = 0x1f;
  std::unique_ptr<Source> packed_;
  UnpackMeter meter_;
  z_stream stream_{};
  bool is_open_;
  bool is_between_ = true;  // of two members, or before the first
  std::array<char, 1U << 16> buffer_{};
};

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

std::unique_ptr<Source> gzip_source(std::unique_ptr<Source> packed, const InflateLimits& limits) {
  return std::make_unique<GzipSource>(std::move(packed), limits);
}

}  // namespace plimsoll::snapshot

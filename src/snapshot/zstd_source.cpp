// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <zstd.h>

#include "snapshot/source.h"

namespace plimsoll::snapshot {

namespace {

// 64 MiB: what `zstd -19` needs and more; `--long=27` and beyond are refused with a message.
constexpr int kWindowLog = 26;

class ZstdSource final : public Source {
 public:
  ZstdSource(std::unique_ptr<Source> packed, const InflateLimits& limits)
      : packed_(std::move(packed)), meter_("zstd", limits), stream_(ZSTD_createDStream(), ZSTD_freeDStream) {
    if (stream_) ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kWindowLog);
  }

  Result<std::size_t> read(char* into, std::size_t room) override {
    if (!stream_) return bad_input("zstd: cannot start to unpack; wanted memory for it");
    ZSTD_outBuffer out{into, room, 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size && !is_flushing_) {
        PLIMSOLL_TRY(got, packed_->read(buffer_.data(), buffer_.size()));
        meter_.took(got);
        in_ = {buffer_.data(), got, 0};
        if (got == 0) {
          if (is_between_) return 0;
          return bad_input(
              fmt::format("zstd: the file ends at byte {} inside its data; wanted the whole file", meter_.in()));
        }
      }
      const std::size_t wanted = ZSTD_decompressStream(stream_.get(), &out, &in_);
      if (ZSTD_isError(wanted) != 0)
        return bad_input(fmt::format("zstd: byte {}: {}; wanted zstd data", meter_.in() - in_.size + in_.pos,
                                     ZSTD_getErrorName(wanted)));
      is_between_ = wanted == 0;
      is_flushing_ = out.pos == out.size && !is_between_;
    }
    PLIMSOLL_TRY_STATUS(meter_.gave(out.pos));
    return out.pos;
  }

 private:
  std::unique_ptr<Source> packed_;
  UnpackMeter meter_;
  std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool is_between_ = true;    // of two frames, or before the first
  bool is_flushing_ = false;  // the decompressor may hold more than the room it was given
  std::array<char, 1U << 16> buffer_{};
};

}  // namespace

bool is_zstd(std::string_view bytes) { return bytes.starts_with("\x28\xb5\x2f\xfd"); }

std::unique_ptr<Source> zstd_source(std::unique_ptr<Source> packed, const InflateLimits& limits) {
  return std::make_unique<ZstdSource>(std::move(packed), limits);
}

}  // namespace plimsoll::snapshot

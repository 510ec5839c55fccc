// SPDX-License-Identifier: Apache-2.0
// Pickles written by hand, and the recordings under tests/data/snapshots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"
#include "snapshot/snapshot.h"

namespace plimsoll::snapshot {

inline std::string recording(const std::string& name) {
  auto bytes = read_file(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/snapshots/" + name);
  return bytes ? *bytes : std::string();
}

inline std::string little(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

// Writes values as the writers do: protocol 2 as PyTorch's C++ code, 4 and 5 as Python.
struct Writer {
  int protocol = 4;

  [[nodiscard]] std::string whole(const std::string& value) const {
    const std::string body = value + ".";
    const std::string frame = protocol >= 4 ? "\x95" + little(body.size(), 8) : "";
    return std::string("\x80") + static_cast<char>(protocol) + frame + body;
  }
  [[nodiscard]] std::string text(std::string_view s) const {
    const std::string memo = protocol >= 4 ? "\x94" : std::string("q\0", 2);
    if (protocol >= 4) return "\x8c" + little(s.size(), 1) + std::string(s) + memo;
    return "X" + little(s.size(), 4) + std::string(s) + memo;
  }
  [[nodiscard]] static std::string number(std::uint64_t n) {
    if (n < 256) return "K" + little(n, 1);
    if ((n >> 63) != 0) return "\x8a\x09" + little(n, 8) + std::string(1, '\0');
    return "\x8a\x08" + little(n, 8);
  }
  [[nodiscard]] std::string pair(std::string_view key, const std::string& value) const { return text(key) + value; }
  [[nodiscard]] static std::string dict(const std::string& pairs) { return "}(" + pairs + "u"; }
  [[nodiscard]] static std::string list(const std::string& items) { return "](" + items + "e"; }
  [[nodiscard]] std::string event(std::string_view action, std::uint64_t addr, std::uint64_t size,
                                  const std::string& more = {}) const {
    return dict(pair("action", text(action)) + pair("addr", number(addr)) + pair("size", number(size)) +
                pair("stream", number(0)) + more);
  }
  [[nodiscard]] std::string block(std::uint64_t size, std::string_view state, const std::string& more = {}) const {
    return dict(pair("size", number(size)) + pair("state", text(state)) + more);
  }
  [[nodiscard]] std::string segment(std::uint64_t address, std::uint64_t size, const std::string& blocks) const {
    return dict(pair("device", number(0)) + pair("address", number(address)) + pair("total_size", number(size)) +
                pair("stream", number(0)) + pair("segment_type", text("large")) + pair("blocks", list(blocks)));
  }
  [[nodiscard]] std::string frame(std::string_view name, std::uint64_t line) const {
    return dict(pair("name", text(name)) + pair("filename", text("a.py")) + pair("line", number(line)));
  }
  [[nodiscard]] std::string top(const std::string& segments, const std::string& traces,
                                const std::string& more = {}) const {
    return dict(pair("segments", list(segments)) + pair("device_traces", list(traces)) + more);
  }
  // Two devices, one of them unused; a segment of two blocks; one shared frame.
  [[nodiscard]] std::string small_snapshot() const {
    const std::string frames = pair("frames", list(frame("f", 7)));
    return whole(top(segment(4096, 1024, block(512, "active_allocated") + block(512, "inactive")),
                     list(event("segment_alloc", 4096, 1024) + event("alloc", 4096, 500, frames)) + "]"));
  }
};

inline std::string error_of(const Result<Snapshot>& result) { return result ? "" : to_string(result.error()); }

}  // namespace plimsoll::snapshot

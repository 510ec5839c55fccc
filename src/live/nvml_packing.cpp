// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "live/nvml.h"

namespace plimsoll::live {

namespace {

void put(std::string& to, std::int64_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

void put(std::string& to, std::string_view text) {
  put(to, static_cast<std::int64_t>(text.size()));
  to += text;
}

// Takes values off the front; once one is not there, nothing is.
class Unpacker {
 public:
  explicit Unpacker(std::string_view packed) : rest_(packed) {}
  std::int64_t number() {
    std::int64_t value = 0;
    const std::string_view bytes = take(sizeof value);
    if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number())); }
  // How many things of at least `size` bytes each follow.
  std::int64_t count(std::size_t size) {
    const std::int64_t value = number();
    if (value >= 0 && static_cast<std::uint64_t>(value) <= rest_.size() / size) return value;
    whole_ = false;
    return 0;
  }
  [[nodiscard]] bool ended_well() const { return whole_ && rest_.empty(); }

 private:
  std::string_view take(std::int64_t size) {
    if (size < 0 || static_cast<std::uint64_t>(size) > rest_.size()) {
      whole_ = false;
      rest_ = {};
    }
    if (!whole_) return {};
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view rest_;
  bool whole_ = true;
};

}  // namespace

std::string pack(const std::vector<DeviceUse>& devices) {
  std::string packed;
  put(packed, static_cast<std::int64_t>(devices.size()));
  for (const DeviceUse& device : devices) {
    for (const std::int64_t value :
         {std::int64_t{device.index}, device.total, device.used, std::int64_t{device.busy_percent}})
      put(packed, value);
    put(packed, device.name);
    put(packed, device.uuid);
    put(packed, static_cast<std::int64_t>(device.processes.size()));
    for (const DeviceProcessUse& process : device.processes) {
      put(packed, process.pid);
      put(packed, process.bytes);
    }
  }
  return packed;
}

Result<std::vector<DeviceUse>> unpack(std::string_view packed) {
  constexpr std::size_t kWord = sizeof(std::int64_t);
  constexpr std::size_t kLeastDevice = 7 * kWord;
  Unpacker from(packed);
  std::vector<DeviceUse> devices;
  const std::int64_t count = from.count(kLeastDevice);
  for (std::int64_t i = 0; i < count; ++i) {
    DeviceUse& device = devices.emplace_back();
    device.index = static_cast<int>(from.number());
    device.total = from.number();
    device.used = from.number();
    device.busy_percent = static_cast<int>(from.number());
    device.name = from.text();
    device.uuid = from.text();
    const std::int64_t processes = from.count(2 * kWord);
    for (std::int64_t p = 0; p < processes; ++p) {
      const std::int64_t pid = from.number();
      device.processes.push_back({pid, from.number()});
    }
  }
  if (!from.ended_well()) return bad_input("the process that asks the driver did not send whole devices");
  return devices;
}

}  // namespace plimsoll::live

// SPDX-License-Identifier: Apache-2.0
// The part of CUDA's driver interface that is called here. Names carry the suffix of the version whose layout is meant
// (CUDA driver API reference); handles are pointers, device addresses are 64 bits wide.
#pragma once

#include <cstddef>

namespace plimsoll::measure::abi {

using Status = int;
using Device = int;
using Address = unsigned long long;
using Context = void*;
using Stream = void*;
using Event = void*;
using Module = void*;
using Function = void*;

inline constexpr Status kSuccess = 0;
inline constexpr Status kOutOfMemory = 2;
inline constexpr int kClockRate = 13;  // CU_DEVICE_ATTRIBUTE_*
inline constexpr int kMultiprocessors = 16;
inline constexpr int kCapabilityMajor = 75;
inline constexpr int kCapabilityMinor = 76;
inline constexpr std::size_t kUuidBytes = 16;

struct Uuid {
  char bytes[kUuidBytes];
};

struct Driver {
  Status (*init)(unsigned int flags) = nullptr;
  Status (*version)(int*) = nullptr;
  Status (*count)(int*) = nullptr;
  Status (*device)(Device*, int index) = nullptr;
  Status (*name)(char*, int size, Device) = nullptr;
  Status (*uuid)(Uuid*, Device) = nullptr;
  Status (*total)(std::size_t*, Device) = nullptr;
  Status (*attribute)(int*, int which, Device) = nullptr;
  Status (*error_name)(Status, const char**) = nullptr;
  Status (*retain)(Context*, Device) = nullptr;
  Status (*release)(Device) = nullptr;
  Status (*set_current)(Context) = nullptr;
  Status (*free_memory)(std::size_t* free, std::size_t* total) = nullptr;
  Status (*allocate)(Address*, std::size_t) = nullptr;
  Status (*free)(Address) = nullptr;
  Status (*allocate_host)(void**, std::size_t) = nullptr;
  Status (*free_host)(void*) = nullptr;
  Status (*to_device)(Address, const void*, std::size_t, Stream) = nullptr;
  Status (*to_host)(void*, Address, std::size_t, Stream) = nullptr;
  Status (*copy)(Address, Address, std::size_t, Stream) = nullptr;
  Status (*set)(Address, unsigned int, std::size_t count, Stream) = nullptr;
  Status (*create_stream)(Stream*, unsigned int flags) = nullptr;
  Status (*destroy_stream)(Stream) = nullptr;
  Status (*synchronize)(Stream) = nullptr;
  Status (*create_event)(Event*, unsigned int flags) = nullptr;
  Status (*destroy_event)(Event) = nullptr;
  Status (*record)(Event, Stream) = nullptr;
  Status (*elapsed)(float* milliseconds, Event, Event) = nullptr;
  Status (*load_module)(Module*, const void* image) = nullptr;
  Status (*unload_module)(Module) = nullptr;
  Status (*function)(Function*, Module, const char* name) = nullptr;
  Status (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**,
                   void**) = nullptr;
};

}  // namespace plimsoll::measure::abi

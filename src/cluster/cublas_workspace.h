// SPDX-License-Identifier: Apache-2.0
// What PyTorch gives each cuBLAS handle to work in (parseChosenWorkspaceSize in ATen/cuda/CublasHandlePool.cpp). A
// thread that multiplies has a handle of its own, and keeps this for good.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/version.h"
#include "cluster/cluster.h"

namespace plimsoll::cluster {

// ":4096:8" is eight buffers of 4096 KiB; ":4096:2:16:8" adds eight of 16 KiB. Nothing for another form.
[[nodiscard]] std::optional<std::int64_t> configured_workspace(std::string_view config);

// `config` is CUBLAS_WORKSPACE_CONFIG, empty where it is not set. Without it 32 MiB on Hopper, from PyTorch 2.12 on on
// Blackwell too (pytorch/pytorch#175344), and 8.1 MiB elsewhere. No version: the newest.
[[nodiscard]] std::int64_t cublas_workspace(Architecture architecture, std::string_view config,
                                            std::optional<Version> torch);

}  // namespace plimsoll::cluster

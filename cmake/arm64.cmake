# SPDX-License-Identifier: Apache-2.0
# Cross-compiling for arm64 (Grace) with Debian's compiler and the libraries of its arm64 archive, on x86-64 as root. Some
# of these replace their amd64 namesakes, so do it in a system of its own (debootstrap --variant=minbase bookworm ROOT,
# then chroot ROOT), with cmake, ninja-build, git, patchelf and this repository:
#   dpkg --add-architecture arm64 && apt-get update
#   apt-get install g++-aarch64-linux-gnu qemu-user-static libfmt-dev:arm64 libsimdjson-dev:arm64 \
#     libtomlplusplus-dev:arm64 libyaml-cpp-dev:arm64 libexpected-dev zlib1g-dev:arm64 libzstd-dev:arm64 \
#     libcpp-httplib-dev:arm64 libssl-dev:arm64
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu /)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

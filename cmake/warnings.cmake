# SPDX-License-Identifier: Apache-2.0
# One interface target carries warnings and sanitizers to every target of ours.
add_library(plimsoll_options INTERFACE)
target_compile_options(plimsoll_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these on correct code inside std::string and std::optional at -O2.
  target_compile_options(plimsoll_options INTERFACE -Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overflow
    -Wno-stringop-overread -Wno-array-bounds)
else()
  # Sign conversion is part of -Wconversion in clang but not in g++; vector indices would need a cast each.
  # libstdc++ 12 calls what it deprecates in its own std::stable_sort.
  target_compile_options(plimsoll_options INTERFACE -Wno-sign-conversion -Wno-deprecated-declarations)
endif()
if(PLIMSOLL_UNITY)
  # Beside each other a local name may be that of another source's function, and a source is no main file that may use
  # its anonymous namespace in a class; the debug preset, which takes sources one by one, looks for both.
  target_compile_options(plimsoll_options INTERFACE -Wno-shadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(plimsoll_options INTERFACE -Wno-subobject-linkage)
  endif()
endif()
if(PLIMSOLL_SANITIZE)
  target_compile_options(plimsoll_options INTERFACE -fsanitize=${PLIMSOLL_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(plimsoll_options INTERFACE -fsanitize=${PLIMSOLL_SANITIZE})
endif()
if(PLIMSOLL_COVERAGE)
  # Counters for libFuzzer. A fuzz target itself links with -fsanitize=fuzzer.
  target_compile_options(plimsoll_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=lld PLIMSOLL_HAS_LLD)  # links fifty sanitized programs in a third of the time
  if(PLIMSOLL_HAS_LLD)
    target_link_options(plimsoll_options INTERFACE -fuse-ld=lld)
  endif()
endif()

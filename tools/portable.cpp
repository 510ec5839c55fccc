// SPDX-License-Identifier: Apache-2.0
// What a module that is linked against an old C library takes from nowhere else (tools/make-module): the functions of
// {fmt}, of which Debian has no archive, and two symbols that the static C++ library expects of a newer C library.
#include <sys/random.h>

#include <fmt/format-inl.h>

template char fmt::detail::decimal_point_impl<char>(fmt::detail::locale_ref);
template fmt::detail::thousands_sep_result<char> fmt::detail::thousands_sep_impl<char>(fmt::detail::locale_ref);

extern "C" {

// The interpreter may have started threads at any time: the answer that is always right.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

__attribute__((visibility("hidden"))) unsigned arc4random() {
  unsigned bits = 0;
  while (getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) {
  }
  return bits;
}
}

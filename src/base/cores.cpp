// SPDX-License-Identifier: Apache-2.0
#include "base/cores.h"

#include <pthread.h>
#include <sched.h>

namespace plimsoll {

void send_to_another_core(std::thread::native_handle_type thread) {
#ifdef __linux__
  cpu_set_t allowed;
  const int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE || pthread_getaffinity_np(thread, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<unsigned>(here), &others);
  if (CPU_COUNT(&others) == 0 || pthread_setaffinity_np(thread, sizeof others, &others) != 0) return;
  pthread_setaffinity_np(thread, sizeof allowed, &allowed);
#endif
}

}  // namespace plimsoll

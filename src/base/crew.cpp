// SPDX-License-Identifier: Apache-2.0
#include "base/crew.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/cores.h"
#include "base/interrupt.h"

namespace plimsoll {

namespace {

thread_local bool is_sharing = false;

}  // namespace

void share_work(unsigned threads, const std::function<void(unsigned worker)>& work) {
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  if (is_sharing) threads = 1;
  std::exception_ptr thrown;
  std::mutex guard;
  const std::atomic<bool>& stop = stop_flag();
  const auto guarded = [&](unsigned worker) {
    const OwnStop same(stop);
    const bool was_sharing = is_sharing;
    is_sharing = is_sharing || threads > 1;
    try {
      work(worker);
    } catch (...) {
      const std::lock_guard lock(guard);
      if (!thrown) thrown = std::current_exception();
    }
    is_sharing = was_sharing;
  };
  {
    std::vector<std::jthread> helpers;
    try {
      helpers.reserve(threads);
      for (unsigned worker = 1; worker < threads; ++worker) {
        helpers.emplace_back(guarded, worker);
        if (worker == 1) send_to_another_core(helpers.back().native_handle());
      }
    } catch (const std::system_error&) {  // no more threads: those that started do it
    } catch (const std::bad_alloc&) {
    }
    guarded(0);
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace plimsoll

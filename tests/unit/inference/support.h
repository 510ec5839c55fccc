// SPDX-License-Identifier: Apache-2.0
// Servers for the tests of inference.
#pragma once

#include "cluster/cluster.h"
#include "inference/memory.h"
#include "model/catalog.h"

namespace plimsoll::inference::test {

inline Server server_of(const char* model, const char* gpu = "h100-sxm-80gb", std::int64_t tensor = 1) {
  Server server;
  server.model = model::find_model(model).value();
  server.gpu = cluster::find_gpu(gpu).value();
  server.tensor = tensor;
  return server;
}

inline double gib(std::int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(1LL << 30); }

}  // namespace plimsoll::inference::test

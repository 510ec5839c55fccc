// SPDX-License-Identifier: Apache-2.0
// HTTP on 127.0.0.1 around a Site. Threads, waiting connections, sizes and times are bounded: a client that is slow,
// greedy or wrong costs itself.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "serve/site.h"

namespace plimsoll::serve {

struct Limits {
  int threads = 24;
  std::size_t waiting = 256;                         // accepted connections beyond those; more wait in the kernel
  int seconds = 5;                                   // between two parts of a request
  std::size_t largest_drop = std::size_t{16} << 30;  // bytes of a dropped file
};

class Server {
 public:
  Server(Site& site, Shelf& shelf, Limits limits = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Takes the port, 0 for any, and answers from then on in threads of its own.
  [[nodiscard]] Status start(int port);
  void stop();

  [[nodiscard]] std::string address() const;  // with the token
  [[nodiscard]] int port() const;
  [[nodiscard]] const std::string& token() const;

 private:
  struct Wires;
  std::unique_ptr<Wires> wires_;
};

}  // namespace plimsoll::serve

// SPDX-License-Identifier: Apache-2.0
// What the page and the scraper need of HTTP. The library that speaks it (cpp-httplib, and OpenSSL behind it) is in a
// file of its own, plimsoll-http.so, which make_server() loads: a program that brings it in at its start is 2.4 ms
// later with every answer, and two verbs of thirty serve anything.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace plimsoll::http {

// Valid while it is answered.
class Request {
 public:
  virtual ~Request() = default;
  [[nodiscard]] virtual std::string method() const = 0;
  [[nodiscard]] virtual std::string path() const = 0;
  // Empty where there is none.
  [[nodiscard]] virtual std::string header(const std::string& name) const = 0;
  [[nodiscard]] virtual std::string parameter(const std::string& name) const = 0;
  // Hands over the body piece by piece until `take` says false. False where it did not arrive whole. Of POST alone.
  using Take = std::function<bool(const char* data, std::size_t bytes)>;
  [[nodiscard]] virtual bool read_body(const Take& take) const = 0;
};

struct Reply {
  int status = 200;
  std::string type;
  std::string body;
};

// Called in several threads at once; they throw nothing but that memory is not to be had.
struct Handlers {
  std::function<std::optional<Reply>(const Request&)> refuse;  // before anything else; nothing: go on
  std::function<Reply(const Request&)> get;
  std::function<Reply(const Request&)> post;
  std::function<Reply(int status)> fail;  // what is answered where nothing else is
};

struct Limits {
  int threads = 1;
  std::size_t waiting = 16;  // accepted connections beyond those; more wait in the kernel
  int seconds = 5;           // between two parts of a request
  std::size_t largest_body = 0;
  std::vector<std::pair<std::string, std::string>> headers = {};  // of every reply
};

class Server {
 public:
  virtual ~Server() = default;  // stops
  // Once, and before it listens.
  virtual void set_up(Handlers handlers, Limits limits) = 0;
  // Takes the port, 0 for any; what comes waits until start(). The port, or 0 where it cannot be had.
  [[nodiscard]] virtual int take_port(const std::string& host, int port) = 0;
  // Answers from then on in threads of its own.
  virtual void start() = 0;
  virtual void stop() = 0;
};

// Code::kMissing where the file is not beside the program.
[[nodiscard]] Result<std::unique_ptr<Server>> make_server();

// What the loaded file exports, under this name: a new one where anything above changes.
using MakeServer = Server* (*)();
inline constexpr const char* kMakeServer = "plimsoll_http_server_1";

}  // namespace plimsoll::http

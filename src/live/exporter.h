// SPDX-License-Identifier: Apache-2.0
// Serves a text at /metrics, for a scraper. Nothing can be asked or changed through it.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "http/server.h"

namespace plimsoll::live {

class Exporter {
 public:
  // "9400", or "0.0.0.0:9400"; a port alone is for this machine only. 0 takes any that is free.
  [[nodiscard]] static Result<std::unique_ptr<Exporter>> start(const std::string& address);
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  void set(std::string text);
  [[nodiscard]] int port() const { return port_; }

 private:
  Exporter();
  [[nodiscard]] http::Reply answer(const std::string& path) const;

  std::unique_ptr<http::Server> http_;
  mutable std::mutex mutex_;
  std::string text_;
  int port_ = 0;
};

}  // namespace plimsoll::live

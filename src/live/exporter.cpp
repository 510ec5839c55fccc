// SPDX-License-Identifier: Apache-2.0
#include "live/exporter.h"

#include <charconv>

#include <fmt/format.h>
#include <httplib.h>

#include "base/usage.h"

namespace plimsoll::live {

struct Exporter::Server {
  httplib::Server http;
};

Exporter::Exporter() : server_(std::make_unique<Server>()) {}

Exporter::~Exporter() {
  server_->http.stop();
  if (thread_.joinable()) thread_.join();
}

Result<std::unique_ptr<Exporter>> Exporter::start(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const std::string host = colon == std::string::npos ? "127.0.0.1" : address.substr(0, colon);
  const std::string digits = colon == std::string::npos ? address : address.substr(colon + 1);
  int port = -1;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  constexpr int kLargest = 65535;
  if (digits.empty() || parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size() || port < 0 ||
      port > kLargest)
    return usage_error(fmt::format("--prometheus is '{}'; wanted PORT or ADDRESS:PORT", address));
  std::unique_ptr<Exporter> exporter(new Exporter);
  httplib::Server& http = exporter->server_->http;
  Exporter* const self = exporter.get();
  http.Get("/metrics", [self](const httplib::Request&, httplib::Response& response) {
    const std::scoped_lock lock(self->mutex_);
    response.set_content(self->text_, "text/plain; version=0.0.4");
  });
  http.set_read_timeout(5);
  http.set_write_timeout(5);
  exporter->port_ = port == 0 ? http.bind_to_any_port(host) : http.bind_to_port(host, port) ? port : -1;
  if (exporter->port_ <= 0)
    return tl::make_unexpected(Error{Code::kMissing, fmt::format("{}:{} cannot be listened on", host, port), {}, {}});
  exporter->thread_ = std::thread([self] { self->server_->http.listen_after_bind(); });
  return exporter;
}

void Exporter::set(std::string text) {
  const std::scoped_lock lock(mutex_);
  text_ = std::move(text);
}

}  // namespace plimsoll::live

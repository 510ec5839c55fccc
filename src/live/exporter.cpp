// SPDX-License-Identifier: Apache-2.0
#include "live/exporter.h"

#include <charconv>

#include <fmt/format.h>

#include "base/usage.h"

namespace plimsoll::live {

Exporter::Exporter() = default;

Exporter::~Exporter() {
  if (http_ != nullptr) http_->stop();
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
  Exporter* const self = exporter.get();
  PLIMSOLL_TRY(http, http::make_server());
  http->set_up({.refuse = [](const http::Request&) { return std::nullopt; },
                .get = [self](const http::Request& request) { return self->answer(request.path()); },
                .post = {},
                .fail = [](int status) { return http::Reply{status, "text/plain", "there is only /metrics\n"}; }},
               {.threads = 4, .headers = {}});
  exporter->port_ = http->take_port(host, port);
  if (exporter->port_ == 0)
    return tl::make_unexpected(Error{Code::kMissing, fmt::format("{}:{} cannot be listened on", host, port), {}, {}});
  exporter->http_ = std::move(http);
  exporter->http_->start();
  return exporter;
}

http::Reply Exporter::answer(const std::string& path) const {
  constexpr int kNotFound = 404;
  if (path != "/metrics") return {kNotFound, "text/plain", "there is only /metrics\n"};
  const std::scoped_lock lock(mutex_);
  return {200, "text/plain; version=0.0.4", text_};
}

void Exporter::set(std::string text) {
  const std::scoped_lock lock(mutex_);
  text_ = std::move(text);
}

}  // namespace plimsoll::live

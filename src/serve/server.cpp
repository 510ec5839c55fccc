// SPDX-License-Identifier: Apache-2.0
#include "serve/server.h"

#include <optional>

#include <fmt/format.h>

#include "http/server.h"
#include "serve/guard.h"
#include "serve/query.h"

namespace plimsoll::serve {

namespace {

constexpr const char* kTokenHeader = "X-Plimsoll-Token";

std::string token_of(const http::Request& request) {
  std::string token = request.header(kTokenHeader);
  return token.empty() ? request.parameter("token") : token;
}

}  // namespace

struct Server::Wires {
  Wires(Site& its_site, Shelf& its_shelf, Limits its_limits) : site(its_site), shelf(its_shelf), limits(its_limits) {}

  void set_up() {
    http->set_up({.refuse = [this](const http::Request& request) { return refuse(request); },
                  .get = [this](const http::Request& request) { return site.file(request.path()); },
                  .post =
                      [this](const http::Request& request) {
                        return request.path() == "/api/drop" ? take_drop(request) : take_question(request);
                      },
                  .fail =
                      [](int status) {
                        constexpr int kInternal = 500;  // our handlers throw nothing else
                        return refusal(status, status == kInternal ? "there is not enough memory for this answer"
                                                                   : "the request cannot be answered");
                      }},
                 {.threads = limits.threads,
                  .waiting = limits.waiting,
                  .seconds = limits.seconds,
                  .largest_body = limits.largest_drop,
                  .headers = {{"Content-Security-Policy", std::string{content_policy()}},
                              {"X-Content-Type-Options", "nosniff"},
                              {"X-Frame-Options", "DENY"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"Cross-Origin-Opener-Policy", "same-origin"},
                              {"Cache-Control", "no-store"}}});
  }

  [[nodiscard]] std::optional<Reply> refuse(const http::Request& request) const {
    const bool needs_token = request.path() == "/" || request.method() != "GET";
    const std::string host = request.header("Host");
    const std::string origin = request.header("Origin");
    const std::string token = token_of(request);
    const Verdict verdict = guard->judge({host, origin, token}, needs_token);
    if (verdict == Verdict::kAllowed) return std::nullopt;
    return refusal(403, text_of(verdict));
  }

  [[nodiscard]] Reply take_question(const http::Request& request) {
    std::string body;
    const bool whole = request.read_body([&body](const char* data, std::size_t bytes) {
      if (body.size() + bytes > kLargestQuery) return false;
      body.append(data, bytes);
      return true;
    });
    if (!whole) return refusal(413, "the question is larger than 1 MiB, or ended early");
    return site.answer(request.path(), body);
  }

  [[nodiscard]] Reply take_drop(const http::Request& request) {
    Result<Shelf::Drop> drop = shelf.begin_drop(request.parameter("name"));
    if (!drop) return refusal(drop.error());
    std::size_t taken = 0;
    const bool whole = request.read_body([&](const char* data, std::size_t bytes) {
      taken += bytes;
      return taken <= limits.largest_drop && drop->write(data, bytes);
    });
    if (!whole) return refusal(413, "the file is too large, ended early, or the disk is full");
    const Result<Item> item = shelf.finish(*std::move(drop));
    if (!item) return refusal(item.error());
    return {200, kJsonType, item_json(*item)};
  }

  Site& site;
  Shelf& shelf;
  Limits limits;
  std::unique_ptr<http::Server> http;
  std::optional<Guard> guard;
};

Server::Server(Site& site, Shelf& shelf, Limits limits) : wires_(std::make_unique<Wires>(site, shelf, limits)) {}

Server::~Server() { stop(); }

Status Server::start(int port) {
  std::string token = random_token();
  if (token.empty())
    return tl::make_unexpected(Error{Code::kMissing, "the system gives no random numbers for a token", {}, {}});
  PLIMSOLL_TRY(http, http::make_server());
  wires_->http = std::move(http);
  wires_->set_up();
  const int bound = wires_->http->take_port("127.0.0.1", port);
  if (bound == 0)
    return tl::make_unexpected(Error{Code::kMissing,
                                     port == 0 ? "no port of this machine can be taken"
                                               : fmt::format("port {} cannot be taken: another program has it", port),
                                     {},
                                     port == 0 ? "" : "another --port, or none for a free one"});
  wires_->guard.emplace(bound, std::move(token));
  wires_->http->start();
  return {};
}

void Server::stop() {
  if (wires_->http == nullptr) return;
  wires_->site.give_up_all();
  wires_->http->stop();
}

std::string Server::address() const { return fmt::format("http://127.0.0.1:{}/?token={}", port(), token()); }
int Server::port() const { return wires_->guard ? wires_->guard->port() : 0; }
const std::string& Server::token() const { return wires_->guard->token(); }

}  // namespace plimsoll::serve

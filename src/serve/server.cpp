// SPDX-License-Identifier: Apache-2.0
#include "serve/server.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <httplib.h>

#include "serve/guard.h"
#include "serve/query.h"

namespace plimsoll::serve {

namespace {

// A fixed number of threads and of connections that wait for one. When both are full, the thread that accepts waits
// too, and the kernel holds what comes.
class BoundedQueue final : public httplib::TaskQueue {
 public:
  BoundedQueue(int threads, std::size_t most) : most_(most) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }

  void enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [this] { return tasks_.size() < most_ || is_ending_; });
    tasks_.push_back(std::move(task));
    has_task_.notify_one();
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    has_task_.notify_all();
    has_room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      has_task_.wait(lock, [this] { return !tasks_.empty() || is_ending_; });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      has_room_.notify_one();
      lock.unlock();
      task();
    }
  }

  std::size_t most_;
  bool is_ending_ = false;
  std::mutex mutex_;
  std::condition_variable has_task_;
  std::condition_variable has_room_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
};

void send(const Reply& reply, httplib::Response& response) {
  response.status = reply.status;
  response.set_content(reply.body, reply.type);
}

std::string token_of(const httplib::Request& request) {
  if (request.has_header("X-Plimsoll-Token")) return request.get_header_value("X-Plimsoll-Token");
  return request.get_param_value("token");
}

}  // namespace

struct Server::Wires {
  Wires(Site& its_site, Shelf& its_shelf, Limits its_limits) : site(its_site), shelf(its_shelf), limits(its_limits) {}

  void set_up() {
    http.new_task_queue = [this] { return new BoundedQueue(limits.threads, limits.waiting); };
    // The library would let another process share the port, and with it what is meant for us.
    http.set_socket_options([](socket_t wire) {
      const int yes = 1;
      setsockopt(wire, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    http.set_tcp_nodelay(true);  // an answer is small pieces; waiting to join them costs 40 ms each
    http.set_read_timeout(limits.seconds);
    http.set_write_timeout(limits.seconds);
    http.set_keep_alive_timeout(limits.seconds);
    http.set_keep_alive_max_count(1000);
    http.set_payload_max_length(limits.largest_drop);
    http.set_default_headers({{"Content-Security-Policy", std::string{content_policy()}},
                              {"X-Content-Type-Options", "nosniff"},
                              {"X-Frame-Options", "DENY"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"Cross-Origin-Opener-Policy", "same-origin"},
                              {"Cache-Control", "no-store"}});
    http.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return admit(request, response) ? httplib::Server::HandlerResponse::Unhandled
                                      : httplib::Server::HandlerResponse::Handled;
    });
    http.Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      send(site.file(request.path), response);
    });
    http.Post("/api/drop", [this](const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& read) { take_drop(request, response, read); });
    http.Post(".*", [this](const httplib::Request& request, httplib::Response& response,
                           const httplib::ContentReader& read) { take_question(request, response, read); });
    http.set_error_handler(httplib::Server::Handler([](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) send(refusal(response.status, "the request cannot be answered"), response);
    }));
    // We throw nothing; what arrives here is memory that is not to be had.
    http.set_exception_handler([](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
      send(refusal(500, "there is not enough memory for this answer"), response);
    });
  }

  bool admit(const httplib::Request& request, httplib::Response& response) const {
    const bool needs_token = request.path == "/" || request.method != "GET";
    const std::string host = request.get_header_value("Host");
    const std::string origin = request.get_header_value("Origin");
    const std::string token = token_of(request);
    const Verdict verdict = guard->judge({host, origin, token}, needs_token);
    if (verdict == Verdict::kAllowed) return true;
    send(refusal(403, text_of(verdict)), response);
    return false;
  }

  void take_question(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& read) {
    std::string body;
    const bool whole = read([&body](const char* data, std::size_t bytes) {
      if (body.size() + bytes > kLargestQuery) return false;
      body.append(data, bytes);
      return true;
    });
    if (!whole) return send(refusal(413, "the question is larger than 1 MiB, or ended early"), response);
    send(site.answer(request.path, body), response);
  }

  void take_drop(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& read) {
    Result<Shelf::Drop> drop = shelf.begin_drop(request.get_param_value("name"));
    if (!drop) return send(refusal(drop.error()), response);
    std::size_t taken = 0;
    const bool whole = read([&](const char* data, std::size_t bytes) {
      taken += bytes;
      return taken <= limits.largest_drop && drop->write(data, bytes);
    });
    if (!whole) return send(refusal(413, "the file is too large, ended early, or the disk is full"), response);
    const Result<Item> item = shelf.finish(*std::move(drop));
    if (!item) return send(refusal(item.error()), response);
    send({200, kJsonType, item_json(*item)}, response);
  }

  Site& site;
  Shelf& shelf;
  Limits limits;
  httplib::Server http;
  std::optional<Guard> guard;
  std::thread thread;
};

Server::Server(Site& site, Shelf& shelf, Limits limits) : wires_(std::make_unique<Wires>(site, shelf, limits)) {}

Server::~Server() { stop(); }

Status Server::start(int port) {
  std::string token = random_token();
  if (token.empty())
    return tl::make_unexpected(Error{Code::kMissing, "the system gives no random numbers for a token", {}, {}});
  wires_->set_up();
  constexpr const char* kHere = "127.0.0.1";
  const int bound = port == 0                                ? wires_->http.bind_to_any_port(kHere)
                    : wires_->http.bind_to_port(kHere, port) ? port
                                                             : -1;
  if (bound <= 0)
    return tl::make_unexpected(Error{Code::kMissing,
                                     port == 0 ? "no port of this machine can be taken"
                                               : fmt::format("port {} cannot be taken: another program has it", port),
                                     {},
                                     port == 0 ? "" : "another --port, or none for a free one"});
  wires_->guard.emplace(bound, std::move(token));
  wires_->thread = std::thread([this] { wires_->http.listen_after_bind(); });
  // A stop before the loop runs would be lost.
  while (!wires_->http.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return {};
}

void Server::stop() {
  if (!wires_->thread.joinable()) return;
  wires_->site.give_up_all();
  wires_->http.stop();
  wires_->thread.join();
}

std::string Server::address() const { return fmt::format("http://127.0.0.1:{}/?token={}", port(), token()); }
int Server::port() const { return wires_->guard ? wires_->guard->port() : 0; }
const std::string& Server::token() const { return wires_->guard->token(); }

}  // namespace plimsoll::serve

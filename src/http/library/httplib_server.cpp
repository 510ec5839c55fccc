// SPDX-License-Identifier: Apache-2.0
// plimsoll-http.so: the server over cpp-httplib.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include <httplib.h>

#include "http/server.h"

namespace plimsoll::http {

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

class Asked final : public Request {
 public:
  explicit Asked(const httplib::Request& request, const httplib::ContentReader* body = nullptr)
      : request_(request), body_(body) {}
  [[nodiscard]] std::string method() const override { return request_.method; }
  [[nodiscard]] std::string path() const override { return request_.path; }
  [[nodiscard]] std::string header(const std::string& name) const override { return request_.get_header_value(name); }
  [[nodiscard]] std::string parameter(const std::string& name) const override { return request_.get_param_value(name); }
  [[nodiscard]] bool read_body(const Take& take) const override { return body_ != nullptr && (*body_)(take); }

 private:
  const httplib::Request& request_;
  const httplib::ContentReader* body_;
};

void send(const Reply& reply, httplib::Response& response) {
  response.status = reply.status;
  response.set_content(reply.body, reply.type);
}

class HttplibServer final : public Server {
 public:
  ~HttplibServer() override { stop(); }

  void set_up(Handlers handlers, Limits limits) override {
    handlers_ = std::move(handlers);
    const int threads = limits.threads;
    const std::size_t waiting = limits.waiting;
    http_.new_task_queue = [threads, waiting] { return new BoundedQueue(threads, waiting); };
    // The library would let another process share the port, and with it what is meant for us.
    http_.set_socket_options([](socket_t wire) {
      const int yes = 1;
      setsockopt(wire, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    http_.set_tcp_nodelay(true);  // an answer is small pieces; waiting to join them costs 40 ms each
    http_.set_read_timeout(limits.seconds);
    http_.set_write_timeout(limits.seconds);
    http_.set_keep_alive_timeout(limits.seconds);
    http_.set_keep_alive_max_count(1000);
    http_.set_payload_max_length(limits.largest_body);
    httplib::Headers headers;
    for (auto& header : limits.headers) headers.insert(std::move(header));
    http_.set_default_headers(std::move(headers));
    http_.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      const std::optional<Reply> refusal = handlers_.refuse(Asked(request));
      if (!refusal) return httplib::Server::HandlerResponse::Unhandled;
      send(*refusal, response);
      return httplib::Server::HandlerResponse::Handled;
    });
    http_.Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      send(handlers_.get(Asked(request)), response);
    });
    if (handlers_.post)
      http_.Post(".*",
                 [this](const httplib::Request& request, httplib::Response& response,
                        const httplib::ContentReader& body) { send(handlers_.post(Asked(request, &body)), response); });
    http_.set_error_handler(httplib::Server::Handler([this](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) send(handlers_.fail(response.status), response);
    }));
    // Handlers throw nothing else than that memory is not to be had.
    http_.set_exception_handler([this](const httplib::Request&, httplib::Response& response,
                                       const std::exception_ptr&) { send(handlers_.fail(500), response); });
  }

  int take_port(const std::string& host, int port) override {
    const int bound = port == 0 ? http_.bind_to_any_port(host) : http_.bind_to_port(host, port) ? port : -1;
    return bound > 0 ? bound : 0;
  }

  void start() override {
    thread_ = std::thread([this] { http_.listen_after_bind(); });
    // A stop before the loop runs would be lost.
    while (!http_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  void stop() override {
    if (!thread_.joinable()) return;
    http_.stop();
    thread_.join();
  }

 private:
  Handlers handlers_;
  httplib::Server http_;
  std::thread thread_;
};

}  // namespace

extern "C" [[gnu::visibility("default")]] Server* plimsoll_http_server_1() { return new HttplibServer; }

}  // namespace plimsoll::http

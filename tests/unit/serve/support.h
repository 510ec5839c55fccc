// SPDX-License-Identifier: Apache-2.0
// A page, a shelf and a server for tests, and a client that says exactly the bytes it is told to.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "serve/server.h"

namespace plimsoll::serve {

// A built page of three small files.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "plimsoll-serve-XXXXXX").string();
    path_ = mkdtemp(name.data());
    write("index.html", "<!doctype html><title>page</title>");
    write("page.js", "console.log(1)");
    write("page.css", "body{}");
    write("page.js.sha256", "sha256-abc=\n");
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
    return path_ + "/" + name;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline int connected(int port) {
  const int wire = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  timeval limit{20, 0};
  setsockopt(wire, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (connect(wire, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(wire);
    return -1;
  }
  return wire;
}

inline void say(int wire, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(wire, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// Everything until the server closes or falls silent.
inline std::string hear(int wire) {
  std::string heard;
  char piece[4096];
  for (ssize_t got = 0; (got = recv(wire, piece, sizeof piece, 0)) > 0;)
    heard.append(piece, static_cast<std::size_t>(got));
  return heard;
}

inline std::string exchange(int port, const std::string& text) {
  const int wire = connected(port);
  if (wire < 0) return "no connection";
  say(wire, text);
  std::string heard = hear(wire);
  close(wire);
  return heard;
}

inline int status_of(const std::string& reply) {
  return reply.starts_with("HTTP/1.1 ") && reply.size() > 12 ? std::atoi(reply.c_str() + 9) : 0;
}

}  // namespace plimsoll::serve

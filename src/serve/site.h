// SPDX-License-Identifier: Apache-2.0
// What the server answers, without the wires: a path and a body in, a reply out. Every question is a function of its
// body and the shelf; nothing is remembered between two of them but what a cache may forget.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "http/server.h"
#include "lever/world.h"
#include "serve/page.h"
#include "serve/shelf.h"

namespace plimsoll::serve {

// With its parameter: the HTTP library squeezes what is plain "application/json" at the highest effort of brotli, which
// takes ten times as long as the answer, for a wire that is no longer than this machine.
inline constexpr const char* kJsonType = "application/json; charset=utf-8";

using http::Reply;

class Site {
 public:
  Site(Shelf& shelf, const Page& page, std::string version, lever::World world = {});
  ~Site();
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  // A file of the page.
  [[nodiscard]] Reply file(std::string_view path) const;
  // A question: "/api/fit" with its JSON.
  [[nodiscard]] Reply answer(std::string_view path, std::string_view body);
  // Ends the questions that are being answered, and those still to come: the server ends.
  void give_up_all();

 private:
  struct Kept;

  const Page& page_;
  std::unique_ptr<Kept> kept_;
};

// {"error": {...}} with the status that goes with it.
[[nodiscard]] Reply refusal(const Error& error);
[[nodiscard]] Reply refusal(int status, std::string_view message);
// The entry of a file in answers.
[[nodiscard]] std::string item_json(const Item& item);

}  // namespace plimsoll::serve

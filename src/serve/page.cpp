// SPDX-License-Identifier: Apache-2.0
#include "serve/page.h"

#include <array>

#include <fmt/format.h>

#include "base/file.h"

namespace plimsoll::serve {

namespace {

struct Known {
  std::string_view name;
  std::string_view type;
};
constexpr std::array<Known, 4> kKnown = {{{"index.html", "text/html; charset=utf-8"},
                                          {"page.js", "application/javascript; charset=utf-8"},
                                          {"page.css", "text/css; charset=utf-8"},
                                          {"page.js.sha256", "text/plain; charset=utf-8"}}};

// Text inside an element that ends at "</": the sign that could end it is written as JSON and JavaScript may write it.
std::string inside_script(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string_view content_policy() {
  return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
         "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}

Result<Page> Page::read(const std::string& folder) {
  Page page;
  for (const Known& known : kKnown) {
    auto bytes = read_file(fmt::format("{}/{}", folder, known.name));
    if (!bytes)
      return tl::make_unexpected(
          Error{Code::kMissing,
                fmt::format("the page is not built: {}/{} is missing", folder, known.name),
                {},
                "run the view with ./plimsoll view, which builds it once (Node.js and npm are needed for that), or "
                "npm ci && npm run build in ui/"});
    page.assets_[known.name == "index.html" ? "/" : fmt::format("/{}", known.name)] = {std::string{known.type},
                                                                                       *std::move(bytes)};
  }
  page.script_hash_ = page.assets_.at("/page.js.sha256").bytes;
  while (!page.script_hash_.empty() && page.script_hash_.back() == '\n') page.script_hash_.pop_back();
  page.assets_.erase("/page.js.sha256");
  return page;
}

const Asset* Page::find(std::string_view path) const {
  const auto found = assets_.find(path);
  return found == assets_.end() ? nullptr : &found->second;
}

std::string Page::whole(std::string_view baked) const {
  const std::string& style = assets_.at("/page.css").bytes;
  const std::string& script = assets_.at("/page.js").bytes;
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '{}'; "
      "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'\">\n"
      "<title>Plimsoll</title>\n<style>{}</style>\n</head>\n<body>\n<div id=\"app\"></div>\n"
      "<script type=\"application/json\" id=\"baked\">{}</script>\n"
      "<script type=\"module\">{}</script>\n</body>\n</html>\n",
      script_hash_, style, inside_script(baked), script);
}

}  // namespace plimsoll::serve

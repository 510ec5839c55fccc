// SPDX-License-Identifier: Apache-2.0
// The built page (ui/): three files, held in memory, and the one file that they and some answers make together.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace plimsoll::serve {

struct Asset {
  std::string type;  // as the header Content-Type says it
  std::string bytes;
};

class Page {
 public:
  // A folder that `npm run build` in ui/ wrote.
  [[nodiscard]] static Result<Page> read(const std::string& folder);

  // "/" and the assets by the names that index.html calls them; null for any other name.
  [[nodiscard]] const Asset* find(std::string_view path) const;

  // One file that needs no server: the page with its script, its style and `baked`, a JSON object, inside.
  [[nodiscard]] std::string whole(std::string_view baked) const;

 private:
  std::map<std::string, Asset, std::less<>> assets_;
  std::string script_hash_;  // of the script, as a content security policy names it
};

// The policy that the server sends with every answer: nothing but what the server itself sends, no inline script.
[[nodiscard]] std::string_view content_policy();

}  // namespace plimsoll::serve

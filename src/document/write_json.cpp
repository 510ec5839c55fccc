// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <fmt/format.h>

#include "document/node.h"

namespace plimsoll::document {

namespace {

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void append(std::string& out, const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      out += "null";
      break;
    case Node::Kind::kBool:
      out += node.boolean ? "true" : "false";
      break;
    case Node::Kind::kInteger:
      out += std::to_string(node.integer);
      break;
    case Node::Kind::kReal:
      out += std::isfinite(node.real) ? fmt::format("{}", node.real) : "null";
      break;
    case Node::Kind::kString:
      append_string(out, node.text);
      break;
    case Node::Kind::kArray:
      out += '[';
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        if (i > 0) out += ',';
        append(out, node.items[i]);
      }
      out += ']';
      break;
    case Node::Kind::kObject:
      out += '{';
      for (std::size_t i = 0; i < node.members.size(); ++i) {
        if (i > 0) out += ',';
        append_string(out, node.members[i].first);
        out += ':';
        append(out, node.members[i].second);
      }
      out += '}';
      break;
  }
}

}  // namespace

std::string to_json(const Node& node) {
  std::string out;
  append(out, node);
  return out;
}

}  // namespace plimsoll::document

// SPDX-License-Identifier: Apache-2.0
#include "job/readers/omega.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "base/file.h"
#include "base/lines.h"
#include "base/text.h"
#include "job/readers/resolve.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

constexpr int kMaxFiles = 12;  // one below the other
constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxText = 1 << 16;     // of one value that is filled in
constexpr std::size_t kMaxMembers = 200'000;  // of all files together

Node empty_table() {
  Node node;
  node.kind = Node::Kind::kObject;
  return node;
}

std::size_t count_members(const Node& node) {
  std::size_t count = node.members.size() + node.items.size();
  for (const auto& member : node.members) count += count_members(member.second);
  for (const Node& item : node.items) count += count_members(item);
  return count;
}

struct DefaultFile {
  std::string name;     // of the file, with its group's folder
  std::string package;  // where its keys go; empty: at the top
};

// "- base", "- group: name", "- group@package: name", "- optional group: name".
void add_default(const Node& item, std::vector<DefaultFile>& files) {
  const auto file_of = [](const std::string& name) {
    return name.find(".y") == std::string::npos ? name + ".yaml" : name;
  };
  // "/experiment/base": counted from the root of the tree, which is a folder above.
  const auto below_root = [](const std::string& name) {
    return name.substr(std::min(name.find_first_not_of('/'), name.size()));
  };
  if (item.is_string() && item.text != "_self_") {
    const std::size_t at = item.text.find('@');
    files.push_back(
        {file_of(below_root(item.text.substr(0, at))), at == std::string::npos ? "" : item.text.substr(at + 1)});
  }
  for (const auto& [written, value] : item.members) {
    std::string key = written;
    for (const std::string_view word : {"optional ", "override "})
      if (key.starts_with(word)) key = key.substr(word.size());
    const std::size_t at = key.find('@');
    const std::string group = below_root(key.substr(0, at));
    std::string package = at == std::string::npos ? replace(group, '/', '.') : key.substr(at + 1);
    if (package == "_global_") package.clear();
    while (package.starts_with('.')) package.erase(0, 1);
    if (group.starts_with("hydra")) continue;
    if (value.is_string() && value.text == "???") continue;  // for the command to say
    if (value.is_string()) files.push_back({file_of(group + "/" + value.text), package});
    for (const Node& one : value.items)
      if (one.is_string()) files.push_back({file_of(group + "/" + one.text), package});
  }
}

// Beside the file, or in a folder of hydra.searchpath ("file://verl/trainer/config"), which counts from where the
// program is started: the root of its repository.
Result<std::string> locate_default(const std::string& name, const Node& root, const std::string& folder) {
  auto beside = locate(name, folder);
  if (beside) return beside;
  const Node* hydra = root.find("hydra");
  const Node* places = hydra != nullptr && hydra->is_object() ? hydra->find("searchpath") : nullptr;
  if (places == nullptr) return beside;
  for (const Node& place : places->items) {
    constexpr std::string_view kFile = "file://";
    if (!place.is_string() || !place.text.starts_with(kFile)) continue;
    if (auto found = locate(place.text.substr(kFile.size()) + "/" + name, folder)) return found;
  }
  return beside;
}

// Nothing but comments: a file that only stands there for its name.
bool is_empty_yaml(std::string_view text) {
  for (const std::string_view line : lines(text))
    if (const std::string_view bare = trim(line); !bare.empty() && bare.front() != '#' && bare != "---") return false;
  return true;
}

// Files that come with an installed package; what they hold are its own defaults.
bool takes_from_package(const Node& root) {
  const Node* hydra = root.find("hydra");
  const Node* places = hydra != nullptr && hydra->is_object() ? hydra->find("searchpath") : nullptr;
  if (places == nullptr) return false;
  return std::any_of(places->items.begin(), places->items.end(),
                     [](const Node& place) { return place.is_string() && place.text.starts_with("pkg://"); });
}

// The trunk of verl's trees, which projects around it name and do not hold; what is not said has verl's defaults.
bool comes_with_package(std::string_view name) {
  return name == "ppo_trainer.yaml" || name == "ppo_megatron_trainer.yaml";
}

Result<Node> with_defaults(std::string_view text, const std::string& path, int depth) {
  if (depth > 0 && is_empty_yaml(text)) return empty_table();
  PLIMSOLL_TRY(root, document::parse_yaml(text));
  if (!root.is_object()) return root;
  const Node* defaults = root.find("defaults");
  if (defaults == nullptr || defaults->is_object()) return root;
  if (depth > kMaxFiles) return bad_input("defaults: files name each other in a circle");
  std::vector<DefaultFile> files;
  if (defaults->is_string()) add_default(*defaults, files);
  for (const Node& item : defaults->items) add_default(item, files);
  Node base = empty_table();
  for (const DefaultFile& file : files) {
    const auto located = locate_default(file.name, root, parent_folder(path));
    if (!located && (takes_from_package(root) || comes_with_package(file.name))) continue;
    if (!located) return tl::make_unexpected(located.error());
    const std::string& found = *located;
    PLIMSOLL_TRY(inner_text, read_named_file(found));
    auto inner = with_defaults(inner_text, found, depth + 1);
    if (!inner) return tl::make_unexpected(std::move(inner.error()).with_context(found));
    const std::string package = package_in_comment(inner_text).value_or(file.package);
    if (package.empty()) {
      lay_over(*inner, base);
    } else {
      Node wrapped = empty_table();
      put_path(wrapped, package, *std::move(inner));
      lay_over(wrapped, base);
    }
    if (count_members(base) > kMaxMembers)
      return bad_input("defaults: the files hold more keys than any configuration");
  }
  lay_over(root, base);
  std::erase_if(base.members, [](const auto& member) { return member.first == "defaults"; });
  return base;
}

// The end of the "${" at `start`, behind its brace.
std::size_t end_of_reference(std::string_view text, std::size_t start) {
  int open = 0;
  for (std::size_t i = start; i < text.size(); ++i) {
    if (text[i] == '{') ++open;
    if (text[i] == '}' && --open == 0) return i + 1;
  }
  return std::string_view::npos;
}

std::vector<std::string_view> split_arguments(std::string_view text) {
  std::vector<std::string_view> parts;
  int open = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{' || text[i] == '(') ++open;
    if (text[i] == '}' || text[i] == ')') --open;
    if (text[i] == ',' && open == 0) {
      parts.push_back(trim(text.substr(start, i - start)));
      start = i + 1;
    }
  }
  parts.push_back(trim(text.substr(start)));
  return parts;
}

Node number_node(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return integer_node(static_cast<std::int64_t>(value));
  return real_node(value);
}

// The tables around a value, outermost first: "${.a}" is beside it, "${..a}" one table further out.
using Place = std::vector<const Node*>;

class Interpolator {
 public:
  explicit Interpolator(const Node& root) : root_(root) {}

  // `node` is the copy that is filled in, `before` the same node of the root.
  void fill(Node& node, const Node& before, Place& place) const {
    if (place.size() > static_cast<std::size_t>(document::kMaxDepth)) return;
    if (before.is_object()) place.push_back(&before);
    for (std::size_t i = 0; i < node.members.size(); ++i) fill(node.members[i].second, before.members[i].second, place);
    for (std::size_t i = 0; i < node.items.size(); ++i) fill(node.items[i], before.items[i], place);
    if (before.is_object()) place.pop_back();
    if (!node.is_string() || node.text.find("${") == std::string::npos) return;
    if (auto value = value_of(node.text, place, 0)) {
      value->line = node.line;
      node = *std::move(value);
    }
  }

 private:
  struct Found {
    const Node* node = nullptr;
    Place place;
  };

  [[nodiscard]] Found find(std::string_view path, const Place& place) const {
    std::size_t dots = 0;
    while (path.starts_with('.')) {
      path.remove_prefix(1);
      ++dots;
    }
    Found found{&root_, {}};
    if (dots > 0) {
      if (dots > place.size()) return {};
      found.place.assign(place.begin(), place.end() - static_cast<std::ptrdiff_t>(dots));
      found.node = place[place.size() - dots];
    }
    for (const std::string_view part : split(path, '.')) {
      if (!found.node->is_object()) return {};
      found.place.push_back(found.node);
      found.node = found.node->find(part);
      if (found.node == nullptr) return {};
    }
    return found;
  }

  // A text with references in it; nothing where one of them cannot be filled in.
  [[nodiscard]] std::optional<Node> value_of(std::string_view text, const Place& place, int depth) const {
    if (depth > kMaxDepth) return std::nullopt;
    if (text.starts_with("${") && end_of_reference(text, 0) == text.size())
      return reference(text.substr(2, text.size() - 3), place, depth);
    std::string filled;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t start = std::min(text.find("${", i), text.size());
      filled += text.substr(i, start - i);
      if (start == text.size()) break;
      const std::size_t end = end_of_reference(text, start);
      if (end == std::string_view::npos) return std::nullopt;
      const auto inner = reference(text.substr(start + 2, end - start - 3), place, depth);
      if (!inner || inner->is_object() || inner->is_array()) return std::nullopt;
      filled += document::to_text(*inner);
      if (filled.size() > kMaxText) return std::nullopt;
      i = end;
    }
    return document::parse_scalar(filled);
  }

  [[nodiscard]] std::optional<Node> reference(std::string_view inside, const Place& place, int depth) const {
    const std::size_t colon = inside.find(':');
    const std::size_t brace = inside.find("${");
    if (colon != std::string_view::npos && (brace == std::string_view::npos || colon < brace))
      return computed(trim(inside.substr(0, colon)), inside.substr(colon + 1), place, depth);
    if (brace != std::string_view::npos) return std::nullopt;
    const Found found = find(trim(inside), place);
    const Node* target = found.node;
    if (target == nullptr || target->is_object()) return std::nullopt;
    if (target->is_string() && target->text.find("${") != std::string::npos)
      return value_of(target->text, found.place, depth + 1);
    return *target;
  }

  // ${oc.env:NAME,default}, ${mul:a,b}, ${div:a,b}, ...
  [[nodiscard]] std::optional<Node> computed(std::string_view name, std::string_view rest, const Place& place,
                                             int depth) const {
    const std::vector<std::string_view> parts = split_arguments(rest);
    if (name == "oc.env" || name == "env") {
      if (parts.size() < 2) return std::nullopt;  // of the machine
      return value_of(rest.substr(rest.find(',') + 1), place, depth + 1);
    }
    if (name == "oc.decode") return value_of(rest, place, depth + 1);
    if (name == "oc.select" || name == "select") {
      if (const Node* found = find(parts.front(), place).node; found != nullptr && !found->is_object()) return *found;
      return parts.size() < 2 ? std::nullopt : value_of(parts[1], place, depth + 1);
    }
    std::vector<double> numbers;
    for (const std::string_view part : parts) {
      auto value = value_of(part, place, depth + 1);
      if (value && value->is_string()) value = document::parse_scalar(trim(value->text));
      if (!value || !value->is_number()) return std::nullopt;
      numbers.push_back(value->as_real());
    }
    if (name == "int" && numbers.size() == 1) return number_node(std::trunc(numbers[0]));
    if (numbers.size() < 2) return std::nullopt;
    double result = numbers.front();
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      const double next = numbers[i];
      if (name == "mul" || name == "multiply") {
        result *= next;
      } else if (name == "add" || name == "sum") {
        result += next;
      } else if (name == "sub" || name == "subtract") {
        result -= next;
      } else if ((name == "div" || name == "divide") && next != 0) {
        result = std::floor(result / next);
      } else if (name == "max") {
        result = std::max(result, next);
      } else if (name == "min") {
        result = std::min(result, next);
      } else {
        return std::nullopt;
      }
    }
    return number_node(result);
  }

  const Node& root_;
};

}  // namespace

std::optional<std::string> package_in_comment(std::string_view text) {
  constexpr std::string_view kSign = "# @package ";
  for (const std::string_view line : lines(text.substr(0, 1 << 12))) {
    const std::string_view bare = trim(line);
    if (!bare.empty() && bare.front() != '#') break;
    if (!bare.starts_with(kSign)) continue;
    const std::string_view package = trim(bare.substr(kSign.size()));
    return package == "_global_" ? std::string{} : std::string(package);
  }
  return std::nullopt;
}

void lay_over(const Node& top, Node& base) {
  for (const auto& [key, value] : top.members) {
    const auto same = std::find_if(base.members.begin(), base.members.end(),
                                   [&wanted = key](const auto& member) { return member.first == wanted; });
    if (same == base.members.end()) {
      base.members.emplace_back(key, value);
    } else if (same->second.is_object() && value.is_object()) {
      lay_over(value, same->second);
    } else {
      same->second = value;
    }
  }
}

void put_path(Node& root, std::string_view path, Node value) {
  Node* node = &root;
  const std::vector<std::string_view> parts = split(path, '.');
  if (parts.size() > static_cast<std::size_t>(document::kMaxDepth)) return;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!node->is_object()) *node = empty_table();
    auto found = std::find_if(node->members.begin(), node->members.end(),
                              [&parts, i](const auto& member) { return member.first == parts[i]; });
    if (found == node->members.end()) {
      node->members.emplace_back(std::string(parts[i]), Node{});
      found = std::prev(node->members.end());
    }
    node = &found->second;
  }
  *node = std::move(value);
}

void interpolate(Node& root) {
  const Node before = root;
  Place place;
  Interpolator(before).fill(root, before, place);
}

Result<Node> load_omega(std::string_view text, const std::string& path) { return with_defaults(text, path, 0); }

Result<Node> parse_omega(std::string_view text, const std::string& path) {
  PLIMSOLL_TRY(root, load_omega(text, path));
  interpolate(root);
  return root;
}

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
// Plain YAML is read here (plain_yaml.h), the rest through yaml-cpp's event parser, with our own bounds: nesting,
// aliases (an alias bomb would expand without limit, so at most kMaxNodes nodes are made in all) and repeated keys.
#include <algorithm>
#include <istream>
#include <map>
#include <set>
#include <streambuf>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "base/lines.h"
#include "base/text.h"
#include "document/budget.h"
#include "document/node.h"
#include "document/plain_yaml.h"
#include "document/repeated_keys.h"

namespace plimsoll::document {

namespace {

// Nodes are counted once per level that they pass through and once per copy.
constexpr std::size_t kMaxNodes = 400'000;

constexpr std::size_t kMaxChildren = 150'000;  // of one list or table

Node scalar(const std::string& tag, const std::string& value) {
  const bool is_text = tag == "!" || tag == "tag:yaml.org,2002:str";  // quoted or !!str: always a string
  if (!is_text) return yaml_scalar(value);
  Node node;
  node.kind = Node::Kind::kString;
  node.text = value;
  return node;
}

// What a copy of a node costs, in nodes (long texts count as several), and how deep it is.
struct Extent {
  std::size_t nodes = 1;
  int depth = 1;
};

Extent extent(const Node& node) {
  constexpr std::size_t kTextPerNode = 64;
  Extent whole;
  whole.nodes += node.text.size() / kTextPerNode;
  const auto include = [&whole](const Node& child) {
    const Extent part = extent(child);
    whole.nodes += part.nodes;
    whole.depth = std::max(whole.depth, part.depth + 1);
  };
  for (const Node& item : node.items) include(item);
  for (const auto& [key, value] : node.members) {
    whole.nodes += key.size() / kTextPerNode;
    include(value);
  }
  return whole;
}

class Builder final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(Node{}, mark, anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) return fail(mark, "an alias before its anchor ends");
    add(found->second, mark, 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (wants_key()) {
      open_.back().key = value;
      open_.back().has_key = true;
      if (anchor != 0) anchors_[anchor] = scalar(tag, value);
      return;
    }
    add(scalar(tag, value), mark, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::Kind::kArray, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::Kind::kObject, mark, anchor);
  }
  void OnMapEnd() override { close(); }

  explicit Builder(bool allows_repeats) : allows_repeats_(allows_repeats) {}

  Node root;
  std::string problem;
  std::vector<RepeatedKey> repeated;

 private:
  struct Open {
    Node node;
    YAML::anchor_t anchor = 0;
    std::string key;
    bool has_key = false;
    std::set<std::string> keys;  // of node.members; Node::find would make a long table quadratic
    std::vector<Node> merged;    // values of "<<", taken over when the table closes: own members win
  };

  [[nodiscard]] bool wants_key() const {
    return !open_.empty() && open_.back().node.is_object() && !open_.back().has_key;
  }
  void fail(const YAML::Mark& mark, const std::string& what) {
    if (problem.empty()) problem = fmt::format("line {}: {}", mark.line + 1, what);
    throw YAML::ParserException(mark, what);  // yaml-cpp's own way out; caught in parse_yaml
  }
  void open(Node::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (wants_key()) return fail(mark, "a list or table as a key");
    if (static_cast<int>(open_.size()) >= kMaxDepth)
      return fail(mark, fmt::format("YAML is nested deeper than {} levels", kMaxDepth));
    Open level;
    level.node.kind = kind;
    level.node.line = mark.line + 1;
    level.anchor = anchor;
    open_.push_back(std::move(level));
  }
  static void merge(Open& into, Node& source) {
    for (auto& member : source.members)
      if (into.keys.insert(member.first).second) into.node.members.push_back(std::move(member));
  }
  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    for (Node& source : done.merged) {
      merge(done, source);
      for (Node& item : source.items) merge(done, item);
    }
    YAML::Mark mark;
    mark.line = done.node.line - 1;
    add(std::move(done.node), mark, done.anchor);
  }
  void add(Node node, const YAML::Mark& mark, YAML::anchor_t anchor) {
    node.line = mark.line + 1;
    const Extent size = extent(node);
    // The copy for the anchor counts too: anchors inside anchors would otherwise multiply unseen.
    nodes_ += anchor != 0 ? 2 * size.nodes : size.nodes;
    if (nodes_ > kMaxNodes) return fail(mark, "with its aliases expanded, the YAML is larger than any configuration");
    if (static_cast<int>(open_.size()) + size.depth > kMaxDepth + 1)
      return fail(mark, fmt::format("YAML is nested deeper than {} levels", kMaxDepth));
    if (anchor != 0) anchors_[anchor] = node;
    if (open_.empty()) {
      root = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.members.size() + parent.node.items.size() >= kMaxChildren)
      return fail(mark, std::string(kTooManyNodes));
    if (parent.node.is_array()) {
      parent.node.items.push_back(std::move(node));
      return;
    }
    if (!parent.has_key) return fail(mark, "a list, table or alias as a key");
    parent.has_key = false;
    if (parent.key == "<<" && (node.is_object() || node.is_array())) {
      parent.merged.push_back(std::move(node));
      return;
    }
    if (!parent.keys.insert(parent.key).second) {
      if (!allows_repeats_) return fail(mark, fmt::format("the key '{}' appears twice", parent.key.substr(0, 80)));
      replace_member(parent.node, std::move(node), parent.key, mark);
      return;
    }
    parent.node.members.emplace_back(parent.key, std::move(node));
  }

  // PyYAML and yaml-cpp's own loader keep the last one; so do we, and remember it.
  void replace_member(Node& table, Node node, const std::string& key, const YAML::Mark& mark) {
    constexpr std::size_t kMostRepeats = 64;  // each costs a search of its table
    if (repeated.size() >= kMostRepeats)
      return fail(mark, fmt::format("the key '{}' appears twice", key.substr(0, 80)));
    repeated.push_back({key.substr(0, 80), mark.line + 1});
    for (auto& member : table.members) {
      if (member.first != key) continue;
      member.second = std::move(node);
      return;
    }
  }

  bool allows_repeats_ = false;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::size_t nodes_ = 0;
};

// A bare open bracket per level makes yaml-cpp recurse once per bracket before our handler sees
// anything, so nesting in flow style is counted on the text first.
bool flow_nesting_is_sane(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') depth = depth > 0 ? depth - 1 : 0;
    if (depth > 4 * kMaxDepth) return false;
  }
  return true;
}

// "- - - - x" and "a: - ..." nest by block markers on one line in the same way.
bool block_nesting_is_sane(std::string_view text) {
  for (const std::string_view line : lines(text)) {
    int markers = 0;
    for (std::size_t i = 0; i + 1 < line.size(); ++i) {
      if ((line[i] == '-' || line[i] == '?' || line[i] == ':') && (line[i + 1] == ' ' || line[i + 1] == '\t'))
        ++markers;
      if (markers > 4 * kMaxDepth) return false;
    }
  }
  return true;
}

}  // namespace

namespace {

Result<Node> parse(std::string_view text, std::vector<RepeatedKey>& repeated) {
  if (!flow_nesting_is_sane(text) || !block_nesting_is_sane(text))
    return bad_input(fmt::format("YAML is nested deeper than {} levels", kMaxDepth));
  struct View final : std::streambuf {
    explicit View(std::string_view view) {
      char* begin = const_cast<char*>(view.data());
      setg(begin, begin, begin + view.size());
    }
  } view(text);
  std::istream input(&view);
  const bool allows_repeats = text.size() <= kLongestWithRepeats;
  Builder builder(allows_repeats);
  try {
    YAML::Parser parser(input);
    if (!parser.HandleNextDocument(builder)) return bad_input("the YAML file is empty");
    Builder second(allows_repeats);
    if (parser.HandleNextDocument(second) && !second.root.is_null())
      return bad_input(fmt::format("line {}: a second YAML document; wanted one per file", second.root.line));
  } catch (const YAML::Exception& failure) {
    if (!builder.problem.empty()) return bad_input(builder.problem);
    return bad_input(fmt::format("line {}: not valid YAML: {}", failure.mark.line + 1, failure.msg));
  }
  repeated = std::move(builder.repeated);
  return std::move(builder.root);
}

}  // namespace

Result<Node> parse_whole_yaml(std::string_view text) {
  std::vector<RepeatedKey> repeated;
  return parse(text, repeated);
}

Result<Node> parse_yaml(std::string_view text) {
  PlainYaml plain = parse_plain_yaml(text);
  if (plain.root) return *std::move(plain.root);
  // yaml-cpp needs seconds for what no configuration needs.
  constexpr std::size_t kLargest = 4U << 20;
  if (plain.too_large) return bad_input(fmt::format("line {}: {}", plain.stopped_at, kTooManyNodes));
  if (text.size() > kLargest)
    return bad_input(
        fmt::format("line {}: more than plain YAML (anchors, tags, texts over several lines, keys given "
                    "twice) in a file of {} MiB; wanted at most 4 MiB of it",
                    plain.stopped_at, text.size() >> 20));
  return parse_whole_yaml(text);
}

std::vector<RepeatedKey> repeated_yaml_keys(std::string_view text) {
  std::vector<RepeatedKey> repeated;
  if (text.size() <= kLongestWithRepeats) static_cast<void>(parse(text, repeated));
  return repeated;
}

}  // namespace plimsoll::document

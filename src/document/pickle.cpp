// SPDX-License-Identifier: Apache-2.0
// Values lie in one array and refer to each other by number, so that what is shared is shared, and a cycle is only a
// number that comes back; the tree is made at the end, within bounds of depth and size.
#include "document/pickle.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include <fmt/format.h>

namespace plimsoll::document {

namespace {

constexpr std::size_t kLargest = 1U << 20;     // bytes of a pickle; training_args.bin has about 4000
constexpr std::size_t kMostValues = 200'000;   // made while reading
constexpr std::size_t kMostNodes = 100'000;    // of the tree, shared parts counted each time
constexpr std::size_t kMostMembers = 400'000;  // of all lists and tables together

using Ref = std::uint32_t;

struct Item {
  enum class Kind { kScalar, kList, kTable, kName, kObject, kMark };

  Kind kind = Kind::kScalar;
  Node scalar;                  // kScalar; the text of a kName: "module.name"
  std::vector<Ref> items;       // kList; key, value, key, value of a kTable; arguments of a kObject
  Ref type = 0;                 // kObject: a kName
  std::vector<Ref> attributes;  // kObject: key, value, ...
};

Node text(std::string value) {
  Node node;
  node.kind = Node::Kind::kString;
  node.text = std::move(value);
  return node;
}

class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  Result<PickledObject> run() {
    if (bytes_.size() < 2 || bytes_[0] != '\x80') return bad_input("byte 0: no pickle of protocol 2 to 5");
    while (!stopped_) {
      start_ = at_;
      if (at_ >= bytes_.size()) return bad_input(fmt::format("byte {}: the pickle ends early", at_));
      if (!step(static_cast<unsigned char>(bytes_[at_++])))
        return bad_input(fmt::format("byte {}: {}", start_, problem_));
    }
    return result();
  }

 private:
  bool fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }
  bool cut() { return fail("the pickle ends inside a value"); }

  bool number(std::size_t size, std::uint64_t& value) {
    if (bytes_.size() - at_ < size) return cut();
    value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[at_ + i])) << (8 * i);
    at_ += size;
    return true;
  }
  bool chunk(std::uint64_t size, std::string_view& out) {
    if (bytes_.size() - at_ < size) return cut();
    out = bytes_.substr(at_, size);
    at_ += size;
    return true;
  }
  bool line(std::string_view& out) {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) return cut();
    out = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }

  bool push(Item item) {
    if (values_.size() >= kMostValues) return fail(fmt::format("more than {} values", kMostValues));
    stack_.push_back(static_cast<Ref>(values_.size()));
    values_.push_back(std::move(item));
    return true;
  }
  bool push_scalar(Node node) {
    Item item;
    item.scalar = std::move(node);
    return push(std::move(item));
  }
  bool push_integer(std::int64_t value) {
    Node node;
    node.kind = Node::Kind::kInteger;
    node.integer = value;
    return push_scalar(std::move(node));
  }
  bool push_bool(bool value) {
    Node node;
    node.kind = Node::Kind::kBool;
    node.boolean = value;
    return push_scalar(std::move(node));
  }
  bool push_name(std::string_view module, std::string_view name) {
    Item item;
    item.kind = Item::Kind::kName;
    item.scalar = text(fmt::format("{}.{}", module.substr(0, 200), name.substr(0, 200)));
    return push(std::move(item));
  }

  bool pop(Ref& out) {
    if (stack_.empty() || values_[stack_.back()].kind == Item::Kind::kMark) return fail("the stack has too few values");
    out = stack_.back();
    stack_.pop_back();
    return true;
  }
  // What lies above the innermost mark, which goes with it.
  bool pop_mark(std::vector<Ref>& out) {
    std::size_t mark = stack_.size();
    while (mark > 0 && values_[stack_[mark - 1]].kind != Item::Kind::kMark) --mark;
    if (mark == 0) return fail("no mark is open");
    out.assign(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark - 1);
    return true;
  }
  bool push_list(std::vector<Ref> items, Item::Kind kind = Item::Kind::kList) {
    members_ += items.size();
    if (members_ > kMostMembers) return fail(fmt::format("more than {} members", kMostMembers));
    Item item;
    item.kind = kind;
    item.items = std::move(items);
    return push(std::move(item));
  }
  bool push_tuple(std::size_t count) {
    std::vector<Ref> items(count);
    for (std::size_t i = count; i > 0; --i)
      if (!pop(items[i - 1])) return false;
    return push_list(std::move(items));
  }
  // Items or pairs into the list, table or object below them.
  bool extend(const std::vector<Ref>& more, bool is_table) {
    if (stack_.empty()) return fail("nothing lies below the items");
    Item& below = values_[stack_.back()];
    if (is_table && more.size() % 2 != 0) return fail("a key has no value");
    members_ += more.size();
    if (members_ > kMostMembers) return fail(fmt::format("more than {} members", kMostMembers));
    // An object that is a dict or a list by birth keeps its members like attributes.
    std::vector<Ref>& into = below.kind == Item::Kind::kObject && is_table ? below.attributes : below.items;
    if (below.kind != Item::Kind::kObject && below.kind != (is_table ? Item::Kind::kTable : Item::Kind::kList))
      return fail(is_table ? "no table lies below the pairs" : "no list lies below the items");
    into.insert(into.end(), more.begin(), more.end());
    return true;
  }
  bool push_object(Ref type, Ref arguments) {
    Item item;
    item.kind = Item::Kind::kObject;
    item.type = type;
    if (values_[arguments].kind == Item::Kind::kList) item.items = values_[arguments].items;
    members_ += item.items.size();
    if (members_ > kMostMembers) return fail(fmt::format("more than {} members", kMostMembers));
    return push(std::move(item));
  }
  // __setstate__: a table of attributes, or that and one of slots.
  bool build(Ref object, Ref state) {
    if (values_[object].kind != Item::Kind::kObject) return fail("attributes for what is no object");
    std::vector<Ref> tables = {state};
    if (values_[state].kind == Item::Kind::kList) tables = values_[state].items;
    for (const Ref table : tables) {
      if (values_[table].kind != Item::Kind::kTable) continue;
      const std::vector<Ref> pairs = values_[table].items;
      members_ += pairs.size();
      if (members_ > kMostMembers) return fail(fmt::format("more than {} members", kMostMembers));
      values_[object].attributes.insert(values_[object].attributes.end(), pairs.begin(), pairs.end());
    }
    return true;
  }

  bool memoise(std::uint64_t slot) {
    if (stack_.empty()) return fail("nothing to remember");
    if (memo_.size() >= kMostValues) return fail("too many remembered values");
    memo_[slot] = stack_.back();
    return true;
  }
  bool recall(std::uint64_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) return fail(fmt::format("slot {} was never filled", slot));
    if (stack_.size() >= kMostValues) return fail("the stack is full");
    stack_.push_back(found->second);
    return true;
  }

  bool step(unsigned char opcode);
  bool step_scalar(unsigned char opcode);
  bool step_object(unsigned char opcode);
  bool read_text(std::size_t length_size, bool is_text) {
    std::uint64_t length = 0;
    std::string_view read;
    if (!number(length_size, length) || !chunk(length, read)) return false;
    return push_scalar(is_text ? text(std::string(read)) : Node{});
  }
  bool read_long(std::size_t length_size) {
    std::uint64_t length = 0;
    std::uint64_t value = 0;
    if (!number(length_size, length)) return false;
    if (length > 8) return fail("an integer of more than 64 bits");
    if (!number(length, value)) return false;
    if (length > 0 && length < 8 && (value >> (8 * length - 1)) != 0) value |= ~std::uint64_t{0} << (8 * length);
    return push_integer(static_cast<std::int64_t>(value));
  }

  Result<PickledObject> result();
  Result<Node> tree(Ref ref, int depth);
  Result<Node> table(const std::vector<Ref>& pairs, int depth);
  Result<Node> object(const Item& item, int depth);

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t start_ = 0;
  bool stopped_ = false;
  std::string problem_;
  std::vector<Item> values_;
  std::vector<Ref> stack_;
  std::map<std::uint64_t, Ref> memo_;
  std::size_t members_ = 0;
  std::size_t nodes_ = 0;
};

bool Machine::step_scalar(unsigned char opcode) {
  std::uint64_t value = 0;
  switch (opcode) {
    case 'N':
      return push_scalar(Node{});
    case 0x88:
      return push_bool(true);
    case 0x89:
      return push_bool(false);
    case 'K':
      return number(1, value) && push_integer(static_cast<std::int64_t>(value));
    case 'M':
      return number(2, value) && push_integer(static_cast<std::int64_t>(value));
    case 'J':
      return number(4, value) && push_integer(static_cast<std::int32_t>(static_cast<std::uint32_t>(value)));
    case 0x8a:
      return read_long(1);
    case 0x8b:
      return read_long(4);
    case 'G': {
      if (!number(8, value)) return false;
      Node node;
      node.kind = Node::Kind::kReal;
      node.real = std::bit_cast<double>(__builtin_bswap64(value));
      return push_scalar(std::move(node));
    }
    case 0x8c:
      return read_text(1, true);
    case 'X':
      return read_text(4, true);
    case 0x8d:
      return read_text(8, true);
    case 'C':
      return read_text(1, false);
    case 'B':
      return read_text(4, false);
    case 0x8e:
    case 0x96:
      return read_text(8, false);
    default:
      return fail(fmt::format("opcode 0x{:02x} is none that torch.save writes", opcode));
  }
}

bool Machine::step_object(unsigned char opcode) {
  Ref first = 0;
  Ref second = 0;
  Ref third = 0;
  switch (opcode) {
    case 'c': {
      std::string_view module;
      std::string_view name;
      return line(module) && line(name) && push_name(module, name);
    }
    case 0x93:
      return pop(second) && pop(first) && push_name(values_[first].scalar.text, values_[second].scalar.text);
    case 'R':
    case 0x81:
      return pop(second) && pop(first) && push_object(first, second);
    case 0x92:
      return pop(third) && pop(second) && pop(first) && push_object(first, second);
    case 'b':
      return pop(second) && !stack_.empty() ? build(stack_.back(), second) : fail("the stack has too few values");
    case 'Q':  // a storage of numbers, which lies elsewhere in the archive
      return pop(first) && push_scalar(Node{});
    default:
      return step_scalar(opcode);
  }
}

bool Machine::step(unsigned char opcode) {
  std::uint64_t value = 0;
  std::vector<Ref> items;
  Ref one = 0;
  Ref two = 0;
  switch (opcode) {
    case 0x80:
      if (!number(1, value)) return false;
      return value >= 2 && value <= 5 ? true : fail(fmt::format("protocol {}; wanted 2 to 5", value));
    case 0x95:
      return number(8, value);  // a frame; its end shows by itself
    case '.':
      stopped_ = true;
      return stack_.size() == 1 ? true : fail(fmt::format("{} values at the end; wanted one", stack_.size()));
    case '(': {
      Item mark;
      mark.kind = Item::Kind::kMark;
      return push(std::move(mark));
    }
    case '}':
      return push_list({}, Item::Kind::kTable);
    case ']':
    case ')':
    case 0x8f:
      return push_list({});
    case 't':
    case 0x91:
      return pop_mark(items) && push_list(std::move(items));
    case 0x85:
    case 0x86:
    case 0x87:
      return push_tuple(opcode - 0x84U);
    case 'a':
      return pop(one) && extend({one}, false);
    case 'e':
    case 0x90:
      return pop_mark(items) && extend(items, false);
    case 's':
      return pop(two) && pop(one) && extend({one, two}, true);
    case 'u':
      return pop_mark(items) && extend(items, true);
    case '0':
      return pop(one);
    case '1':
      return pop_mark(items);
    case 'q':
      return number(1, value) && memoise(value);
    case 'r':
      return number(4, value) && memoise(value);
    case 0x94:
      return memoise(memo_.size());
    case 'h':
      return number(1, value) && recall(value);
    case 'j':
      return number(4, value) && recall(value);
    default:
      return step_object(opcode);
  }
}

// "cuda:0", "a/b", "steps": what is made of a few words shows as those words.
Result<Node> Machine::object(const Item& item, int depth) {
  const std::string& type = values_[item.type].scalar.text;
  if (!item.attributes.empty()) return table(item.attributes, depth);
  if (item.items.empty()) {
    Node empty;
    empty.kind = Node::Kind::kObject;
    return empty;
  }
  const bool is_device = type == "torch.device";
  const bool is_path = type.starts_with("pathlib");
  if (!is_device && !is_path) return tree(item.items.front(), depth + 1);
  std::string joined;
  for (const Ref part : item.items) {
    PLIMSOLL_TRY(node, tree(part, depth + 1));
    const bool needs_slash = is_path && !joined.empty() && joined.back() != '/';
    joined += (joined.empty() ? "" : is_device ? ":" : needs_slash ? "/" : "") + to_text(node);
  }
  return text(std::move(joined));
}

Result<Node> Machine::table(const std::vector<Ref>& pairs, int depth) {
  Node node;
  node.kind = Node::Kind::kObject;
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    PLIMSOLL_TRY(key, tree(pairs[i], depth + 1));
    PLIMSOLL_TRY(value, tree(pairs[i + 1], depth + 1));
    const std::string name = to_text(key);
    const auto [place, is_new] = places.emplace(name, node.members.size());
    if (is_new) {
      node.members.emplace_back(name, std::move(value));
    } else {
      node.members[place->second].second = std::move(value);
    }
  }
  return node;
}

Result<Node> Machine::tree(Ref ref, int depth) {
  if (++nodes_ > kMostNodes) return bad_input(fmt::format("the object has more than {} parts", kMostNodes));
  if (depth > kMaxDepth) return bad_input(fmt::format("the object is nested deeper than {} levels", kMaxDepth));
  const Item& item = values_[ref];
  switch (item.kind) {
    case Item::Kind::kScalar:
    case Item::Kind::kName:
      return item.scalar;
    case Item::Kind::kTable:
      return table(item.items, depth);
    case Item::Kind::kObject:
      return object(item, depth);
    case Item::Kind::kList:
    case Item::Kind::kMark:
      break;
  }
  Node node;
  node.kind = Node::Kind::kArray;
  for (const Ref part : item.items) {
    PLIMSOLL_TRY(inner, tree(part, depth + 1));
    node.items.push_back(std::move(inner));
  }
  return node;
}

Result<PickledObject> Machine::result() {
  const Ref root = stack_.front();
  PickledObject object;
  if (values_[root].kind == Item::Kind::kObject) object.type = values_[values_[root].type].scalar.text;
  PLIMSOLL_TRY(state, tree(root, 0));
  object.state = std::move(state);
  return object;
}

}  // namespace

Result<PickledObject> parse_pickle(std::string_view bytes) {
  if (bytes.size() > kLargest)
    return bad_input(fmt::format("{} bytes; wanted a pickle of at most {}", bytes.size(), kLargest));
  return Machine(bytes).run();
}

}  // namespace plimsoll::document

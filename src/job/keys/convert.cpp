// SPDX-License-Identifier: Apache-2.0
// The type of a key's field decides how its value is read, printed and named in the documentation.
#include <fmt/format.h>

#include "job/keys/table.h"

namespace plimsoll::job {

using document::Node;

namespace {

template <class Enum>
Status set_enum(Enum& field, const Node& value) {
  const std::string word = value.is_null() ? "none" : document::to_text(value);
  const auto choice = from_name<Enum>(word);
  if (!choice) return bad_input(fmt::format("found {}, wanted {}", shown(value), choices<Enum>()));
  field = *choice;
  return {};
}

struct Setter {
  Job& job;
  const Key& key;
  const Node& value;

  Status operator()(Ref<std::int64_t> field) const {
    PLIMSOLL_TRY(number, to_integer(value, key.range));
    field(job) = number;
    return {};
  }
  Status operator()(Ref<int> field) const {
    PLIMSOLL_TRY(number, to_integer(value, key.range));
    field(job) = static_cast<int>(number);
    return {};
  }
  Status operator()(Ref<bool> field) const {
    PLIMSOLL_TRY(flag, to_bool(value));
    field(job) = flag;
    return {};
  }
  Status operator()(Ref<double> field) const {
    PLIMSOLL_TRY(number, to_real(value, key.range));
    field(job) = number;
    return {};
  }
  Status operator()(Ref<std::optional<std::int64_t>> field) const {
    if (value.is_null()) return field(job).reset(), Status{};
    PLIMSOLL_TRY(number, to_integer(value, key.range));
    field(job) = number;
    return {};
  }
  Status operator()(Ref<std::optional<bool>> field) const {
    if (value.is_null()) return field(job).reset(), Status{};
    PLIMSOLL_TRY(flag, to_bool(value));
    field(job) = flag;
    return {};
  }
  Status operator()(Ref<std::optional<double>> field) const {
    if (value.is_null()) return field(job).reset(), Status{};
    PLIMSOLL_TRY(number, to_real(value, key.range));
    field(job) = number;
    return {};
  }
  Status operator()(Ref<std::optional<DType>> field) const {
    if (value.is_null()) return field(job).reset(), Status{};
    DType type{};
    PLIMSOLL_TRY_STATUS(set_enum(type, value));
    field(job) = type;
    return {};
  }
  Status operator()(Ref<std::string> field) const {
    PLIMSOLL_TRY(word, to_word(value));
    field(job) = std::move(word);
    return {};
  }
  Status operator()(Ref<std::vector<std::string>> field) const {
    PLIMSOLL_TRY(words, to_words(value));
    field(job) = std::move(words);
    return {};
  }
  template <class Enum>
  Status operator()(Ref<Enum> field) const {
    return set_enum(field(job), value);
  }
  Status operator()(const Custom& custom) const { return custom.set(job, value); }
};

struct TypeName {
  std::string operator()(Ref<std::int64_t>) const { return "integer"; }
  std::string operator()(Ref<std::optional<std::int64_t>>) const { return "integer"; }
  std::string operator()(Ref<int>) const { return "integer"; }
  std::string operator()(Ref<bool>) const { return "boolean"; }
  std::string operator()(Ref<std::optional<bool>>) const { return "boolean"; }
  std::string operator()(Ref<double>) const { return "number"; }
  std::string operator()(Ref<std::optional<double>>) const { return "number"; }
  std::string operator()(Ref<std::string>) const { return "text"; }
  std::string operator()(Ref<std::vector<std::string>>) const { return "list"; }
  std::string operator()(Ref<std::optional<DType>>) const { return choices<DType>(); }
  template <class Enum>
  std::string operator()(Ref<Enum>) const {
    return choices<Enum>();
  }
  std::string operator()(const Custom& custom) const { return std::string(custom.type); }
};

struct Getter {
  Job& job;

  std::optional<Node> operator()(Ref<std::int64_t> field) const { return integer_node(field(job)); }
  std::optional<Node> operator()(Ref<int> field) const { return integer_node(field(job)); }
  std::optional<Node> operator()(Ref<bool> field) const { return bool_node(field(job)); }
  std::optional<Node> operator()(Ref<double> field) const { return real_node(field(job)); }
  std::optional<Node> operator()(Ref<std::optional<std::int64_t>> field) const {
    return field(job) ? integer_node(*field(job)) : Node{};
  }
  std::optional<Node> operator()(Ref<std::optional<bool>> field) const {
    return field(job) ? bool_node(*field(job)) : Node{};
  }
  std::optional<Node> operator()(Ref<std::optional<double>> field) const {
    return field(job) ? real_node(*field(job)) : Node{};
  }
  std::optional<Node> operator()(Ref<std::optional<DType>> field) const {
    return field(job) ? text_node(std::string(name_of(*field(job)))) : Node{};
  }
  std::optional<Node> operator()(Ref<std::string> field) const { return text_node(field(job)); }
  std::optional<Node> operator()(Ref<std::vector<std::string>> field) const {
    Node list;
    list.kind = Node::Kind::kArray;
    for (const std::string& word : field(job)) list.items.push_back(text_node(word));
    return list;
  }
  template <class Enum>
  std::optional<Node> operator()(Ref<Enum> field) const {
    return text_node(std::string(name_of(field(job))));
  }
  std::optional<Node> operator()(const Custom&) const { return std::nullopt; }
};

struct TakesNull {
  bool operator()(Ref<std::int64_t>) const { return false; }
  bool operator()(Ref<int>) const { return false; }
  bool operator()(Ref<bool>) const { return false; }
  bool operator()(Ref<double>) const { return false; }
  bool operator()(Ref<std::string>) const { return false; }
  bool operator()(Ref<std::vector<std::string>>) const { return true; }
  bool operator()(Ref<std::optional<std::int64_t>>) const { return true; }
  bool operator()(Ref<std::optional<bool>>) const { return true; }
  bool operator()(Ref<std::optional<double>>) const { return true; }
  bool operator()(Ref<std::optional<DType>>) const { return true; }
  bool operator()(const Custom&) const { return true; }
  template <class Enum>
  bool operator()(Ref<Enum>) const {
    return from_name<Enum>("none").has_value();
  }
};

}  // namespace

bool takes_null(const Key& key) { return std::visit(TakesNull{}, key.field); }

std::string type_name(const Key& key) { return std::visit(TypeName{}, key.field); }

Status set_field(Job& job, const Key& key, const Node& value) { return std::visit(Setter{job, key, value}, key.field); }

std::optional<Node> get_field(const Job& job, const Key& key) {
  // The rows name fields through a mutable job; reading through them does not change it.
  return std::visit(Getter{const_cast<Job&>(job)}, key.field);
}

}  // namespace plimsoll::job

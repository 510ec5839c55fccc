// SPDX-License-Identifier: Apache-2.0
// One engine for the keys of jobs and of runs. A key is a row of a table: a name, the field that it sets, a range. The
// type of the field decides how a value is read, shown and named in the reference, so that every key of every table
// refuses the same wrong things with the same words.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "base/choices.h"
#include "base/result.h"
#include "document/node.h"
#include "job/value.h"

namespace plimsoll::job {

// A field of the target as a function from target to reference.
template <class Target, class T>
using FieldRef = T& (*)(Target&);

// A key that needs more than a conversion.
template <class Target>
struct CustomField {
  Status (*set)(Target&, const document::Node&);
  std::string_view type;
  std::string (*tell)(const Target&) = nullptr;  // the present value; none where no single field holds it
};

template <class Target, class... Types>
using FieldOf = std::variant<FieldRef<Target, Types>..., CustomField<Target>>;

// Flags are written with dashes, keys with underscores; dots separate sections and stay.
[[nodiscard]] std::string in_key_spelling(std::string_view name);

// "unknown key 'x'" with the nearest of the names as the hint, or the shortest that holds it: "micro_batch" for
// micro_batch_size.
[[nodiscard]] Error unknown_name(std::string_view name, const std::vector<std::string>& names);

// A refused value with its key's name before it, and the value of the type that was meant.
[[nodiscard]] Error refused_value(Error error, std::string_view key, const document::Node& value,
                                  std::string_view type);

namespace engine {

template <class T>
struct Optional : std::false_type {};
template <class T>
struct Optional<std::optional<T>> : std::true_type {};
template <class T>
constexpr bool is_optional = Optional<T>::value;
template <class T>
constexpr bool is_list = std::is_same_v<T, std::vector<std::string>>;
template <class T>
constexpr bool is_integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;

template <class T>
Result<T> read(const document::Node& value, const Range& range) {
  if constexpr (std::is_same_v<T, bool>) {
    return to_bool(value);
  } else if constexpr (is_integer<T>) {
    PLIMSOLL_TRY(number, to_integer(value, range));
    return static_cast<T>(number);
  } else if constexpr (std::is_same_v<T, double>) {
    return to_real(value, range);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return to_word(value);
  } else if constexpr (is_list<T>) {
    return to_words(value);
  } else {
    const auto choice = from_name<T>(value.is_null() ? "none" : document::to_text(value));
    if (!choice) return bad_input(fmt::format("found {}, wanted one of {}", shown(value), choices<T>()));
    return *choice;
  }
}

template <class T>
Status set(T& field, const document::Node& value, const Range& range) {
  if constexpr (is_optional<T>) {
    if (value.is_null()) return field.reset(), Status{};
    PLIMSOLL_TRY(read_value, read<typename T::value_type>(value, range));
    field = std::move(read_value);
  } else {
    PLIMSOLL_TRY(read_value, read<T>(value, range));
    field = std::move(read_value);
  }
  return {};
}

template <class T>
document::Node node_of(const T& field) {
  if constexpr (is_optional<T>) {
    return field ? node_of(*field) : document::Node{};
  } else if constexpr (std::is_same_v<T, bool>) {
    return bool_node(field);
  } else if constexpr (is_integer<T>) {
    return integer_node(field);
  } else if constexpr (std::is_same_v<T, double>) {
    return real_node(field);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return text_node(field);
  } else if constexpr (is_list<T>) {
    document::Node list;
    list.kind = document::Node::Kind::kArray;
    for (const std::string& word : field) list.items.push_back(text_node(word));
    return list;
  } else {
    return text_node(std::string{name_of(field)});
  }
}

template <class T>
std::string type_of() {
  if constexpr (is_optional<T>) {
    return type_of<typename T::value_type>();
  } else if constexpr (std::is_same_v<T, bool>) {
    return "boolean";
  } else if constexpr (is_integer<T>) {
    return "integer";
  } else if constexpr (std::is_same_v<T, double>) {
    return "number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "text";
  } else if constexpr (is_list<T>) {
    return "list";
  } else {
    return choices<T>();
  }
}

template <class T>
bool takes_null() {
  if constexpr (is_optional<T> || is_list<T>)
    return true;
  else if constexpr (std::is_enum_v<T>)
    return from_name<T>("none").has_value();
  else
    return false;
}

// What to do with a field of type T, and what with a custom one.
template <class Target, class OfField, class OfCustom>
struct Visitor {
  OfField of_field;
  OfCustom of_custom;

  template <class T>
  auto operator()(FieldRef<Target, T> field) const {
    return of_field(field);
  }
  auto operator()(const CustomField<Target>& custom) const { return of_custom(custom); }
};

template <class Target, class Field, class OfField, class OfCustom>
auto visit(const Field& field, OfField of_field, OfCustom of_custom) {
  return std::visit(Visitor<Target, OfField, OfCustom>{of_field, of_custom}, field);
}

}  // namespace engine

template <class Target, class Field>
[[nodiscard]] Status set_field(Target& target, const Field& field, const Range& range, const document::Node& value) {
  return engine::visit<Target>(
      field, [&](auto ref) { return engine::set(ref(target), value, range); },
      [&](const CustomField<Target>& custom) { return custom.set(target, value); });
}

// None where no single field holds the value.
template <class Target, class Field>
[[nodiscard]] std::optional<document::Node> get_field(const Target& target, const Field& field) {
  using Value = std::optional<document::Node>;
  // The rows name fields through a mutable target; reading through them does not change it.
  return engine::visit<Target>(
      field, [&](auto ref) -> Value { return engine::node_of(ref(const_cast<Target&>(target))); },
      [&](const CustomField<Target>& custom) -> Value {
        if (custom.tell == nullptr) return std::nullopt;
        return text_node(custom.tell(target));
      });
}

template <class Target, class Field>
[[nodiscard]] std::string type_name(const Field& field) {
  return engine::visit<Target>(
      field, []<class T>(FieldRef<Target, T>) { return engine::type_of<T>(); },
      [](const CustomField<Target>& custom) { return std::string{custom.type}; });
}

// Whether null is a value of the key ("none") rather than "not given".
template <class Target, class Field>
[[nodiscard]] bool takes_null(const Field& field) {
  return engine::visit<Target>(
      field, []<class T>(FieldRef<Target, T>) { return engine::takes_null<T>(); },
      [](const CustomField<Target>&) { return true; });
}

// Calls back for every item, those whose key is a bundle first and in the bundles' order: keys that stand for several
// others go first, so that a single key beside them wins.
template <class Items, class KeyOf, class Visit>
[[nodiscard]] Status for_each_bundle_first(const Items& items, std::span<const std::string_view> bundles,
                                           const KeyOf& key_of, const Visit& visit) {
  for (const std::string_view bundle : bundles)
    for (const auto& item : items)
      if (key_of(item) == bundle) PLIMSOLL_TRY_STATUS(visit(item));
  for (const auto& item : items) {
    const auto& key = key_of(item);
    if (std::find(bundles.begin(), bundles.end(), key) == bundles.end()) PLIMSOLL_TRY_STATUS(visit(item));
  }
  return {};
}

}  // namespace plimsoll::job

// SPDX-License-Identifier: Apache-2.0
#include "rules/facts.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::rules {

using document::Node;

namespace {

constexpr std::string_view kEnvironment = "env.";
constexpr std::string_view kGiven = "given.";
constexpr std::size_t kMaxFacts = 4096;

// The type of a key's field, as far as conditions care.
struct FieldType {
  template <class T>
  static constexpr Type of() {
    if constexpr (std::is_same_v<T, bool>) return Type::kBoolean;
    if constexpr (std::is_same_v<T, std::string>) return Type::kText;
    if constexpr (std::is_same_v<T, std::vector<std::string>>) return Type::kList;
    if constexpr (std::is_enum_v<T>) return Type::kText;
    return Type::kNumber;
  }
  template <class T>
  Type operator()(job::Ref<T>) const {
    return of<T>();
  }
  template <class T>
  Type operator()(job::Ref<std::optional<T>>) const {
    return of<T>();
  }
  Type operator()(const job::Custom&) const { return Type::kAny; }
};

struct FieldValue {
  job::Job& job;

  template <class T>
  static Value of(const T& field) {
    if constexpr (std::is_same_v<T, bool>) {
      return Value::of(field);
    } else if constexpr (std::is_enum_v<T>) {
      return Value::of(job::name_of(field));
    } else if constexpr (std::is_same_v<T, std::string>) {
      return Value::of(std::string_view(field));
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      return Value::of(&field);
    } else if constexpr (std::is_floating_point_v<T>) {
      return Value::of(static_cast<double>(field));
    } else {
      return Value::of(static_cast<std::int64_t>(field));
    }
  }
  template <class T>
  Value operator()(job::Ref<T> field) const {
    return of(field(job));
  }
  template <class T>
  Value operator()(job::Ref<std::optional<T>> field) const {
    const std::optional<T>& value = field(job);
    return value ? of(*value) : Value{};
  }
  Value operator()(const job::Custom&) const { return {}; }
};

// Lists have several spellings, and a version is no number: 2.10 is not 2.1.
Node as_written(const std::string& text, Type type) {
  return type == Type::kList || type == Type::kVersion ? job::text_node(text) : document::parse_scalar(text);
}

}  // namespace

Value read_field(const job::Job& job, const job::Key& key) {
  // The rows name fields through a mutable job; reading through them does not change it.
  return std::visit(FieldValue{const_cast<job::Job&>(job)}, key.field);
}

Status FactTable::declare(std::string name, Declaration declaration) {
  if (declared_.size() >= kMaxFacts) return bad_input(fmt::format("more than {} facts", kMaxFacts));
  const auto [at, is_new] = declared_.emplace(std::move(name), std::move(declaration));
  if (!is_new) return bad_input(fmt::format("the fact {} is declared twice", at->first));
  return {};
}

std::optional<ResolvedName> FactTable::resolve(std::string_view name) {
  if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
  if (facts_.size() >= kMaxFacts) return std::nullopt;
  Fact fact;
  fact.name = std::string(name);
  fact.key = fact.name;
  const std::span<const DerivedFact> derived = derived_facts();
  const auto found =
      std::find_if(derived.begin(), derived.end(), [name](const DerivedFact& row) { return row.name == name; });
  if (name.starts_with(kEnvironment)) {
    fact.key = std::string(name.substr(kEnvironment.size()));
    fact.source = Fact::Source::kEnvironment;
    fact.type = Type::kText;
    if (fact.key.empty()) return std::nullopt;
  } else if (name.starts_with(kGiven)) {
    fact.key = std::string(name.substr(kGiven.size()));
    fact.source = Fact::Source::kGiven;
    const job::FoundKey key = job::find_key(fact.key);
    if (key.key == nullptr) return std::nullopt;
    if (job::type_name<job::Job>(key.key->field).starts_with("list")) fact.type = Type::kList;
  } else if (found != derived.end()) {
    fact.type = found->type;
    fact.read = found->read;
    if (found->is_fixed) fact.source = Fact::Source::kFixed;
  } else if (const auto row = declared_.find(name); row != declared_.end()) {
    fact.source = Fact::Source::kDeclared;
    fact.type = row->second.type;
    fact.declaration = &row->second;
  } else if (const job::FoundKey key = job::find_key(name); key.key != nullptr && !key.section->describes_model) {
    // A key of the model is what was given, not what the model is; derived facts say that.
    if (std::holds_alternative<job::Custom>(key.key->field)) return std::nullopt;
    fact.source = Fact::Source::kKey;
    fact.field = key.key;
    fact.type = std::visit(FieldType{}, key.key->field);
  } else {
    return std::nullopt;
  }
  const ResolvedName number{static_cast<std::uint16_t>(facts_.size()), fact.type};
  numbers_.emplace(fact.name, number);
  accesses_.push_back({fact.source, fact.read, fact.field});
  facts_.push_back(std::move(fact));
  return number;
}

Value Lookups::convert(const Node& value, Type type) {
  if (value.is_null()) return {};
  const auto text = [this](std::string word) {
    if (equals_ignoring_case(word, "none") || equals_ignoring_case(word, "null")) return Value{};
    return Value::of(std::string_view(texts_.emplace_back(std::move(word))));
  };
  switch (type) {
    case Type::kBoolean: {
      const auto flag = job::to_bool(value);
      return flag ? Value::of(*flag) : Value::of(!job::is_off(value));
    }
    case Type::kNumber: {
      constexpr job::Range kRange{-9e15, 9e15};
      if (const auto integer = job::to_integer(value, kRange)) return Value::of(*integer);
      const auto real = job::to_real(value, kRange);
      return real ? Value::of(*real) : Value{};
    }
    case Type::kVersion:
      return version_of(document::to_text(value));
    case Type::kText:
      return text(document::to_text(value));
    case Type::kList: {
      auto words = job::to_words(value);
      return words ? Value::of(&lists_.emplace_back(*std::move(words))) : Value{};
    }
    case Type::kAny:
      break;
  }
  if (value.is_bool()) return Value::of(value.boolean);
  if (value.is_integer()) return Value::of(value.integer);
  if (value.is_number()) return Value::of(value.real);
  if (value.is_array()) return convert(value, Type::kList);
  return text(document::to_text(value));
}

Lookups::Lookups(const FactTable& table, const job::Job& job) {
  values_.resize(table.facts().size());
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Fact& fact = table.facts()[i];
    const auto stated = job.stated.find(fact.key);
    switch (fact.source) {
      case Fact::Source::kDerived:
      case Fact::Source::kKey:
        break;
      case Fact::Source::kFixed:
        values_[i] = fact.read(job);
        if (values_[i].kind() == Value::Kind::kText)
          values_[i] = Value::of(std::string_view(texts_.emplace_back(values_[i].view())));
        break;
      case Fact::Source::kEnvironment:
        if (const auto found = job.environment.find(fact.key); found != job.environment.end())
          values_[i] = Value::of(std::string_view(texts_.emplace_back(found->second)));
        break;
      case Fact::Source::kGiven:
        if (stated != job.stated.end()) {
          values_[i] = convert(as_written(stated->second, fact.type), fact.type);
        } else if (job.has(fact.key)) {
          const auto value = job::value_of(job, fact.key);
          values_[i] = value ? convert(*value, fact.type) : Value::of(true);
        }
        break;
      case Fact::Source::kDeclared:
        values_[i] = stated == job.stated.end()
                         ? convert(fact.declaration->defaults[static_cast<std::size_t>(job.framework)], fact.type)
                         : convert(as_written(stated->second, fact.type), fact.type);
        break;
    }
  }
}

}  // namespace plimsoll::rules

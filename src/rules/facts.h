// SPDX-License-Identifier: Apache-2.0
// What conditions are about. A fact is, in this order: one that is derived from the job (world_size, tp,
// dp, layers, ...: facts_derived.cpp), one that the catalogue declares because no field of the job holds it
// (moe_shared_expert_overlap, ckpt_format: kept by the readers in Job::stated), a canonical key of the job,
// or one of the two prefixes: env.NAME is an environment variable, given.KEY a key as it was written.
// A key, and a derived fact that is not fixed by framework, model and GPU, is read from the job each time; the
// others are looked up once per Checker.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "document/node.h"
#include "job/job.h"
#include "job/keys/table.h"
#include "rules/expression.h"
#include "rules/value.h"

namespace plimsoll::rules {

inline constexpr std::size_t kFrameworks = job::kFrameworkCount;

// One function per derived fact; none where the job does not say enough.
struct DerivedFact {
  std::string_view name;
  Type type;
  Value (*read)(const job::Job& job);
  std::string_view doc;
  bool is_fixed = false;  // by framework, model and GPU: the same for all candidates of a search
};
[[nodiscard]] std::span<const DerivedFact> derived_facts();

// A fact that only Job::stated can hold, with what each framework does where nobody states it.
struct Declaration {
  Type type = Type::kBoolean;
  std::array<document::Node, kFrameworks> defaults;  // null: none
};

struct Fact {
  enum class Source : std::uint8_t { kDerived, kKey, kFixed, kDeclared, kEnvironment, kGiven };

  std::string name;  // as conditions write it
  std::string key;   // without the prefix
  Type type = Type::kAny;
  Source source = Source::kDerived;
  Value (*read)(const job::Job& job) = nullptr;
  const job::Key* field = nullptr;
  const Declaration* declaration = nullptr;
};

// What reading a fact takes, apart from its names: a search reads these millions of times.
struct Access {
  Fact::Source source = Fact::Source::kDerived;
  Value (*read)(const job::Job& job) = nullptr;
  const job::Key* field = nullptr;
};

// Every fact that some rule uses, numbered in order of first use.
class FactTable {
 public:
  [[nodiscard]] Status declare(std::string name, Declaration declaration);
  // Numbers the fact of that name, or nothing where there is none.
  [[nodiscard]] std::optional<ResolvedName> resolve(std::string_view name);
  [[nodiscard]] const std::vector<Fact>& facts() const { return facts_; }
  [[nodiscard]] const std::vector<Access>& accesses() const { return accesses_; }
  [[nodiscard]] const std::map<std::string, Declaration, std::less<>>& declared() const { return declared_; }

 private:
  std::map<std::string, Declaration, std::less<>> declared_;
  std::vector<Fact> facts_;
  std::vector<Access> accesses_;  // of the same facts
  std::map<std::string, ResolvedName, std::less<>> numbers_;
};

// The facts that are looked up once: fixed and declared ones, the environment and keys as given.
class Lookups {
 public:
  Lookups(const FactTable& table, const job::Job& job);
  Lookups(const Lookups&) = delete;
  Lookups& operator=(const Lookups&) = delete;
  Lookups(Lookups&&) noexcept = default;
  Lookups& operator=(Lookups&&) noexcept = default;
  ~Lookups() = default;

  [[nodiscard]] const Value& operator[](std::size_t fact) const { return values_[fact]; }

 private:
  Value convert(const document::Node& value, Type type);

  std::vector<Value> values_;
  std::deque<std::string> texts_;  // what values point at
  std::deque<List> lists_;
};

// What a key's field holds now.
[[nodiscard]] Value read_field(const job::Job& job, const job::Key& key);

class FactSource {
 public:
  FactSource(const FactTable& table, const Lookups& lookups, const job::Job& job)
      : accesses_(table.accesses()), lookups_(lookups), job_(job) {}

  [[nodiscard]] Value load(std::size_t index) const {
    const Access& access = accesses_[index];
    if (access.source == Fact::Source::kDerived) return access.read(job_);
    if (access.source == Fact::Source::kKey) return read_field(job_, *access.field);
    return lookups_[index];
  }
  // Whether candidates of a search may differ in it.
  [[nodiscard]] bool varies(std::size_t index) const {
    return accesses_[index].source == Fact::Source::kDerived || accesses_[index].source == Fact::Source::kKey;
  }

 private:
  const std::vector<Access>& accesses_;
  const Lookups& lookups_;
  const job::Job& job_;
};

}  // namespace plimsoll::rules

// SPDX-License-Identifier: Apache-2.0
// Which commands come: lists, conditions and loops. Where a condition is not decided, all branches are followed.
#include <fmt/format.h>

#include "job/readers/shell_patterns.h"
#include "job/readers/shell_runner.h"

namespace plimsoll::job {

namespace {

constexpr int kMaxSteps = 50'000;  // commands that are followed, loops unrolled
constexpr std::size_t kMaxRounds = 256;

}  // namespace

Result<Truth> ShellRunner::run_list(const std::vector<ShellNode>& nodes) {
  Truth status = Truth::kTrue;
  for (std::size_t i = 0; i < nodes.size() && flow_ == Flow::kOn; ++i) {
    const ShellNode& node = nodes[i];
    const bool is_and = node.link == ShellNode::Link::kAnd;
    const bool is_or = node.link == ShellNode::Link::kOr;
    // A command of the machine is taken to succeed here: cd x && run, mkdir x || exit.
    if ((is_and && status == Truth::kFalse) || (is_or && status == Truth::kTrue)) continue;
    if (++steps_ > kMaxSteps) return bad_input("the script takes more steps than any launch script");
    const bool unsure = (is_and || is_or) && status == Truth::kUnknown;
    Result<Truth> next = Truth::kUnknown;
    if (unsure) {
      const auto run = [&]() -> Status {
        next = run_node(node);
        return next ? Status{} : Status{tl::make_unexpected(next.error())};
      };
      PLIMSOLL_TRY_STATUS(run_branches({run}, false));
      next = Truth::kUnknown;
    } else {
      next = run_node(node);
    }
    if (!next) {
      if (next.error().message.substr(0, 5) != "line ")
        next.error().message = fmt::format("line {}: {}", node.line, next.error().message);
      return next;
    }
    if (!node.is_piped) status = node.is_negated ? !*next : *next;
  }
  return status;
}

Status ShellRunner::run_branches(const std::vector<std::function<Status()>>& branches, bool one_must_run) {
  std::vector<ShellVariables::Changes> changes;
  ++unsure_;
  for (const auto& branch : branches) {
    variables_.begin_branch();
    Status done = branch();
    auto changed = variables_.end_branch();
    flow_ = Flow::kOn;  // whether it left is not known
    if (!done) return done;
    if (!changed) return tl::make_unexpected(std::move(changed.error()));
    changes.push_back(*std::move(changed));
  }
  --unsure_;
  if (!one_must_run) changes.emplace_back();
  return changes.empty() ? Status{} : variables_.merge(changes);
}

Result<Truth> ShellRunner::run_node(const ShellNode& node) {
  switch (node.kind) {
    case ShellNode::Kind::kSimple:
      return run_simple(node);
    case ShellNode::Kind::kGroup:
      return run_list(node.body.front());
    case ShellNode::Kind::kIf:
      return run_if(node);
    case ShellNode::Kind::kCase:
      return run_case(node);
    case ShellNode::Kind::kFor:
      return run_for(node);
    case ShellNode::Kind::kLoop:
      return run_loop(node);
    case ShellNode::Kind::kFunction:
      functions_[node.words.front().text] = {&node, script_};
      return Truth::kTrue;
    case ShellNode::Kind::kArithmetic: {
      PLIMSOLL_TRY(value, variables_.expand_value(fmt::format("$(({}))", node.words.front().text), true));
      if (!value.unknown.empty()) return Truth::kUnknown;
      return value.text == "0" ? Truth::kFalse : Truth::kTrue;
    }
  }
  return Truth::kUnknown;
}

Result<Truth> ShellRunner::run_condition(const std::vector<ShellNode>& nodes) {
  const bool outer = std::exchange(is_condition_, true);
  auto truth = run_list(nodes);
  is_condition_ = outer;
  return truth;
}

Status ShellRunner::run_body(const std::vector<ShellNode>& nodes) {
  const bool outer = std::exchange(is_condition_, false);
  auto done = run_list(nodes);
  is_condition_ = outer;
  return done ? Status{} : Status{tl::make_unexpected(std::move(done.error()))};
}

Result<Truth> ShellRunner::run_if(const ShellNode& node) {
  PLIMSOLL_TRY(truth, run_condition(node.body[0]));
  const bool has_else = node.body.size() > 2;
  ++guarded_;
  auto done = run_if_branches(node, truth, has_else);
  --guarded_;
  return done;
}

Result<Truth> ShellRunner::run_if_branches(const ShellNode& node, Truth truth, bool has_else) {
  if (truth == Truth::kTrue) {
    PLIMSOLL_TRY_STATUS(run_body(node.body[1]));
  } else if (truth == Truth::kFalse) {
    if (has_else) PLIMSOLL_TRY_STATUS(run_body(node.body[2]));
  } else {
    std::vector<std::function<Status()>> branches = {[&] { return run_body(node.body[1]); }};
    if (has_else) branches.emplace_back([&] { return run_body(node.body[2]); });
    PLIMSOLL_TRY_STATUS(run_branches(branches, has_else));
  }
  return Truth::kTrue;
}

Result<Truth> ShellRunner::run_case(const ShellNode& node) {
  PLIMSOLL_TRY(subject, variables_.expand_value(node.words.front().text, true));
  std::vector<std::function<Status()>> branches;
  bool has_default = false;
  for (std::size_t i = 0; i < node.body.size(); ++i) {
    bool matches = false;
    for (const std::string& raw : node.patterns[i]) {
      PLIMSOLL_TRY(pattern, variables_.expand_value(raw, true));
      matches = matches || (subject.unknown.empty() && matches_pattern(pattern.text, subject.text));
      has_default = has_default || pattern.text == "*";
    }
    if (matches) {
      PLIMSOLL_TRY_STATUS(run_body(node.body[i]));
      return Truth::kTrue;
    }
    branches.emplace_back([&node, i, this] { return run_body(node.body[i]); });
  }
  if (!subject.unknown.empty()) PLIMSOLL_TRY_STATUS(run_branches(branches, has_default));
  return Truth::kTrue;
}

Result<Truth> ShellRunner::run_for(const ShellNode& node) {
  const std::string& name = node.words.front().text;
  std::vector<ShellWord> items;
  bool is_known = true;
  if (!node.has_items) {
    is_known = variables_.positional.has_value();
    if (is_known) items = *variables_.positional;
  }
  for (std::size_t i = 1; i < node.words.size(); ++i) {
    PLIMSOLL_TRY(words, variables_.expand(node.words[i].text));
    for (ShellWord& word : words) {
      is_known = is_known && word.unknown.empty();
      items.push_back(std::move(word));
    }
  }
  if (!is_known || items.size() > kMaxRounds) {
    const auto once = [&]() -> Status {
      PLIMSOLL_TRY_STATUS(variables_.set(name, {ShellWord{marked(name), {name}}}, false, false));
      return run_body(node.body.front());
    };
    PLIMSOLL_TRY_STATUS(run_branches({once}, false));
    return Truth::kTrue;
  }
  for (const ShellWord& item : items) {
    PLIMSOLL_TRY_STATUS(variables_.set(name, {item}, false, false));
    PLIMSOLL_TRY_STATUS(run_body(node.body.front()));
    if (flow_ == Flow::kBreak || flow_ == Flow::kContinue) {
      const bool leaves = flow_ == Flow::kBreak;
      flow_ = Flow::kOn;
      if (leaves) break;
    }
    if (flow_ != Flow::kOn) break;
  }
  return Truth::kTrue;
}

Result<Truth> ShellRunner::run_loop(const ShellNode& node) {
  for (std::size_t round = 0; round < kMaxRounds; ++round) {
    Truth truth = Truth::kUnknown;
    if (!node.body[0].empty()) {
      PLIMSOLL_TRY(condition, run_condition(node.body[0]));
      truth = node.is_until ? !condition : condition;
    }
    if (truth == Truth::kFalse) return Truth::kTrue;
    if (truth == Truth::kUnknown) {
      PLIMSOLL_TRY_STATUS(run_branches({[&] { return run_body(node.body[1]); }}, false));
      return Truth::kTrue;
    }
    PLIMSOLL_TRY_STATUS(run_body(node.body[1]));
    if (flow_ == Flow::kBreak || flow_ == Flow::kContinue) {
      const bool leaves = flow_ == Flow::kBreak;
      flow_ = Flow::kOn;
      if (leaves) return Truth::kTrue;
    }
    if (flow_ != Flow::kOn) return Truth::kTrue;
  }
  return Truth::kTrue;  // a loop that waits
}
}  // namespace plimsoll::job

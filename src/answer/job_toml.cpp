// SPDX-License-Identifier: Apache-2.0
#include "answer/job_toml.h"

#include <algorithm>

#include <fmt/format.h>

#include "answer/json.h"
#include "job/keys.h"

namespace plimsoll::answer {

using document::Node;

namespace {

std::string value_text(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kString:
      return json_quoted(node.text);
    case Node::Kind::kArray: {
      std::string text = "[";
      for (std::size_t i = 0; i < node.items.size(); ++i) text += (i > 0 ? ", " : "") + value_text(node.items[i]);
      return text + "]";
    }
    case Node::Kind::kObject: {
      std::string text = "{";
      for (std::size_t i = 0; i < node.members.size(); ++i)
        text += fmt::format("{}{} = {}", i > 0 ? ", " : "", json_quoted(node.members[i].first),
                            value_text(node.members[i].second));
      return text + "}";
    }
    default:
      return document::to_text(node);
  }
}

Node text_node(std::string text) {
  Node node;
  node.kind = Node::Kind::kString;
  node.text = std::move(text);
  return node;
}

Node& member(Node& table, const std::string& name) {
  table.kind = Node::Kind::kObject;
  for (auto& [key, value] : table.members)
    if (key == name) return value;
  table.members.emplace_back(name, Node{});
  return table.members.back().second;
}

std::string section_of(const std::string& key) {
  for (const job::KeyInfo& info : job::key_table())
    if (info.name == key) return info.section;
  return {};
}

// Replaces the key where the file has it, in any section and spelling; else adds it to its section.
void set(Node& root, const std::string& key, const std::string& value) {
  constexpr std::string_view kEnvironment = "environment.";
  if (key.starts_with(kEnvironment)) {
    member(member(root, "environment"), key.substr(kEnvironment.size())) = text_node(value);
    return;
  }
  const Node node = document::parse_scalar(value);
  const auto replace_in = [&](Node& table) {
    for (auto& [name, old] : table.members)
      if (job::canonical_name(name) == key) {
        old = node;
        return true;
      }
    return false;
  };
  if (replace_in(root)) return;
  for (auto& [name, table] : root.members)
    if (table.is_object() && name != "environment" && replace_in(table)) return;
  const std::string section = section_of(key);
  member(section.empty() ? root : member(root, section), key) = node;
}

void set_header(Node& root, const job::Job& job) {
  member(root, "framework") = text_node(std::string{job::name_of(job.framework)});
  if (!job.base_model.kinds.empty() && !job.base_model.name.empty())
    member(root, "model") = text_node(job.base_model.name);
  member(member(root, "cluster"), "gpu") = text_node(job.cluster.gpu.id);
  Node gpus;
  gpus.kind = Node::Kind::kInteger;
  gpus.integer = job.cluster.gpus;
  member(member(root, "cluster"), "gpus") = gpus;
}

Node tree_of(const job::Job& job) {
  Node root;
  root.kind = Node::Kind::kObject;
  set_header(root, job);
  for (const std::string& key : job.given) {
    const auto value = job::value_of(job, key);
    const std::string section = section_of(key);
    if (!value || value->is_null() || key == "gpu" || key == "gpus" || section.empty()) continue;
    if (section == "model" && !job.base_model.kinds.empty()) continue;
    member(member(root, section), key) = *value;
  }
  for (const auto& [name, value] : job.environment) member(member(root, "environment"), name) = text_node(value);
  return root;
}

Node tree_of_arguments(const Node& args, const job::Job& job) {
  Node root;
  root.kind = Node::Kind::kObject;
  set_header(root, job);
  for (const auto& [flag, value] : args.members) {
    std::string name = flag;
    name.erase(0, name.find_first_not_of('-'));
    std::replace(name.begin(), name.end(), '-', '_');
    if (job::canonical_name(name) == "gpus" || value.is_null()) continue;
    const std::string section = section_of(job::canonical_name(name));
    // Without a section of its own a key stands at the top.
    member(section.empty() ? root : member(root, section), name) = value;
  }
  return root;
}

std::string to_toml(const Node& root) {
  std::string text;
  for (const auto& [key, value] : root.members)
    if (!value.is_object()) text += fmt::format("{} = {}\n", key, value_text(value));
  for (const auto& [name, table] : root.members) {
    if (!table.is_object() || table.members.empty()) continue;
    text += fmt::format("\n[{}]\n", name);
    for (const auto& [key, value] : table.members)
      if (!value.is_null()) text += fmt::format("{} = {}\n", key, value_text(value));
  }
  return text;
}

}  // namespace

Result<std::string> job_as_toml(const job::Request& request, const job::Job& job, const Settings& settings) {
  Node root;
  bool own = false;
  if (request.files().size() == 1) {
    const auto kind = job::recognise(request.files().front());
    if (kind && *kind == job::FileKind::kJob) {
      auto parsed = document::parse_toml(request.files().front().text);
      if (!parsed) parsed = document::parse_json(request.files().front().text);
      if (parsed && parsed->is_object()) {
        root = *std::move(parsed);
        own = true;
      }
    }
  }
  if (!own && request.files().size() == 1) {
    // Arguments of Megatron keep their names: a job file of that framework understands them.
    const auto parsed = document::parse_json(request.files().front().text);
    const Node* args = parsed ? parsed->find("args") : nullptr;
    if (args != nullptr && args->is_object()) {
      root = tree_of_arguments(*args, job);
      own = true;
    }
  }
  if (!own) root = tree_of(job);
  for (const auto& [key, value] : request.options().overrides)
    if (own) set(root, key, value);
  for (const auto& [key, value] : settings) set(root, key, value);
  return to_toml(root);
}

}  // namespace plimsoll::answer

// SPDX-License-Identifier: Apache-2.0
#include "serve/bake.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "document/json_writer.h"
#include "document/node.h"

namespace plimsoll::serve {

namespace {

using document::json_quoted;

// What of a question the page's own key has (ui/src/lib/api.ts, bakedKey): both must write it alike.
struct Question {
  std::string path;
  std::vector<std::string> files = {};
  std::vector<std::string> flags = {};  // sorted
  std::int64_t rank = 0;
  std::string axis = {};
  std::string by = {};
  std::string extra = {};  // members that the key does not have: ", \"columns\": 4000"

  [[nodiscard]] static std::string list(const std::vector<std::string>& texts) {
    std::string text = "[";
    for (const std::string& one : texts) text += (text.size() > 1 ? "," : "") + json_quoted(one);
    return text + "]";
  }
  [[nodiscard]] std::string key() const {
    return fmt::format("[{},{},[],{},{},{},{},\"\"]", json_quoted(path), list(files), list(flags), rank,
                       json_quoted(axis), json_quoted(by));
  }
  [[nodiscard]] std::string body() const {
    std::string text = fmt::format("{{\"files\": {}, \"flags\": {}, \"rank\": {}", list(files), list(flags), rank);
    if (!axis.empty()) text += ", \"axis\": " + json_quoted(axis);
    if (!by.empty()) text += ", \"by\": " + json_quoted(by);
    return text + extra + "}";
  }
};

class Baker {
 public:
  explicit Baker(Site& site) : site_(site) {}

  // The answer as it was baked, without which there is nothing to show.
  Result<std::string> need(const Question& question) {
    Reply reply = put(question);
    if (reply.status != kAnswered) return tl::make_unexpected(error_of(reply.body));
    return std::move(reply.body);
  }
  // A panel beside it.
  void ask(const Question& question) {
    const Reply reply = put(question);
    if (reply.status == kAnswered) return;
    std::string line = fmt::format("{}: {}", question.path, error_of(reply.body).message);
    if (std::find(refused_.begin(), refused_.end(), line) == refused_.end()) refused_.push_back(std::move(line));
  }
  [[nodiscard]] Baked take(const std::string& version) {
    return {fmt::format("{{\"version\": {}, \"answers\": {{\n{}\n}}}}\n", json_quoted(version), text_),
            std::move(refused_)};
  }

 private:
  static constexpr int kAnswered = 200;

  Reply put(const Question& question) {
    Reply reply = site_.answer("/api/" + question.path, question.body());
    if (!text_.empty()) text_ += ",\n";
    text_ += json_quoted(question.key()) + ": " + reply.body;
    return reply;
  }
  // What refusal() wrote.
  static Error error_of(const std::string& body) {
    const auto node = document::parse_json(body);
    const document::Node* told = node ? node->find("error") : nullptr;
    const auto text = [told](std::string_view member) {
      const document::Node* found = told != nullptr ? told->find(member) : nullptr;
      return found != nullptr ? found->text : std::string{};
    };
    return {Code::kBadInput, text("message"), {}, text("hint")};
  }

  Site& site_;
  std::string text_;
  std::vector<std::string> refused_;
};

std::int64_t number(const std::string& json, std::initializer_list<std::string_view> path) {
  const auto node = document::parse_json(json);
  if (!node) return 0;
  const document::Node* at = &*node;
  for (const std::string_view member : path) {
    at = at->find(member);
    if (at == nullptr) return 0;
  }
  return at->is_array() ? static_cast<std::int64_t>(at->items.size()) : at->integer;
}

constexpr const char* kColumns = ", \"columns\": 3000";

std::string at_event(std::int64_t event) { return fmt::format(", \"event\": {}", event); }

Status bake_job(Baker& baker, const std::vector<std::string>& files) {
  PLIMSOLL_TRY(fit, baker.need({.path = "fit", .files = files}));
  baker.ask({.path = "fit", .files = files, .flags = {"changes"}});
  constexpr std::int64_t kMostRanks = 64;
  const std::int64_t ranks = std::min(kMostRanks, number(fit, {"ranks"}));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    baker.ask({.path = "step", .files = files, .rank = rank, .axis = "time", .extra = kColumns});
    baker.ask({.path = "step", .files = files, .rank = rank, .axis = "events", .extra = kColumns});
    baker.ask({.path = "schedule", .files = files, .rank = rank, .extra = kColumns});
  }
  baker.ask({.path = "plan", .files = files});
  return {};
}

Status bake_recording(Baker& baker, const std::vector<std::string>& files) {
  PLIMSOLL_TRY(overview, baker.need({.path = "recording", .files = files}));
  baker.ask({.path = "replay", .files = files});
  baker.ask({.path = "replay", .files = files, .flags = {"leaks", "peak"}});
  baker.ask({.path = "replay", .files = files, .flags = {"what-if"}});
  const std::string peak = at_event(number(overview, {"peak_event"}));
  baker.ask({.path = "flame", .files = files, .extra = peak});
  for (const char* by : {"category", "module", "stack"}) {
    baker.ask({.path = "segments", .files = files, .by = by, .extra = peak});
    for (const char* axis : {"events", "time"}) {
      baker.ask({.path = "columns", .files = files, .axis = axis, .by = by, .extra = kColumns});
      baker.ask({.path = "blocks", .files = files, .axis = axis, .by = by, .extra = kColumns});
    }
  }
  return {};
}

Status bake_run(Baker& baker, const std::string& id) {
  PLIMSOLL_TRY_STATUS(baker.need({.path = "rl", .files = {id}}));
  for (const char* flag : {"splits", "knobs"}) baker.ask({.path = "rl", .files = {id}, .flags = {flag}});
  return {};
}

}  // namespace

Result<Baked> bake(Site& site, const Shelf& shelf, const std::string& version) {
  Baker baker(site);
  baker.ask({.path = "start"});
  std::vector<std::string> jobs;
  std::vector<std::string> logs;
  for (const Item& item : shelf.items()) {
    if (item.kind == Kind::kJob) jobs.push_back(item.id);
    if (item.kind == Kind::kLog) logs.push_back(item.id);
    if (item.kind == Kind::kRecording) PLIMSOLL_TRY_STATUS(bake_recording(baker, {item.id}));
    if (item.kind == Kind::kMetrics) PLIMSOLL_TRY_STATUS(baker.need({.path = "observe", .files = {item.id}}));
    if (item.kind == Kind::kRun) PLIMSOLL_TRY_STATUS(bake_run(baker, item.id));
  }
  if (!jobs.empty()) PLIMSOLL_TRY_STATUS(bake_job(baker, jobs));
  if (!logs.empty()) PLIMSOLL_TRY_STATUS(baker.need({.path = "why", .files = logs}));
  for (const std::string& log : logs)
    baker.ask({.path = "log", .files = {log}, .extra = ", \"event\": 1, \"columns\": 2000"});
  return baker.take(version);
}

}  // namespace plimsoll::serve

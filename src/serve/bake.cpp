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

  // The answer as it was baked.
  std::string ask(const Question& question) {
    const Reply reply = site_.answer("/api/" + question.path, question.body());
    if (!text_.empty()) text_ += ",\n";
    text_ += json_quoted(question.key()) + ": " + reply.body;
    return reply.status == 200 ? reply.body : std::string{};
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  Site& site_;
  std::string text_;
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

void bake_job(Baker& baker, const std::vector<std::string>& files) {
  const std::string fit = baker.ask({.path = "fit", .files = files});
  baker.ask({.path = "fit", .files = files, .flags = {"changes"}});
  constexpr std::int64_t kMostRanks = 64;
  const std::int64_t ranks = std::min(kMostRanks, number(fit, {"ranks"}));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    baker.ask({.path = "step", .files = files, .rank = rank, .axis = "time", .extra = kColumns});
    baker.ask({.path = "step", .files = files, .rank = rank, .axis = "events", .extra = kColumns});
    baker.ask({.path = "schedule", .files = files, .rank = rank, .extra = kColumns});
  }
  baker.ask({.path = "plan", .files = files});
}

void bake_recording(Baker& baker, const std::vector<std::string>& files) {
  const std::string overview = baker.ask({.path = "recording", .files = files});
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
}

}  // namespace

std::string bake(Site& site, const Shelf& shelf, const std::string& version) {
  Baker baker(site);
  baker.ask({.path = "start"});
  std::vector<std::string> jobs;
  std::vector<std::string> logs;
  for (const Item& item : shelf.items()) {
    if (item.kind == Kind::kJob) jobs.push_back(item.id);
    if (item.kind == Kind::kLog) logs.push_back(item.id);
    if (item.kind == Kind::kRecording) bake_recording(baker, {item.id});
    if (item.kind == Kind::kMetrics) baker.ask({.path = "observe", .files = {item.id}});
    if (item.kind == Kind::kRun)
      for (const std::vector<std::string>& flags : {std::vector<std::string>{}, {"splits"}, {"knobs"}})
        baker.ask({.path = "rl", .files = {item.id}, .flags = flags});
  }
  if (!jobs.empty()) bake_job(baker, jobs);
  if (!logs.empty()) baker.ask({.path = "why", .files = logs});
  for (const std::string& log : logs)
    baker.ask({.path = "log", .files = {log}, .extra = ", \"event\": 1, \"columns\": 2000"});
  return fmt::format("{{\"version\": {}, \"answers\": {{\n{}\n}}}}\n", json_quoted(version), baker.text());
}

}  // namespace plimsoll::serve

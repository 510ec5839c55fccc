// SPDX-License-Identifier: Apache-2.0
#include "serve/site.h"

#include <array>

#include <fmt/format.h>

#include "base/text.h"
#include "document/json_writer.h"
#include "serve/cache.h"
#include "serve/query.h"
#include "serve/step_picture.h"
#include "serve/words.h"

namespace plimsoll::serve {

namespace {

using document::JsonWriter;
using document::Layout;
using Text = Result<std::string>;

constexpr std::size_t kKeptSteps = 6;

void write_item(JsonWriter& json, const Item& item) {
  json.begin_object(Layout::kInline)
      .member("id", item.id)
      .member("name", item.name)
      .member("kind", text_of(item.kind))
      .member("bytes", item.bytes)
      .end_object();
}

}  // namespace

// What the questions share.
struct Site::Kept {
  Kept(const Answers& its_answers, Shelf& its_shelf) : answers(its_answers), shelf(its_shelf) {}

  const Answers& answers;
  Shelf& shelf;
  Cache<StepPicture> steps{kKeptSteps};

  Text start() const {
    JsonWriter json;
    json.begin_object().member("schema", 1).member("version", answers.version()).key("files").begin_array();
    for (const Item& item : shelf.items()) write_item(json, item);
    return json.end_array().end_object().take();
  }

  // A verb with the files and keys of a query.
  Text verb(const Query& query, std::vector<std::string> words) const {
    PLIMSOLL_TRY(asked, words_of(query, shelf));
    words.insert(words.end(), asked.begin(), asked.end());
    return answers.ask(std::move(words));
  }

  Text fit(const Query& query) const {
    if (query.has("changes")) return verb(query, {"fit", "--all-ranks"});
    PLIMSOLL_TRY(words, words_of(query, shelf));
    return answers.fit(words);
  }

  Result<std::shared_ptr<const StepPicture>> picture(const Query& query) {
    PLIMSOLL_TRY(words, words_of(query, shelf));
    return steps.get(fmt::format("{}\n{}", query.rank, join(words, "\n")), [&]() -> Result<StepPicture> {
      PLIMSOLL_TRY(request, answers.request(words));
      PLIMSOLL_TRY(job, job::resolve(request));
      return make_step_picture(job, lever::World{}, query.rank);
    });
  }
  Text step(const Query& query) {
    PLIMSOLL_TRY(drawn, picture(query));
    return step_json(*drawn, query);
  }
  Text schedule(const Query& query) {
    PLIMSOLL_TRY(drawn, picture(query));
    return schedule_json(*drawn, query);
  }
  Text alive(const Query& query) {
    PLIMSOLL_TRY(drawn, picture(query));
    return alive_json(*drawn, query);
  }
};

Site::Site(const Answers& answers, Shelf& shelf, const Page& page)
    : answers_(answers), shelf_(shelf), page_(page), kept_(std::make_unique<Kept>(answers_, shelf_)) {}

Site::~Site() = default;

Reply Site::file(std::string_view path) const {
  const Asset* asset = page_.find(path);
  if (asset == nullptr) return refusal(404, "there is no such file");
  return {200, asset->type, asset->bytes};
}

Reply Site::answer(std::string_view path, std::string_view body) {
  using Question = Text (*)(Kept&, const Query&);
  struct Row {
    std::string_view path;
    Question ask;
  };
  static constexpr std::array<Row, 10> kQuestions = {{
      {"/api/start", [](Kept& k, const Query&) { return k.start(); }},
      {"/api/models", [](Kept& k, const Query&) { return k.answers.ask({"models"}); }},
      {"/api/gpus", [](Kept& k, const Query&) { return k.answers.ask({"gpus"}); }},
      {"/api/keys", [](Kept& k, const Query&) { return k.answers.ask({"keys"}); }},
      {"/api/read", [](Kept& k, const Query& q) { return k.verb(q, {"read"}); }},
      {"/api/fit", [](Kept& k, const Query& q) { return k.fit(q); }},
      {"/api/step", [](Kept& k, const Query& q) { return k.step(q); }},
      {"/api/schedule", [](Kept& k, const Query& q) { return k.schedule(q); }},
      {"/api/alive", [](Kept& k, const Query& q) { return k.alive(q); }},
      {"/api/why", [](Kept& k, const Query& q) { return k.verb(q, {"why"}); }},
  }};
  for (const Row& row : kQuestions) {
    if (row.path != path) continue;
    const Result<Query> query = parse_query(body);
    if (!query) return refusal(query.error());
    Text text = row.ask(*kept_, *query);
    if (!text) return refusal(text.error());
    return {200, "application/json", *std::move(text)};
  }
  return refusal(404, "there is no such question");
}

Reply refusal(const Error& error) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.member("message", to_string(error)).member("hint", error.hint).member("code", static_cast<int>(error.code));
  constexpr int kUnprocessable = 422;
  return {kUnprocessable, "application/json", json.end_object().end_object().take()};
}

Reply refusal(int status, std::string_view message) {
  JsonWriter json;
  json.begin_object().key("error").begin_object().member("message", message);
  return {status, "application/json", json.end_object().end_object().take()};
}

std::string item_json(const Item& item) {
  JsonWriter json;
  write_item(json, item);
  return json.take();
}

}  // namespace plimsoll::serve

// SPDX-License-Identifier: Apache-2.0
#include "serve/site.h"

#include <algorithm>
#include <array>
#include <atomic>

#include <fmt/format.h>

#include "answer/diff.h"
#include "answer/fit.h"
#include "answer/listing.h"
#include "answer/read.h"
#include "answer/replay.h"
#include "answer/rl.h"
#include "answer/why.h"
#include "base/interrupt.h"
#include "document/json_writer.h"
#include "serve/cache.h"
#include "serve/log_window.h"
#include "serve/plan_picture.h"
#include "serve/query.h"
#include "serve/question.h"
#include "serve/recording_picture.h"
#include "serve/run_picture.h"
#include "serve/running.h"
#include "serve/step_picture.h"

namespace plimsoll::serve {

namespace {

using document::JsonWriter;
using document::Layout;
using Text = Result<std::string>;

constexpr std::size_t kKeptFits = 8;
constexpr std::size_t kKeptSteps = 6;
constexpr std::size_t kKeptPlans = 4;
constexpr std::size_t kKeptRecordings = 2;  // one may take gigabytes

void write_item(JsonWriter& json, const Item& item) {
  json.begin_object(Layout::kInline)
      .member("id", item.id)
      .member("name", item.name)
      .member("kind", text_of(item.kind))
      .member("bytes", item.bytes)
      .end_object();
}

// What was asked, and its answer without the levers.
struct AskedFit {
  job::Request request;
  answer::Fit fit;
  std::uint64_t number = 0;  // counts the answers: pictures belong to one
};

}  // namespace

// What the questions share.
struct Site::Kept {
  Kept(Shelf& its_shelf, std::string its_version, lever::World its_world)
      : shelf(its_shelf), version(std::move(its_version)), world(std::move(its_world)) {}

  Shelf& shelf;
  std::string version;
  lever::World world;
  Running running;
  Cache<AskedFit> fits{kKeptFits};
  std::atomic<std::uint64_t> fits_asked{0};
  Cache<StepPicture> steps{kKeptSteps};
  Cache<plan::Plan> plans{kKeptPlans};
  Cache<std::unique_ptr<RecordingPicture>> recordings{kKeptRecordings};

  using Question = Text (*)(Kept&, const Query&);

  // Work that was given up may have stopped anywhere: its answer is no answer.
  Text answer(Question ask, const Query& query) {
    const Running::Entry entry(running, query.ask);
    const OwnStop own(entry.flag());
    Text text = ask(*this, query);
    if (interrupted()) return tl::make_unexpected(given_up());
    return text;
  }
  Text cancel(const Query& query) {
    running.give_up(query.cancel);
    return std::string{"{}"};
  }

  Text start() const {
    JsonWriter json;
    json.begin_object().member("schema", 1).member("version", version).key("files").begin_array();
    for (const Item& item : shelf.items()) write_item(json, item);
    return json.end_array().end_object().take();
  }

  Result<job::Request> request(const Query& query) const {
    PLIMSOLL_TRY(input, input_of(query, shelf));
    return answer::read_input(std::move(input));
  }

  Text read(const Query& query) const {
    PLIMSOLL_TRY(asked, request(query));
    PLIMSOLL_TRY(understood, answer::understand(asked, answer::Defaults::kHidden));
    return answer::to_json(understood);
  }

  Result<AskedFit> ask_fit(const Query& query) {
    PLIMSOLL_TRY(asked, request(query));
    memory::AskedRanks ranks;
    ranks.all = true;
    PLIMSOLL_TRY(fit, answer::fit(asked, world, ranks, answer::Changes::kNone));
    if (interrupted()) return tl::make_unexpected(given_up());  // half an answer is not kept for the next asker
    return AskedFit{std::move(asked), std::move(fit), ++fits_asked};
  }
  // The verdict reads its files again, because they may have been edited. The levers and the pictures, which are asked
  // for after it, are about the same job.
  Text fit(const Query& query) {
    if (query.has("changes")) return changes(query);
    PLIMSOLL_TRY(found, fits.renew(identity_of(query), [&] { return ask_fit(query); }));
    return answer::to_json(found->fit);
  }
  Text changes(const Query& query) {
    PLIMSOLL_TRY(found, kept_fit(query));
    answer::Fit with = found->fit;
    answer::price_changes(found->request, world, with);
    return answer::to_json(with);
  }
  Result<std::shared_ptr<const AskedFit>> kept_fit(const Query& query) {
    return fits.get(identity_of(query), [&] { return ask_fit(query); });
  }

  Result<std::shared_ptr<const StepPicture>> picture(const Query& query) {
    PLIMSOLL_TRY(found, kept_fit(query));
    return steps.get(fmt::format("{} {}", query.rank, found->number),
                     [&] { return make_step_picture(found->fit.job, world, query.rank); });
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

  // The one recording of a query.
  Result<std::shared_ptr<const std::unique_ptr<RecordingPicture>>> recording(const Query& query) {
    PLIMSOLL_TRY(item, only_file(query, shelf, Kind::kRecording));
    PLIMSOLL_TRY(conditions, conditions_of(query));
    return recordings.get(identity_of(query),
                          [&item, &conditions] { return RecordingPicture::open(item.path, conditions); });
  }
  Text overview(const Query& query) {
    PLIMSOLL_TRY(picture, recording(query));
    return (*picture)->overview();
  }
  Text drawn(const Query& query, Text (RecordingPicture::*draw)(const Query&) const) {
    PLIMSOLL_TRY(picture, recording(query));
    return ((**picture).*draw)(query);
  }
  Text replay(const Query& query) {
    PLIMSOLL_TRY(picture, recording(query));
    if (!(*picture)->counters().empty()) return answer::to_json((*picture)->counters());
    answer::ReplayQuestion question;
    for (const auto& [key, value] : query.keys) question.limit_is_given |= key == "gpu" || key == "capacity";
    question.what_if = query.has("what-if");
    question.peak = query.has("peak");
    question.leaks = query.has("leaks");
    PLIMSOLL_TRY(replayed, answer::replay_recording((*picture)->recording(), question));
    return answer::to_json(replayed);
  }

  // The second recording of a query against the first.
  Text difference(const Query& query) const {
    PLIMSOLL_TRY(paths, paths_of(query, shelf, Kind::kRecording));
    if (paths.size() != 2) return bad_input(fmt::format("two recordings are compared, found {}", paths.size()));
    PLIMSOLL_TRY(conditions, conditions_of(query));
    PLIMSOLL_TRY(found, answer::compare_recordings(paths[0], paths[1], conditions));
    return answer::to_json(found, true);
  }

  Text why(const Query& query) const {
    answer::WhyQuestion question;
    PLIMSOLL_TRY(logs, paths_of(query, shelf, Kind::kLog));
    question.logs = std::move(logs);
    if (question.logs.empty()) return bad_input("a log is missing");
    PLIMSOLL_TRY(found, answer::why(question, world));
    return answer::to_json(found);
  }

  Text log(const Query& query) const {
    PLIMSOLL_TRY(item, only_file(query, shelf, Kind::kLog));
    constexpr std::int64_t kMostLines = 2000;
    return log_json(item.path, std::max<std::int64_t>(1, query.event), std::min(kMostLines, query.columns));
  }

  Result<std::shared_ptr<const plan::Plan>> planned(const Query& query) {
    return plans.get(identity_of(query), [&]() -> Result<plan::Plan> {
      answer::PlanInput asked;
      PLIMSOLL_TRY(input, input_of(query, shelf));
      asked.input = std::move(input);
      PLIMSOLL_TRY(question, answer::read_question(std::move(asked)));
      plan::SearchOptions options;
      options.world = &world;
      options.keep = kShownPlans;
      options.remember = kDrawnPoints;
      options.stop = &stop_flag();
      auto found = plan::plan_for(question, options);
      if (interrupted()) return tl::make_unexpected(given_up());  // half a search is not kept for the next asker
      return found;
    });
  }
  Text plan(const Query& query) {
    PLIMSOLL_TRY(found, planned(query));
    return plan_json(*found);
  }
  Text launch(const Query& query) {
    PLIMSOLL_TRY(found, planned(query));
    return launch_json(*found, query);
  }

  // What metrics say; with the run beside them advice has amounts.
  Text observe(const Query& query) const {
    answer::ObserveQuestion question;
    PLIMSOLL_TRY(paths, paths_of(query, shelf, Kind::kMetrics));
    question.files = std::move(paths);
    if (question.files.empty()) return bad_input("metrics are missing");
    PLIMSOLL_TRY(runs, paths_of(query, shelf, Kind::kRun));
    if (!runs.empty()) {
      PLIMSOLL_TRY(input, run_of(query, shelf));
      question.run = std::move(input);
    }
    PLIMSOLL_TRY(observed, answer::observe_rl(question, world));
    return answer::to_json(observed);
  }

  Text rl(const Query& query) const {
    PLIMSOLL_TRY(input, run_of(query, shelf));
    if (query.has("splits")) return splits_json(input, world);
    if (query.has("knobs")) return knobs_json(input, world);
    return run_json(input, world);
  }

  template <class T>
  static Text listed(Result<T> found) {
    if (!found) return tl::make_unexpected(std::move(found.error()));
    return answer::to_json(*found);
  }
};

Site::Site(Shelf& shelf, const Page& page, std::string version, lever::World world)
    : page_(page), kept_(std::make_unique<Kept>(shelf, std::move(version), std::move(world))) {}

Site::~Site() = default;

void Site::give_up_all() { kept_->running.give_up_all(); }

Reply Site::file(std::string_view path) const {
  const Asset* asset = page_.find(path);
  if (asset == nullptr) return refusal(404, "there is no such file");
  return {200, asset->type, asset->bytes};
}

Reply Site::answer(std::string_view path, std::string_view body) {
  struct Row {
    std::string_view path;
    Kept::Question ask;
  };
  static constexpr std::array<Row, 25> kQuestions = {{
      {"/api/cancel", [](Kept& k, const Query& q) { return k.cancel(q); }},
      {"/api/start", [](Kept& k, const Query&) { return k.start(); }},
      {"/api/models", [](Kept&, const Query&) { return Kept::listed(answer::find_models({})); }},
      {"/api/gpus", [](Kept&, const Query&) { return Kept::listed(answer::find_gpus({})); }},
      {"/api/keys", [](Kept&, const Query&) { return Kept::listed(answer::find_keys({})); }},
      {"/api/read", [](Kept& k, const Query& q) { return k.read(q); }},
      {"/api/fit", [](Kept& k, const Query& q) { return k.fit(q); }},
      {"/api/step", [](Kept& k, const Query& q) { return k.step(q); }},
      {"/api/schedule", [](Kept& k, const Query& q) { return k.schedule(q); }},
      {"/api/alive", [](Kept& k, const Query& q) { return k.alive(q); }},
      {"/api/recording", [](Kept& k, const Query& q) { return k.overview(q); }},
      {"/api/replay", [](Kept& k, const Query& q) { return k.replay(q); }},
      {"/api/diff", [](Kept& k, const Query& q) { return k.difference(q); }},
      {"/api/columns", [](Kept& k, const Query& q) { return k.drawn(q, &RecordingPicture::columns); }},
      {"/api/blocks", [](Kept& k, const Query& q) { return k.drawn(q, &RecordingPicture::blocks); }},
      {"/api/segments", [](Kept& k, const Query& q) { return k.drawn(q, &RecordingPicture::segments); }},
      {"/api/flame", [](Kept& k, const Query& q) { return k.drawn(q, &RecordingPicture::flame); }},
      {"/api/object", [](Kept& k, const Query& q) { return k.drawn(q, &RecordingPicture::object); }},
      {"/api/under", [](Kept& k, const Query& q) { return k.drawn(q, &RecordingPicture::under); }},
      {"/api/why", [](Kept& k, const Query& q) { return k.why(q); }},
      {"/api/log", [](Kept& k, const Query& q) { return k.log(q); }},
      {"/api/plan", [](Kept& k, const Query& q) { return k.plan(q); }},
      {"/api/launch", [](Kept& k, const Query& q) { return k.launch(q); }},
      {"/api/observe", [](Kept& k, const Query& q) { return k.observe(q); }},
      {"/api/rl", [](Kept& k, const Query& q) { return k.rl(q); }},
  }};
  for (const Row& row : kQuestions) {
    if (row.path != path) continue;
    const Result<Query> query = parse_query(body);
    if (!query) return refusal(query.error());
    Text text = kept_->answer(row.ask, *query);
    if (!text) return refusal(text.error());
    return {200, kJsonType, *std::move(text)};
  }
  return refusal(404, "there is no such question");
}

Reply refusal(const Error& error) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.member("message", to_string(error)).member("hint", error.hint).member("code", static_cast<int>(error.code));
  constexpr int kUnprocessable = 422;
  return {kUnprocessable, kJsonType, json.end_object().end_object().take()};
}

Reply refusal(int status, std::string_view message) {
  JsonWriter json;
  json.begin_object().key("error").begin_object().member("message", message);
  return {status, kJsonType, json.end_object().end_object().take()};
}

std::string item_json(const Item& item) {
  JsonWriter json;
  write_item(json, item);
  return json.take();
}

}  // namespace plimsoll::serve

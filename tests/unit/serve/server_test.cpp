// SPDX-License-Identifier: Apache-2.0
// The server on its wires: who is let in, what is refused, and that nothing ends it.
#include "serve/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "document/node.h"
#include "serve/support.h"

namespace plimsoll::serve {
namespace {

const char* const kJob = R"(
framework = "fsdp2"
model = "llama3-8b"
[cluster]
gpu = "h100-sxm-80gb"
gpus = 8
[batch]
seq_length = 4096
micro_batch_size = 1
[precision]
bf16 = true
)";

class ServerOnWires : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(shelf.add(folder.write("job.toml", kJob)).has_value());
    page = Page::read(folder.path());
    ASSERT_TRUE(page.has_value());
    site.emplace(shelf, *page, "test");
    Limits limits;
    limits.threads = 6;
    limits.seconds = 1;
    limits.largest_drop = 3 << 20;
    server.emplace(*site, shelf, limits);
    ASSERT_TRUE(server->start(0).has_value());
  }

  [[nodiscard]] std::string host() const { return fmt::format("127.0.0.1:{}", server->port()); }
  [[nodiscard]] std::string get(const std::string& target, const std::string& headers = {}) const {
    return exchange(server->port(),
                    fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}\r\n", target, host(), headers));
  }
  [[nodiscard]] std::string post(const std::string& target, const std::string& body, const std::string& headers) const {
    return exchange(server->port(),
                    fmt::format("POST {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n{}\r\n{}",
                                target, host(), body.size(), headers, body));
  }
  [[nodiscard]] std::string with_token() const { return fmt::format("X-Plimsoll-Token: {}\r\n", server->token()); }

  TestFolder folder;
  Shelf shelf;
  Result<Page> page;
  std::optional<Site> site;
  std::optional<Server> server;
};

TEST_F(ServerOnWires, serves_the_page_to_who_has_the_token) {
  EXPECT_EQ(status_of(get("/?token=" + server->token())), 200);
  const std::string reply = get("/page.js");
  EXPECT_EQ(status_of(reply), 200);
  EXPECT_NE(reply.find("Content-Security-Policy: default-src 'none'; script-src 'self'"), std::string::npos);
  EXPECT_NE(reply.find("X-Content-Type-Options: nosniff"), std::string::npos);
  EXPECT_EQ(reply.find("unsafe"), std::string::npos);
}

TEST_F(ServerOnWires, refuses_a_missing_and_a_wrong_token) {
  EXPECT_EQ(status_of(get("/")), 403);
  EXPECT_EQ(status_of(get("/?token=")), 403);
  EXPECT_EQ(status_of(get("/?token=00000000000000000000000000000000")), 403);
  EXPECT_EQ(status_of(post("/api/start", "{}", "")), 403);
  EXPECT_EQ(status_of(post("/api/start", "{}", "X-Plimsoll-Token: " + server->token().substr(1) + "\r\n")), 403);
  EXPECT_EQ(status_of(post("/api/drop?name=a", "text", "")), 403);
  EXPECT_EQ(status_of(post("/api/start", "{}", with_token())), 200);
}

TEST_F(ServerOnWires, refuses_other_hosts_and_origins) {
  const std::string start =
      fmt::format("POST /api/start HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n{}", with_token());
  EXPECT_EQ(status_of(exchange(server->port(), start + "Host: evil.example\r\n\r\n{}")), 403);
  EXPECT_EQ(status_of(exchange(server->port(),
                               start + "Host: evil.example:" + std::to_string(server->port()) + "\r\n\r\n{}")),
            403);
  EXPECT_EQ(status_of(exchange(server->port(), start + "\r\n{}")), 403);
  EXPECT_EQ(status_of(post("/api/start", "{}", with_token() + "Origin: http://evil.example\r\n")), 403);
  EXPECT_EQ(status_of(post("/api/start", "{}", with_token() + "Origin: null\r\n")), 403);
  EXPECT_EQ(status_of(post("/api/start", "{}", with_token() + "Origin: http://127.0.0.1:1\r\n")), 403);
  EXPECT_EQ(status_of(post("/api/start", "{}", with_token() + "Origin: http://" + host() + "\r\n")), 200);
}

TEST_F(ServerOnWires, gives_no_file_beside_the_page) {
  for (const char* path : {"/../job.toml", "/..%2fjob.toml", "/%2e%2e/job.toml", "/etc/passwd", "//etc/passwd",
                           "/index.html/../job.toml", "/page.js%00.css", "/job.toml", "/.", "/page.js.sha256"}) {
    const std::string reply = get(path);
    EXPECT_TRUE(status_of(reply) == 404 || status_of(reply) == 403 || status_of(reply) == 400) << path << "\n" << reply;
    EXPECT_EQ(reply.find("llama3"), std::string::npos) << path;
    EXPECT_EQ(reply.find("root:"), std::string::npos) << path;
  }
  // A key that wants a name of the catalogue reads no file.
  const std::string model = R"({"files": [], "keys": {"model": ")" + folder.path() + R"(/job.toml", "gpu": "h100"}})";
  EXPECT_EQ(status_of(post("/api/fit", model, with_token())), 422);
  EXPECT_EQ(status_of(post("/api/fit", R"({"files": ["../../etc/passwd"]})", with_token())), 422);
}

TEST_F(ServerOnWires, answers_a_question_and_explains_a_wrong_one) {
  const std::string good = post("/api/fit", R"({"files": ["f1"]})", with_token());
  EXPECT_EQ(status_of(good), 200);
  EXPECT_NE(good.find("\"fits\""), std::string::npos);
  for (const char* body :
       {"", "null", "[]", "{", R"({"files": 1})", R"({"files": ["f9"]})", R"({"columns": 0})", R"({"columns": 1e9})",
        R"({"keys": {"--html": "x"}})", R"({"keys": {"html": "x"}})", R"({"from": 2, "to": 1})", R"({"unknown": 1})"}) {
    const std::string reply = post("/api/fit", body, with_token());
    EXPECT_EQ(status_of(reply), 422) << body << "\n" << reply;
    EXPECT_NE(reply.find("\"error\""), std::string::npos) << body;
  }
  EXPECT_EQ(status_of(post("/api/nothing", "{}", with_token())), 404);
}

// Whoever edits the file and loads the page again sees what it says now, in every panel.
TEST_F(ServerOnWires, reads_an_edited_file_again) {
  const auto seen = [this] {
    std::string all;
    // In the order in which the page asks: the verdict reads the file.
    for (const auto& [path, body] : {std::pair{"/api/fit", R"({"files": ["f1"]})"},
                                     {"/api/fit", R"({"files": ["f1"], "flags": ["changes"]})"},
                                     {"/api/step", R"({"files": ["f1"], "axis": "events"})"}}) {
      const std::string reply = post(path, body, with_token());
      EXPECT_EQ(status_of(reply), 200);
      all += reply.substr(reply.find("\r\n\r\n"));
    }
    return all;
  };
  const std::string before = seen();
  EXPECT_EQ(seen(), before);
  std::string edited = kJob;
  edited.replace(edited.find("4096"), 4, "8192");
  folder.write("job.toml", edited);
  const std::string after = seen();
  EXPECT_NE(after, before);
  EXPECT_EQ(after.find("\"seq_length\": 4096"), std::string::npos);
  folder.write("job.toml", kJob);
  EXPECT_EQ(seen(), before);
}

// A browser offers brotli, whose highest effort would take longer than the answer.
TEST_F(ServerOnWires, answers_are_not_squeezed) {
  const std::string offer = with_token() + "Accept-Encoding: gzip, deflate, br\r\n";
  EXPECT_EQ(post("/api/fit", R"({"files": ["f1"]})", offer).find("Content-Encoding"), std::string::npos);
  EXPECT_EQ(get("/page.js", "Accept-Encoding: gzip, deflate, br\r\n").find("Content-Encoding"), std::string::npos);
}

TEST_F(ServerOnWires, a_question_that_was_given_up_is_refused_and_can_be_asked_again) {
  const std::string ask = R"({"files": ["f1"], "flags": ["changes"], "ask": "a-1"})";
  EXPECT_EQ(status_of(post("/api/cancel", R"({"cancel": "a-1"})", with_token())), 200);
  const std::string refused = post("/api/fit", ask, with_token());
  EXPECT_EQ(status_of(refused), 422);
  EXPECT_NE(refused.find("interrupted, nothing was answered"), std::string::npos) << refused;
  EXPECT_EQ(status_of(post("/api/fit", ask, with_token())), 200);
  EXPECT_EQ(status_of(post("/api/cancel", fmt::format(R"({{"cancel": "{}"}})", std::string(65, 'x')), with_token())),
            422);
}

// A search of minutes: the reply comes because it was given up, whichever of the two requests the server sees first.
TEST_F(ServerOnWires, a_search_on_its_way_is_given_up) {
  ASSERT_TRUE(shelf
                  .add(folder.write("large.toml", R"(
framework = "megatron-bridge"
model = "deepseek-v3"
gpu = "h100-sxm-80gb"
gpus = 2048
seq_length = 4096
global_batch_size = 8192
)"))
                  .has_value());
  std::string reply;
  std::thread asker(
      [&] { reply = post("/api/plan", R"({"files": ["f2"], "keys": {}, "ask": "search"})", with_token()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(status_of(post("/api/cancel", R"({"cancel": "search"})", with_token())), 200);
  asker.join();
  EXPECT_EQ(status_of(reply), 422);
  EXPECT_NE(reply.find("interrupted, nothing was answered"), std::string::npos) << reply;
}

TEST_F(ServerOnWires, refuses_bodies_over_the_limit) {
  EXPECT_EQ(status_of(post("/api/fit", std::string((1 << 20) + 10, ' '), with_token())), 413);
  EXPECT_EQ(status_of(post("/api/drop?name=big.log", std::string((3 << 20) + 10, 'x'), with_token())), 413);
  // A length that nobody means.
  const std::string lie = fmt::format(
      "POST /api/fit HTTP/1.1\r\nHost: {}\r\nContent-Length: 99999999999999999999\r\n{}\r\n", host(), with_token());
  const int status = status_of(exchange(server->port(), lie));
  EXPECT_TRUE(status == 413 || status == 400 || status == 0) << status;
  EXPECT_EQ(status_of(post("/api/start", "{}", with_token())), 200);
}

TEST_F(ServerOnWires, takes_a_dropped_file_under_any_name) {
  for (const char* name : {"run.log", "..%2F..%2Fescape", "%3Cscript%3E.log", "", ".", "a%00b", "%F0%9F%98%80.log"}) {
    const std::string reply =
        post(fmt::format("/api/drop?name={}", name), "torch.OutOfMemoryError: CUDA out of memory.\n", with_token());
    EXPECT_EQ(status_of(reply), 200) << name << "\n" << reply;
    EXPECT_NE(reply.find("\"log\""), std::string::npos) << reply;
    EXPECT_EQ(reply.find("<script>"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/../escape"));
}

TEST_F(ServerOnWires, survives_slow_and_broken_clients) {
  std::vector<int> wires;
  for (int i = 0; i < 12; ++i) {  // twice the threads, none of which says a whole request
    wires.push_back(connected(server->port()));
    say(wires.back(), "GET / HTTP/1.1\r\nHo");
  }
  for (const char* text : {"", "\r\n\r\n", "\0\0\0\0", "GET", "POST /api/fit HTTP/1.1\r\n\r\n",
                           "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"}) {
    const int wire = connected(server->port());
    say(wire, text);
    shutdown(wire, SHUT_WR);
    close(wire);
  }
  const auto started = std::chrono::steady_clock::now();
  EXPECT_EQ(status_of(post("/api/start", "{}", with_token())), 200);
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(15));
  for (const int wire : wires) close(wire);
}

TEST_F(ServerOnWires, answers_a_thousand_requests_at_once) {
  std::atomic<int> answered{0};
  std::vector<std::thread> clients;
  for (int t = 0; t < 50; ++t)
    clients.emplace_back([&] {
      for (int i = 0; i < 20; ++i)
        if (status_of(post("/api/start", "{}", with_token())) == 200) ++answered;
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 1000);
}

TEST_F(ServerOnWires, a_second_server_cannot_take_its_port) {
  Server other(*site, shelf);
  const Status taken = other.start(server->port());
  ASSERT_FALSE(taken.has_value());
  EXPECT_EQ(taken.error().code, Code::kMissing);
}

TEST(Shelf, forgets_dropped_files_when_it_ends) {
  std::string path;
  {
    Shelf shelf;
    auto drop = shelf.begin_drop("a.log");
    ASSERT_TRUE(drop.has_value());
    ASSERT_TRUE(drop->write("text\n", 5));
    const auto item = shelf.finish(*std::move(drop));
    ASSERT_TRUE(item.has_value());
    path = item->path;
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Shelf, tells_kinds_of_files_apart) {
  const std::string root = PLIMSOLL_SOURCE_DIR;
  for (const auto& [path, kind] :
       {std::pair{"/examples/llama3-70b.toml", Kind::kJob}, std::pair{"/examples/logs/llama3-70b.log", Kind::kLog},
        std::pair{"/examples/rl/telescope.toml", Kind::kRun}, std::pair{"/examples/rl/verl.toml", Kind::kRun},
        std::pair{"/tests/data/snapshots/unit-default.pickle.gz", Kind::kRecording},
        std::pair{"/tests/data/snapshots/memory-stats.json", Kind::kRecording}}) {
    const auto found = kind_of(root + path);
    ASSERT_TRUE(found.has_value()) << path;
    EXPECT_EQ(text_of(*found), text_of(kind)) << path;
  }
  EXPECT_FALSE(kind_of(root + "/examples").has_value());
  EXPECT_FALSE(kind_of(root + "/nothing").has_value());
}

TEST(Page, says_how_to_build_it_when_it_is_not_there) {
  const auto page = Page::read("/nonexistent");
  ASSERT_FALSE(page.has_value());
  EXPECT_EQ(page.error().code, Code::kMissing);
  EXPECT_NE(page.error().hint.find("npm"), std::string::npos);
}

TEST(Page, keeps_hostile_answers_inside_their_element) {
  const TestFolder folder;
  const auto page = Page::read(folder.path());
  ASSERT_TRUE(page.has_value());
  const std::string whole = page->whole(R"({"a": "</script><script>alert(1)</script><!--"})");
  EXPECT_EQ(whole.find("<script>alert"), std::string::npos);
  EXPECT_EQ(whole.find("<!--"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::serve

// SPDX-License-Identifier: Apache-2.0
// plimsoll view: the answers as a page in a browser.
#include <sys/wait.h>
#include <unistd.h>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "cli/job_input.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "cli/verb.h"
#include "serve/bake.h"
#include "serve/server.h"

namespace plimsoll::cli {

namespace {

// Where the built page lies: as the caller says, beside the program, or where a package puts it.
std::string page_folder() {
  if (const char* given = std::getenv("PLIMSOLL_PAGE"); given != nullptr && *given != '\0') return given;
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path beside = program.parent_path() / "page";
  if (file_exists((beside / "index.html").string())) return beside.string();
  return (program.parent_path() / "../share/plimsoll/page").lexically_normal().string();
}

Result<int> port_of(const Arguments& arguments) {
  const auto text = arguments.value("port");
  if (!text) return 0;
  int port = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), port);
  constexpr int kHighest = 65535;
  if (parsed.ec != std::errc{} || parsed.ptr != text->data() + text->size() || port < 1 || port > kHighest)
    return usage_error(fmt::format("--port is '{}'; wanted a number from 1 to 65535", *text));
  return port;
}

// The browser of the desktop, where there is one. It must not outlive a failure here, nor hold our streams.
void open_browser(const std::string& address) {
  if (std::getenv("DISPLAY") == nullptr && std::getenv("WAYLAND_DISPLAY") == nullptr) return;
  const pid_t child = fork();
  if (child != 0) {
    if (child > 0) waitpid(child, nullptr, 0);
    return;
  }
  if (fork() == 0) {  // a grandchild, which init takes over
    if (std::freopen("/dev/null", "w", stdout) != nullptr && std::freopen("/dev/null", "w", stderr) != nullptr)
      execlp("xdg-open", "xdg-open", address.c_str(), static_cast<char*>(nullptr));
    _exit(1);
  }
  _exit(0);
}

Result<ExitCode> serve_until_stopped(serve::Server& server, const Console& console) {
  const Uninterrupted orderly;  // a signal ends the loop below, not the program
  while (!interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  server.stop();
  answer_interrupt();
  console.note("ended");
  return ExitCode::kYes;
}

Result<ExitCode> run_view(const Arguments& arguments, const Console& console) {
  if (arguments.has("html") && arguments.operands.empty())
    return usage_error("--html wants files to show", "plimsoll view job.toml --html job.html");
  PLIMSOLL_TRY(port, port_of(arguments));
  serve::Shelf shelf;
  for (const std::string& path : arguments.operands) {
    auto item = shelf.add(path);
    if (!item) return tl::make_unexpected(std::move(item.error()));
  }
  PLIMSOLL_TRY(page, serve::Page::read(page_folder()));
  PLIMSOLL_TRY(world, world_of(arguments));
  serve::Site site(shelf, page, std::string{version()}, std::move(world));
  if (const auto path = arguments.value("html")) {
    if (arguments.operands.empty())
      return usage_error("--html wants files to show", "plimsoll view job.toml --html job.html");
    PLIMSOLL_TRY(baked, serve::bake(site, shelf, std::string{version()}));
    PLIMSOLL_TRY_STATUS(write_whole(*path, page.whole(baked.text), existing_files(arguments)));
    for (const std::string& panel : baked.refused) console.warn("the page shows no " + panel);
    console.print("written: " + *path + "\n");
    return ExitCode::kYes;
  }
  serve::Server server(site, shelf);
  PLIMSOLL_TRY_STATUS(server.start(port));
  console.print(server.address() + "\n");
  PLIMSOLL_TRY_STATUS(console.flush());
  console.note("the page is for this machine and this run only; Ctrl-C ends it");
  if (!arguments.has("no-browser")) open_browser(server.address());
  return serve_until_stopped(server, console);
}

}  // namespace

extern const Verb kView;
const Verb kView = {
    .name = "view",
    .summary = "look at memory and time in a browser, and turn the knobs",
    .operands = "[FILE...]",
    .most_operands = -1,
    .details =
        "Shows the answers of the other verbs as a page: a job's memory on every rank, over its operations and in "
        "time, with its keys as knobs; all plans that fit; a recorded memory history, or a captured step's, down to "
        "single blocks; a log "
        "with its evidence; a post-training run. Files are recognised by their content, here or when they are dropped "
        "onto the page. The folder of a run shows its job, its log and its snapshots; of many ranks, one of each group "
        "that holds the same.\n"
        "\n"
        "The page is served on 127.0.0.1 under an address that holds a random token: nothing can be reached from "
        "outside, and nothing is written. Ctrl-C ends it.",
    .flags = {{.name = "port", .argument = "N", .help = "the port; a free one if not given"},
              {.name = "html",
               .argument = "FILE",
               .help = "write the view of the files as one page that needs no program, and end"},
              {.name = "force", .argument = "", .help = kForceHelp},
              {.name = "no-browser", .argument = "", .help = "print the address only"},
              {.name = "calibration", .argument = "FILE", .help = "efficiencies of your cluster, or what was learned"}},
    .takes_keys = false,
    .streams = true,
    .examples = {{"plimsoll view job.toml", "a job, with knobs"},
                 {"plimsoll view snapshot.pickle", "a recorded memory history"},
                 {"plimsoll view train.log job.toml", "why a run ended, beside its job"},
                 {"plimsoll view job.toml --html job.html", "a file to send to a colleague"}},
    .run = run_view,
};

}  // namespace plimsoll::cli

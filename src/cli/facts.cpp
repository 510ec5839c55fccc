// SPDX-License-Identifier: Apache-2.0
#include "cli/facts.h"

namespace plimsoll::cli {

namespace {

constexpr Entry kExitCodes[] = {
    {"0", "done, or the answer is yes: it fits"},
    {"1", "the answer is no"},
    {"2", "the command line is wrong"},
    {"3", "an input cannot be used"},
    {"4", "something is missing on this machine"},
    {"70", "a bug of ours"},
    {"130", "interrupted; what was known is shown (129 and 143 for HUP and TERM, 141 when the reader left)"},
};

constexpr Entry kEnvironment[] = {
    {"NO_COLOR", "no colour, unless --color says otherwise"},
    {"COLUMNS", "the width of tables where standard output is no terminal"},
    {"PAGER", "shows an answer that is longer than the terminal"},
    {"PLIMSOLL_PAGE", "the folder with the page of view, where it is not beside the program"},
    {"PLIMSOLL_NVML", "NVIDIA's management library, where it is not found by its name"},
    {"PLIMSOLL_CUDA", "the CUDA driver library of calibrate, where it is not found by its name"},
};

constexpr Entry kFiles[] = {
    {"job.toml", "a job: keys in sections, as TOML or JSON; other names and every framework's own files are read, too"},
    {"plimsoll.toml", "the jobs of a repository and their limits, for check"},
    {"calibration.json", "what calibrate and learn write, for --calibration"},
    {"plimsoll-run-DATE-TIME", "the folder of a run: run.json, the log, readings of every rank, snapshots"},
    {"share/plimsoll/page", "the page of view, beside the folder of the program"},
    {"lib/plimsoll/plimsoll-http.so", "what serves the page and --prometheus, there or beside the program"},
};

}  // namespace

std::span<const Entry> exit_codes() { return kExitCodes; }
std::span<const Entry> environment_variables() { return kEnvironment; }
std::span<const Entry> files() { return kFiles; }

}  // namespace plimsoll::cli

// SPDX-License-Identifier: Apache-2.0
// The shapes of PyTorch 2.0 to 2.14, written by hand, and files that contradict themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support.h"

namespace plimsoll::snapshot {
namespace {

using testing::HasSubstr;

TEST(Shapes, every_protocol_reads_alike) {
  for (int protocol = 2; protocol <= 5; ++protocol) {
    SCOPED_TRACE(protocol);
    const auto snapshot = read_snapshot("s", Writer{protocol}.small_snapshot());
    ASSERT_TRUE(snapshot) << error_of(snapshot);
    ASSERT_EQ(snapshot->events.count(), 2U);
    EXPECT_EQ(snapshot->events.action[0], Action::kSegmentAlloc);
    EXPECT_EQ(snapshot->events.stack[0], kNoStack);
    EXPECT_EQ(snapshot->events.address[1], 4096U);
    EXPECT_EQ(snapshot->events.size[1], 500);
    EXPECT_EQ(snapshot->events.time_us[1], kNoTime);
    const Range stack = snapshot->stacks[snapshot->events.stack[1]];
    ASSERT_EQ(stack.count, 1U);
    const Frame& frame = snapshot->frames[snapshot->stack_frames[stack.first]];
    EXPECT_EQ(snapshot->text(frame.name), "f");
    EXPECT_EQ(snapshot->text(frame.filename), "a.py");
    EXPECT_EQ(frame.line, 7);
    ASSERT_EQ(snapshot->devices.size(), 2U);
    EXPECT_EQ(snapshot->devices[0].events.count, 2U);
    EXPECT_EQ(snapshot->devices[1].events.count, 0U);
    EXPECT_TRUE(snapshot->has_history());
    ASSERT_EQ(snapshot->blocks.size(), 2U);
    EXPECT_EQ(snapshot->blocks[1].address, 4608U) << "blocks of 2.0 have no address";
    EXPECT_EQ(snapshot->blocks[0].requested_size, std::nullopt);
  }
}

TEST(Shapes, every_changed_byte_is_read_or_refused) {
  const std::string whole = Writer{}.small_snapshot();
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = whole;
      changed[at] = static_cast<char>(byte);
      const auto snapshot = read_snapshot("changed", changed);
      if (!snapshot) {
        ASSERT_FALSE(snapshot.error().message.empty());
      }
    }
}

TEST(Shapes, a_bare_list_of_segments_is_a_snapshot_without_history) {
  const Writer w;
  const std::string history =
      w.pair("history",
             Writer::list(Writer::dict(w.pair("addr", Writer::number(4096)) + w.pair("real_size", Writer::number(500)) +
                                       w.pair("frames", Writer::list(w.frame("g", 3))))));
  const auto snapshot =
      read_snapshot("s", w.whole(Writer::list(w.segment(4096, 512, w.block(512, "active_allocated", history)))));
  ASSERT_TRUE(snapshot) << error_of(snapshot);
  EXPECT_FALSE(snapshot->has_history());
  EXPECT_EQ(snapshot->device_segments.count, 1U);
  EXPECT_FALSE(snapshot->settings);
  EXPECT_EQ(snapshot->blocks[0].requested_size, 500);
  EXPECT_EQ(snapshot->stacks[snapshot->blocks[0].stack].count, 1U);
}

TEST(Shapes, newer_keys_are_kept_and_unknown_actions_are_not_fatal) {
  const Writer w;
  const std::string more = w.pair("pool_id", "K\x02K\x03\x86") + w.pair("user_metadata", w.text("step 1")) +
                           w.pair("compile_context", w.text("N/A")) + w.pair("internal_metadata", w.text("x"));
  const std::string limits = w.pair("trace_alloc_overflowed", Writer::list("\x88")) + w.pair("host_segments", "]") +
                             w.pair("host_traces", Writer::list(Writer::list(w.event("alloc", 64, 8))));
  const std::string settings =
      w.pair("allocator_settings", Writer::dict(w.pair("max_split_size", Writer::number(UINT64_MAX)) +
                                                w.pair("trace_alloc_max_entries", Writer::list(Writer::number(100)))));
  const auto snapshot =
      read_snapshot("s", w.whole(w.top("",
                                       Writer::list(w.event("alloc", 1ULL << 63, 8, more) +
                                                    Writer::dict(w.pair("action", w.text("new")) + w.pair("x", "N")) +
                                                    w.event("free_completed", 512, 8)),
                                       limits + settings)));
  ASSERT_TRUE(snapshot) << error_of(snapshot);
  EXPECT_EQ(snapshot->events.address[0], 1ULL << 63);
  const Note* note = snapshot->note_of(0);
  ASSERT_NE(note, nullptr);
  EXPECT_EQ(note->pool, (PoolId{2, 3}));
  EXPECT_EQ(snapshot->text(note->user_metadata), "step 1");
  EXPECT_EQ(note->compile_context, kNoString);
  EXPECT_EQ(snapshot->events.action[1], Action::kOther);
  EXPECT_EQ(snapshot->text(snapshot->note_of(1)->action), "new");
  EXPECT_EQ(snapshot->note_of(2), nullptr);
  EXPECT_EQ(snapshot->devices[0].overflowed, true);
  EXPECT_EQ(snapshot->devices[0].max_entries, 100);
  EXPECT_EQ(snapshot->settings->max_split_size, -1);
  EXPECT_EQ(snapshot->host_devices.size(), 1U);
  EXPECT_EQ(frees_without_alloc(*snapshot, snapshot->devices[0]), 1U) << "the trace wrapped";
}

TEST(Shapes, a_size_that_no_machine_has_is_damage) {
  const Writer w;
  for (const std::uint64_t size : {std::uint64_t{1} << 63, UINT64_MAX, (std::uint64_t{1} << 50) + 1}) {
    const auto snapshot = read_snapshot("s", w.whole(w.top("", Writer::list(w.event("alloc", 512, size)), "")));
    ASSERT_FALSE(snapshot) << size;
    EXPECT_THAT(error_of(snapshot), testing::HasSubstr("size")) << size;
  }
}

TEST(Shapes, sizes_whose_sum_would_overflow_are_damage) {
  const Writer w;
  std::string events;
  for (int i = 0; i < 4097; ++i) events += w.event("alloc", 512, std::uint64_t{1} << 50);

  const auto snapshot = read_snapshot("s", w.whole(w.top("", Writer::list(events), "")));

  ASSERT_FALSE(snapshot);
  EXPECT_THAT(error_of(snapshot), testing::HasSubstr("2^62"));
}

TEST(Shapes, forward_stacks_metadata_and_categories_are_noted) {
  const Writer w;
  const std::string forward = w.pair("forward_frames", Writer::list(w.text("a.py:1:f") + w.text("b.py:2:g"))) +
                              w.pair("internal_metadata", w.text("at an address")) +
                              w.pair("category", Writer::number(1));
  const std::string named = w.pair("category", w.text("GRADIENT"));
  const std::string fx = w.pair(
      "frames", Writer::list(Writer::dict(w.pair("name", w.text("f")) + w.pair("filename", w.text("a.py")) +
                                          w.pair("line", Writer::number(1)) + w.pair("fx_node_op", w.text("call")) +
                                          w.pair("fx_original_trace", w.text(std::string(200, 'x'))))));
  const auto events = Writer::list(w.event("alloc", 512, 8, forward) + w.event("alloc", 1024, 8, named + fx) +
                                   w.event("annotate", 512, 8, w.pair("user_metadata", w.text("mine"))) +
                                   w.event("alloc", 2048, 8, w.pair("category", "N") + w.pair("forward_frames", "]")));
  const auto read = [&](const std::string& more) { return read_snapshot("s", w.whole(w.top("", events, more))); };
  const auto snapshot =
      read(w.pair("categories", Writer::list(w.text("INPUT") + w.text("PARAMETER") + w.text("GRADIENT"))));
  ASSERT_TRUE(snapshot) << error_of(snapshot);
  const Origin* origin = snapshot->origin_of(0);
  ASSERT_NE(origin, nullptr);
  ASSERT_EQ(origin->forward_frames.count, 2U);
  EXPECT_EQ(snapshot->text(snapshot->forward_lines[origin->forward_frames.first + 1]), "b.py:2:g");
  EXPECT_EQ(snapshot->text(origin->internal_metadata), "at an address");
  EXPECT_EQ(snapshot->text(origin->category), "PARAMETER");
  EXPECT_EQ(snapshot->text(snapshot->origin_of(1)->category), "GRADIENT");
  EXPECT_EQ(snapshot->stacks[snapshot->events.stack[1]].count, 1U);
  EXPECT_EQ(snapshot->events.action[2], Action::kAnnotate);
  EXPECT_EQ(snapshot->text(snapshot->note_of(2)->user_metadata), "mine");
  EXPECT_EQ(snapshot->origin_of(3), nullptr);
  EXPECT_THAT(error_of(read("")), HasSubstr("category: found 1; wanted one of the 0 categories"));
}

TEST(Shapes, overflow_is_found_at_the_top_and_among_the_settings) {
  const Writer w;
  const std::string flags = w.pair("trace_alloc_overflowed", Writer::list("\x88\x89"));
  const std::string traces = Writer::list(w.event("free_completed", 512, 8)) + "]";
  for (const std::string& more : {flags, w.pair("allocator_settings", Writer::dict(flags))}) {
    const auto snapshot = read_snapshot("s", w.whole(w.top("", traces, more)));
    ASSERT_TRUE(snapshot) << error_of(snapshot);
    ASSERT_EQ(snapshot->devices.size(), 2U);
    EXPECT_EQ(snapshot->devices[0].overflowed, true);
    EXPECT_EQ(snapshot->devices[1].overflowed, false);
    EXPECT_EQ(frees_without_alloc(*snapshot, snapshot->devices[0]), 1U);
  }
}

TEST(Shapes, a_users_own_keys_and_unsigned_lines_are_no_mistake) {
  const Writer w;
  const std::string frames = w.pair("frames", Writer::list(w.frame("f", UINT64_MAX)));
  const std::string own =
      w.pair("mine", Writer::dict(w.pair("max_split_size", "N"))) + w.pair("allocator_settings", "}");
  const auto snapshot = read_snapshot("s", w.whole(w.top("", Writer::list(w.event("alloc", 1, 1, frames)), own)));
  ASSERT_TRUE(snapshot) << error_of(snapshot);
  EXPECT_EQ(snapshot->frames[0].line, -1);
  ASSERT_TRUE(snapshot->settings);
  EXPECT_EQ(snapshot->settings->max_split_size, std::nullopt);
}

TEST(Shapes, contradictions_name_the_key_and_what_was_wanted) {
  const Writer w;
  const auto error = [&](const std::string& value) { return error_of(read_snapshot("s.pickle", w.whole(value))); };
  EXPECT_THAT(error("N"), HasSubstr("s.pickle: the pickle holds None; wanted a dict with segments"));
  EXPECT_THAT(error(w.top(w.segment(4096, 1024, w.block(512, "inactive")), "")), HasSubstr("hold 512 of 1024 bytes"));
  EXPECT_THAT(error(w.top(w.segment(4096, 256, w.block(512, "inactive")), "")), HasSubstr("within 256 bytes"));
  EXPECT_THAT(error(w.top(w.segment(4096, 512, w.block(512, "odd")), "")), HasSubstr("state: found \"odd\"; wanted"));
  EXPECT_THAT(error(w.top("", Writer::list(Writer::dict(w.pair("action", w.text("alloc")) + w.pair("size", "N"))))),
              HasSubstr("addr: found no such key; wanted an address"));
  EXPECT_THAT(error(w.top("", Writer::list(w.event("alloc", 1, 1) + "N"))), HasSubstr("mixes trace events"));
  EXPECT_THAT(error(w.top("", Writer::list(w.event("alloc", 1, 1) + "2"))), HasSubstr("or twice"));
  EXPECT_THAT(error(w.top("", "N")), HasSubstr("device_traces: found a list of other values"));
  EXPECT_THAT(error(w.top("", w.event("alloc", 1, 1))), HasSubstr("wanted one list of trace events per device"));
  EXPECT_THAT(error(w.top("", Writer::list(w.event("alloc", 1, 1, w.pair("size", "K\x01"))))),
              HasSubstr("size stands twice"));
}

TEST(Shapes, frames_appended_one_by_one_cannot_cost_their_square) {
  const Writer w;
  std::string value = "]" + w.frame("f", 1) +
                      "\x94"
                      "a";  // the frame's dict takes slot 5
  for (int i = 0; i < 60000; ++i)
    value +=
        "h\x05"
        "a";
  EXPECT_THAT(error_of(read_snapshot("s", w.whole(value))), HasSubstr("piece by piece"));
}

TEST(Shapes, other_files_are_named_for_what_they_are) {
  EXPECT_THAT(error_of(read_snapshot("s", "")), HasSubstr("empty"));
  EXPECT_THAT(error_of(read_snapshot("s", "PK\x03\x04....")), HasSubstr("zip archive"));
}

}  // namespace
}  // namespace plimsoll::snapshot

// SPDX-License-Identifier: Apache-2.0
#include "snapshot_synthetic.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "snapshot_pickler.h"

namespace plimsoll::bench {

namespace {

constexpr std::uint64_t kKib = 1024;
constexpr std::uint64_t kMib = 1024 * kKib;

struct Block {
  std::uint64_t size = 0;
  std::uint64_t requested = 0;
  bool is_live = false;
};

struct Segment {
  std::uint64_t size = 0;
  bool is_small = false;
  std::map<std::uint64_t, Block> blocks;  // by address; they tile the segment
};

enum class Action { kSegmentAlloc, kAlloc, kFreeRequested, kFreeCompleted };
constexpr std::string_view kActionNames[] = {"segment_alloc", "alloc", "free_requested", "free_completed"};

// Told of every event. `stack` names a place in the program; a free's two events share one list of frames.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_event(Action action, std::uint64_t address, std::uint64_t size, int stack) = 0;
};

// Rounding, pools, best fit, splitting and merging of facts pytorch-allocator.md 3-5, nothing else.
class Allocator {
 public:
  explicit Allocator(Listener& listener) : listener_(listener) {}

  std::uint64_t allocate(std::uint64_t requested, int stack) {
    const std::uint64_t size = requested < 512 ? 512 : (requested + 511) / 512 * 512;
    const bool is_small = size <= kMib;
    std::set<Free>& pool = free_[is_small ? 0 : 1];
    auto found = pool.lower_bound({size, 0, 0});
    if (found == pool.end()) {
      const std::uint64_t bytes =
          is_small ? 2 * kMib : (size < 10 * kMib ? 20 * kMib : (size + 2 * kMib - 1) / (2 * kMib) * (2 * kMib));
      const std::uint64_t address = next_;
      next_ += bytes;
      segments_[address] = {bytes, is_small, {{address, {bytes, 0, false}}}};
      listener_.on_event(Action::kSegmentAlloc, address, bytes, stack);
      found = pool.insert({bytes, address, address}).first;
    }
    const auto [free_size, address, home] = *found;
    pool.erase(found);
    Segment& segment = segments_[home];
    const std::uint64_t rest = free_size - size;
    const bool splits = is_small ? rest >= 512 : rest > kMib;
    Block& block = segment.blocks[address];
    block = {splits ? size : free_size, requested, true};
    if (splits) {
      segment.blocks[address + size] = {rest, 0, false};
      pool.insert({rest, address + size, home});
    }
    home_[address] = home;
    listener_.on_event(Action::kAlloc, address, requested, stack);
    return address;
  }

  void free(std::uint64_t address, int stack) {
    const std::uint64_t home = home_[address];
    home_.erase(address);
    Segment& segment = segments_[home];
    std::set<Free>& pool = free_[segment.is_small ? 0 : 1];
    auto at = segment.blocks.find(address);
    listener_.on_event(Action::kFreeRequested, address, at->second.requested, stack);
    listener_.on_event(Action::kFreeCompleted, address, at->second.requested, stack);
    at->second.is_live = false;
    if (const auto next = std::next(at); next != segment.blocks.end() && !next->second.is_live) {
      pool.erase({next->second.size, next->first, home});
      at->second.size += next->second.size;
      segment.blocks.erase(next);
    }
    if (at != segment.blocks.begin()) {
      if (const auto before = std::prev(at); !before->second.is_live) {
        pool.erase({before->second.size, before->first, home});
        before->second.size += at->second.size;
        segment.blocks.erase(at);
        at = before;
      }
    }
    pool.insert({at->second.size, at->first, home});
  }

  [[nodiscard]] const std::map<std::uint64_t, Segment>& segments() const { return segments_; }

 private:
  using Free = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // size, address, segment

  Listener& listener_;
  std::set<Free> free_[2];
  std::map<std::uint64_t, Segment> segments_;
  std::map<std::uint64_t, std::uint64_t> home_;
  std::uint64_t next_ = 0x7f8000000000;
};

struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    state += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
};

constexpr int kNoFrames = 0;  // what the backward pass records with Python stacks

// Runs the loop until the listener has seen `events` events. Stacks are numbers from 1; 0 is the empty list.
class Loop {
 public:
  Loop(const SyntheticOptions& options, Allocator& allocator, const std::uint64_t& seen)
      : options_(options), allocator_(allocator), seen_(seen), random_{options.seed} {}

  void run() {
    constexpr std::uint64_t kHidden = 2048;
    for (int layer = 0; layer < options_.layers && !done(); ++layer)
      for (const std::uint64_t width : {3 * kHidden, kHidden, 8 * kHidden, std::uint64_t{1}})
        take(width * kHidden * 2, 1 + layer % 8);
    while (!done()) step(kHidden);
    while (seen_ < options_.events) allocator_.allocate(8, kNoFrames);
  }

 private:
  [[nodiscard]] bool done() const { return seen_ + 2 >= options_.events; }
  std::uint64_t take(std::uint64_t bytes, int stack) {
    return done() ? 0 : allocator_.allocate(bytes, options_.has_stacks ? stack : kNoFrames);
  }
  void give(std::uint64_t address, int stack) {
    if (address != 0 && !done()) allocator_.free(address, options_.has_stacks ? stack : kNoFrames);
  }

  void step(std::uint64_t hidden) {
    const std::uint64_t tokens = 128 + random_.below(4096);
    std::vector<std::vector<std::uint64_t>> saved(static_cast<std::size_t>(options_.layers));
    for (int layer = 0; layer < options_.layers; ++layer) {
      auto& kept = saved[static_cast<std::size_t>(layer)];
      kept.push_back(take(tokens * hidden * 2, 10));
      kept.push_back(take(tokens * 4, 11));
      kept.push_back(take(tokens * hidden * 6, 12));
      const std::uint64_t scratch = take(tokens * (64 + random_.below(2048)), 13);
      kept.push_back(take(tokens * hidden * 2, 14));
      give(scratch, 15);
      kept.push_back(take(tokens * hidden * 4, 16 + layer % 4));
      const std::uint64_t small = take(512 + random_.below(100000), 20);
      kept.push_back(take(8, 21));
      give(small, 22);
    }
    for (int layer = options_.layers - 1; layer >= 0; --layer) {
      std::uint64_t gradient = 0;
      for (const std::uint64_t address : saved[static_cast<std::size_t>(layer)]) {
        const std::uint64_t next = take(tokens * hidden * 2, kNoFrames);
        give(gradient, kNoFrames);
        give(address, kNoFrames);
        gradient = next;
      }
      give(gradient, 23);
    }
    const std::uint64_t norm = take(4, 24);
    give(norm, 25);
  }

  const SyntheticOptions& options_;
  Allocator& allocator_;
  const std::uint64_t& seen_;
  Random random_;
};

class Counter final : public Listener {
 public:
  void on_event(Action, std::uint64_t, std::uint64_t, int) override { ++seen; }
  std::uint64_t seen = 0;
};

// Writes the events with the keys of PyTorch 2.11 in their order (facts snapshot-format.md 4).
class EventWriter final : public Listener {
 public:
  EventWriter(Pickler& pickler, std::uint64_t events) : pickler_(pickler), items_(pickler, events) {}

  void on_event(Action action, std::uint64_t address, std::uint64_t size, int stack) override {
    ++seen;
    time_us_ += 1 + clock_.below(40);
    items_.before();
    pickler_.dict();
    pickler_.put('(');
    pickler_.shared("action");
    pickler_.shared(kActionNames[static_cast<int>(action)]);
    pickler_.shared("addr");
    pickler_.integer(address);
    pickler_.shared("size");
    pickler_.integer(size);
    pickler_.shared("stream");
    pickler_.integer(0);
    pickler_.shared("time_us");
    pickler_.integer(time_us_);
    pickler_.shared("compile_context");
    pickler_.text("N/A");
    pickler_.shared("user_metadata");
    pickler_.shared("");
    pickler_.shared("frames");
    if (action == Action::kFreeCompleted)
      pickler_.get(last_list_);
    else
      last_list_ = frames(stack);
    pickler_.put('u');
    items_.after();
  }
  std::uint64_t seen = 0;

 private:
  // The stack is a chain of `depth` frames; equal frames are one dict, as PyTorch's writer shares them.
  std::uint32_t frames(int stack) {
    const std::uint32_t list = pickler_.list();
    if (stack == kNoFrames) return list;
    const int depth = 1 + (stack * 5) % 12;
    if (depth > 1) pickler_.put('(');
    for (int level = 0; level < depth; ++level) frame(level < 2 ? 100 * stack + level : level);
    pickler_.put(depth > 1 ? 'e' : 'a');
    return list;
  }
  void frame(int number) {
    if (const auto known = frames_.find(number); known != frames_.end()) return pickler_.get(known->second);
    frames_[number] = pickler_.dict();
    pickler_.put('(');
    pickler_.shared("name");
    pickler_.text(fmt::format("forward_{}", number));
    pickler_.shared("filename");
    pickler_.text(fmt::format("/srv/train/model/layer_{}.py", number % 17));
    pickler_.shared("line");
    pickler_.integer(static_cast<std::uint64_t>(10 + number));
    pickler_.put('u');
  }

  Pickler& pickler_;
  Pickler::Items items_;
  std::map<int, std::uint32_t> frames_;
  std::uint32_t last_list_ = 0;
  std::uint64_t time_us_ = 1794709435246174;
  Random clock_{7};
};

void write_segments(Pickler& pickler, const std::map<std::uint64_t, Segment>& segments) {
  Pickler::Items items(pickler, segments.size());
  for (const auto& [address, segment] : segments) {
    std::uint64_t live = 0;
    std::uint64_t requested = 0;
    for (const auto& [at, block] : segment.blocks) {
      live += block.is_live ? block.size : 0;
      requested += block.is_live ? block.requested : 0;
    }
    items.before();
    pickler.dict();
    pickler.put('(');
    const auto number = [&](std::string_view key, std::uint64_t value) {
      pickler.shared(key);
      pickler.integer(value);
    };
    number("device", 0);
    number("address", address);
    number("total_size", segment.size);
    number("allocated_size", live);
    number("active_size", live);
    number("requested_size", requested);
    number("stream", 0);
    pickler.shared("segment_type");
    pickler.shared(segment.is_small ? "small" : "large");
    pickler.shared("segment_pool_id");
    pickler.zero_pair();
    pickler.shared("is_expandable");
    pickler.boolean(false);
    pickler.shared("frames");
    pickler.list();
    pickler.shared("blocks");
    pickler.list();
    Pickler::Items blocks(pickler, segment.blocks.size());
    for (const auto& [at, block] : segment.blocks) {
      blocks.before();
      pickler.dict();
      pickler.put('(');
      number("address", at);
      number("size", block.size);
      number("requested_size", block.requested);
      pickler.shared("state");
      pickler.shared(block.is_live ? "active_allocated" : "inactive");
      pickler.shared("frames");
      pickler.list();
      pickler.put('u');
      blocks.after();
    }
    pickler.put('u');
    items.after();
  }
}

void write_settings(Pickler& pickler) {
  pickler.dict();
  pickler.put('(');
  pickler.shared("PYTORCH_CUDA_ALLOC_CONF");
  pickler.shared("");
  pickler.shared("max_split_size");
  pickler.put('J');
  for (int i = 0; i < 4; ++i) pickler.put('\xff');
  pickler.shared("expandable_segments");
  pickler.boolean(false);
  pickler.put('u');
}

}  // namespace

Result<SyntheticFile> write_synthetic(const std::string& path, const SyntheticOptions& options) {
  Counter counter;
  Allocator first(counter);
  Loop(options, first, counter.seen).run();

  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (!file) return bad_input(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  Pickler pickler(file.get());
  pickler.dict();
  pickler.put('(');
  pickler.shared("segments");
  pickler.list();
  write_segments(pickler, first.segments());
  pickler.shared("device_traces");
  pickler.list();
  pickler.list();
  EventWriter writer(pickler, counter.seen);
  Allocator second(writer);
  Loop(options, second, writer.seen).run();
  pickler.put('a');
  pickler.shared("allocator_settings");
  write_settings(pickler);
  pickler.shared("external_annotations");
  pickler.list();
  pickler.put('u');
  pickler.stop();
  if (std::fflush(file.get()) != 0) return bad_input(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  return SyntheticFile{pickler.bytes(), counter.seen, first.segments().size()};
}

}  // namespace plimsoll::bench

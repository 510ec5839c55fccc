// SPDX-License-Identifier: Apache-2.0
// What a pass of the graph launches: products, attention calls and kernels that stream memory, each with its size.
// The same operations that make the tensors of the tape report here, so a family, a knob or a cast that changes one
// changes both. timing/ prices the lists; nothing here knows seconds.
//
// An operation names its inputs (begin), then says what it is (product, attention) or writes its results (wrote).
// The first result of an operation makes it a kernel; later ones belong to the same kernel in forward, and are
// kernels of their own in backward, where PyTorch composes formulas from single operations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace plimsoll::step::transformers {

enum class ProductKind : std::uint8_t {
  kPlain,          // `count` of them, each of this size
  kGrouped,        // `count` weights share the rows
  kGroupedWeight,  // gradient of those weights: the depth is shared
};

// rows x depth times depth x columns.
struct Product {
  double rows = 0;
  double columns = 0;
  double depth = 0;
  double count = 1;
  std::uint8_t width = 2;  // bytes per element of its operands
  std::uint8_t alignment =
      8;  // elements that can be loaded at once: the largest of 1, 2, 4, 8 that divides its features
  ProductKind kind = ProductKind::kPlain;
};

// One fused attention call.
struct AttentionCall {
  double flops = 0;  // of the forward as executed: the causal half only, unless masked
  double head_dim = 0;
  double keys = 0;  // that a query sees on average
  std::uint8_t width = 2;
  bool masked = false;  // an additive mask: the kernels that skip nothing
};

// A memory-bound kernel.
struct MemoryKernel {
  double bytes = 0;     // read and written
  double elements = 0;  // written one by one: the kernel broadcasts, reorders or widens and cannot vectorise; else 0
  double in_turn = 0;   // rows that are added to one place, one after the other
  double share = 1;     // of the micro-batches in which it runs: a first gradient is kept, not added
};

struct Launches {
  std::vector<Product> products;
  std::vector<AttentionCall> attention;
  std::vector<MemoryKernel> streams;
  double inner = 0;  // launches from inside an operation: passes of a sort, counters set to zero
  double saved = 0;  // tensors that backward needs

  void clear() {
    products.clear();
    attention.clear();
    streams.clear();
    inner = saved = 0;
  }
};

class Meter {
 public:
  explicit Meter(Launches& into) : into_(&into) {}
  // Where the following operations are written down.
  void report_to(Launches& into, bool backward) {
    into_ = &into;
    backward_ = backward;
    state_ = State::kCounted;
  }

  // An operation begins: the bytes of its inputs.
  void begin(std::int64_t reads) {
    reads_ = static_cast<double>(reads);
    state_ = State::kNew;
  }
  // Inside an operation that launches several kernels: what the next one reads.
  void next(std::int64_t reads) {
    reads_ = static_cast<double>(reads);
    state_ = State::kNew;
  }
  void product(const Product& product) {
    into_->products.push_back(product);
    state_ = State::kNamed;
  }
  void attention(const AttentionCall& call) {
    calls_.push_back(call);
    into_->attention.push_back(call);
    state_ = State::kNamed;
  }
  // The backward of the attention that ran last.
  void attention_backward() {
    if (calls_.empty()) return;
    into_->attention.push_back(calls_.back());
    calls_.pop_back();
    state_ = State::kNamed;
  }
  // The next kernel goes element by element.
  void scattered() { scattered_ = true; }
  void wrote(std::int64_t elements, std::uint8_t width) {
    const auto written = static_cast<double>(elements) * width;
    const bool one_by_one = std::exchange(scattered_, false);
    switch (state_) {
      case State::kNamed:  // a product's or an attention call's own result
        return;
      case State::kNew:
        into_->streams.push_back({reads_ + written, one_by_one ? static_cast<double>(elements) : 0});
        state_ = State::kCounted;
        return;
      case State::kCounted:
        if (backward_) {
          into_->streams.push_back({written + std::min(reads_, 2 * written), 0});
        } else if (!into_->streams.empty()) {
          into_->streams.back().bytes += written;
        }
        return;
    }
  }
  // A kernel that adds rows to a few places, so many to the same one.
  void adds_in_turn(double rows) { into_->streams.push_back({0, 0, rows}); }
  // A kernel that writes where it reads; so many elements one by one.
  void in_place(std::int64_t moved, std::int64_t one_by_one = 0) {
    into_->streams.push_back({static_cast<double>(moved), static_cast<double>(one_by_one)});
    state_ = State::kCounted;
  }
  // A gradient that is added to what micro-batches before have left.
  void adds_gradient(std::int64_t moved, double share) {
    into_->streams.push_back({static_cast<double>(moved), 0, 0, share});
    state_ = State::kCounted;
  }
  // Operations on a few numbers: indices, a loss that is divided.
  void small(int operations) { into_->streams.insert(into_->streams.end(), static_cast<std::size_t>(operations), {}); }
  void inner(double launches) { into_->inner += launches; }
  void saves() { ++into_->saved; }

 private:
  enum class State : std::uint8_t { kNew, kCounted, kNamed };
  Launches* into_;
  std::vector<AttentionCall> calls_;  // whose backward is still to come
  double reads_ = 0;
  State state_ = State::kCounted;
  bool backward_ = false;
  bool scattered_ = false;
};

}  // namespace plimsoll::step::transformers

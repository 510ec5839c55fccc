// SPDX-License-Identifier: Apache-2.0
// The part of Python's pickler (protocol 4) that a snapshot needs: FRAMEs of 64 KiB, a memo number for every dict,
// list, string and tuple, batches of 1,000 items (facts snapshot-format.md 1).
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>

namespace plimsoll::bench {

class Pickler {
 public:
  explicit Pickler(std::FILE* file) : file_(file) { write("\x80\x04"); }

  void stop() {
    put('.');
    commit();
  }
  void integer(std::uint64_t value) {
    boundary();
    if (value < 0x100) {
      put('K');
      little(value, 1);
    } else if (value < 0x10000) {
      put('M');
      little(value, 2);
    } else if (value < 0x80000000) {
      put('J');
      little(value, 4);
    } else {
      int bytes = 1;
      while (bytes < 8 && (value >> (8 * bytes - 1)) != 0) ++bytes;
      put('\x8a');
      put(static_cast<char>(bytes));
      little(value, bytes);
    }
  }
  void boolean(bool value) {
    boundary();
    put(value ? '\x88' : '\x89');
  }
  // A literal, written anew; returns its memo number.
  std::uint32_t text(std::string_view text) {
    boundary();
    put('\x8c');
    put(static_cast<char>(text.size()));
    frame_.append(text);
    return memoize();
  }
  // A string object that the program shares: a literal the first time, a reference after that.
  void shared(std::string_view text_to_share) {
    const auto found = shared_.find(std::string(text_to_share));
    if (found != shared_.end()) return get(found->second);
    shared_.emplace(text_to_share, text(text_to_share));
  }
  std::uint32_t dict() { return container('}'); }
  std::uint32_t list() { return container(']'); }
  void get(std::uint32_t memo) {
    boundary();
    put(memo < 256 ? 'h' : 'j');
    little(memo, memo < 256 ? 1 : 4);
  }
  void zero_pair() {
    integer(0);
    integer(0);
    put('\x86');
    memoize();
  }
  void put(char opcode) { frame_.push_back(opcode); }
  [[nodiscard]] std::uint64_t bytes() const { return written_; }

  // Items of a list: MARK before the first of a batch, APPENDS after its last; APPEND for one alone.
  class Items {
   public:
    Items(Pickler& pickler, std::uint64_t count) : pickler_(pickler), left_(count) {}
    void before() {
      if (in_batch_ == 0) {
        batch_ = left_ < kBatch ? left_ : kBatch;
        if (batch_ > 1) pickler_.put('(');
      }
    }
    void after() {
      --left_;
      if (++in_batch_ < batch_) return;
      pickler_.put(batch_ > 1 ? 'e' : 'a');
      in_batch_ = 0;
    }

   private:
    static constexpr std::uint64_t kBatch = 1000;
    Pickler& pickler_;
    std::uint64_t left_;
    std::uint64_t batch_ = 0;
    std::uint64_t in_batch_ = 0;
  };

 private:
  static constexpr std::size_t kFrame = 65536;

  std::uint32_t container(char opcode) {
    boundary();
    put(opcode);
    return memoize();
  }
  std::uint32_t memoize() {
    put('\x94');
    return memo_++;
  }
  void boundary() {
    if (frame_.size() >= kFrame) commit();
  }
  void commit() {
    std::string head = "\x95";
    for (int i = 0; i < 8; ++i) head.push_back(static_cast<char>(frame_.size() >> (8 * i)));
    write(head);
    write(frame_);
    frame_.clear();
  }
  void little(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) put(static_cast<char>(value >> (8 * i)));
  }
  void write(std::string_view bytes) { written_ += std::fwrite(bytes.data(), 1, bytes.size(), file_); }

  std::FILE* file_;
  std::string frame_;
  std::uint64_t written_ = 0;
  std::uint32_t memo_ = 0;
  std::unordered_map<std::string, std::uint32_t> shared_;
};

}  // namespace plimsoll::bench

// SPDX-License-Identifier: Apache-2.0
#include "snapshot/window.h"

#include <algorithm>
#include <cstring>

namespace plimsoll::snapshot {

Window::Window(std::string_view whole)
    : begin_(whole.data()), end_(whole.data()), whole_end_(whole.data() + whole.size()), is_at_end_(whole.empty()) {}

// The buffer is left as the system gives it: a small file touches little of it.
Window::Window(Source& source)
    : source_(&source),
      buffer_(std::make_unique_for_overwrite<char[]>(2 * kStep)),
      capacity_(2 * kStep),
      begin_(buffer_.get()),
      end_(begin_) {}

std::uint64_t Window::known_size() const {
  if (source_ == nullptr) return offset_ + whole_left(begin_);
  return std::max<std::uint64_t>(source_->expected_size(), offset_ + static_cast<std::uint64_t>(end_ - begin_));
}

Status Window::extend(const char* keep) {
  offset_ += static_cast<std::uint64_t>(keep - begin_);
  if (source_ == nullptr) {
    begin_ = keep;
    end_ += std::min<std::size_t>(kStep, static_cast<std::size_t>(whole_end_ - end_));
    is_at_end_ = end_ == whole_end_;
    return {};
  }
  const auto kept = static_cast<std::size_t>(end_ - keep);
  if (capacity_ < kept + kStep) {
    const std::size_t capacity = std::max(capacity_ + capacity_ / 2, kept + kStep);
    auto larger = std::make_unique_for_overwrite<char[]>(capacity);
    std::memcpy(larger.get(), keep, kept);
    buffer_ = std::move(larger);
    capacity_ = capacity;
  } else {
    std::memmove(buffer_.get(), keep, kept);
  }
  begin_ = buffer_.get();
  end_ = begin_ + kept;
  PLIMSOLL_TRY(got, source_->read(buffer_.get() + kept, kStep));
  end_ += got;
  is_at_end_ = got == 0;
  return {};
}

}  // namespace plimsoll::snapshot

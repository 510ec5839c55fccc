// SPDX-License-Identifier: Apache-2.0
#include "snapshot/window.h"

#include <algorithm>
#include <cstring>

namespace plimsoll::snapshot {

Window::Window(std::string_view whole)
    : begin_(whole.data()), end_(whole.data()), whole_end_(whole.data() + whole.size()), is_at_end_(whole.empty()) {}

Window::Window(Source& source) : source_(&source), buffer_(2 * kStep), begin_(buffer_.data()), end_(begin_) {}

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
  std::memmove(buffer_.data(), keep, kept);
  if (buffer_.size() < kept + kStep) buffer_.resize(std::max(buffer_.size() + buffer_.size() / 2, kept + kStep));
  begin_ = buffer_.data();
  end_ = begin_ + kept;
  PLIMSOLL_TRY(got, source_->read(buffer_.data() + kept, kStep));
  end_ += got;
  is_at_end_ = got == 0;
  return {};
}

}  // namespace plimsoll::snapshot

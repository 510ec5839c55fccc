// SPDX-License-Identifier: Apache-2.0
// Matrix products through cuBLASLt, the library that PyTorch and Transformer Engine call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "measure/cuda.h"

namespace plimsoll::measure {

enum class Format : std::uint8_t { kBf16, kFp16, kFp8, kTf32, kFp32 };
inline constexpr Format kFormats[] = {Format::kBf16, Format::kFp16, Format::kFp8, Format::kTf32, Format::kFp32};
[[nodiscard]] std::string name_of(Format format);

// out[rows, columns] = x[rows, depth] W[depth, columns], in the three layouts of training: y = x W^T, its input
// gradient, its weight gradient. FP8 products have the first layout in every pass.
enum class Pass : std::uint8_t { kForward, kInputGradient, kWeightGradient };
inline constexpr Pass kPasses[] = {Pass::kForward, Pass::kInputGradient, Pass::kWeightGradient};

struct Shape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
};

class Products {
 public:
  // Memory for shapes of at most `most_elements` in any of their three matrices, filled with random numbers: zeros
  // would draw less power than training does.
  [[nodiscard]] static Result<std::unique_ptr<Products>> open(const Session& session,
                                                              const std::vector<std::string>& folders,
                                                              std::int64_t most_elements);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  [[nodiscard]] const std::string& library() const;
  // Refills the operands for a format; a format that the device cannot multiply has no algorithm, which time() says.
  [[nodiscard]] Status prepare(Format format);
  // Seconds of one product; nothing where the library has no algorithm for it on this device.
  [[nodiscard]] Result<double> time(Format format, Pass pass, const Shape& shape, double burst) const;
  // Seconds of one product while nothing else has run for `seconds`, and at their end.
  struct Sustained {
    double first = 0;
    double last = 0;
  };
  [[nodiscard]] Result<Sustained> sustain(Format format, const Shape& shape, double seconds) const;

 private:
  Products() = default;
  struct Functions;
  struct Plan;
  [[nodiscard]] Result<std::unique_ptr<Plan>> plan(Format format, Pass pass, const Shape& shape) const;
  [[nodiscard]] Status multiply(const Plan& plan) const;

  const Session* session_ = nullptr;
  std::unique_ptr<Functions> call_;
  void* handle_ = nullptr;
  Buffer left_;
  Buffer right_;
  Buffer out_;
  Buffer workspace_;
};

}  // namespace plimsoll::measure

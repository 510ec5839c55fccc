// SPDX-License-Identifier: Apache-2.0
#include "measure/products.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include <fmt/format.h>

namespace plimsoll::measure {

namespace {

// The part of cuBLASLt's interface that is called here (its reference; the numbers are those of its enumerations).
constexpr int kOk = 0;
constexpr int kReal32 = 0;  // CUDA_R_32F
constexpr int kReal16 = 2;
constexpr int kBrain16 = 14;
constexpr int kFloat8 = 28;  // CUDA_R_8F_E4M3
constexpr int kCompute32 = 68;
constexpr int kComputeTf32 = 77;
constexpr int kTransposeA = 3;  // CUBLASLT_MATMUL_DESC_*
constexpr int kTransposeB = 4;
constexpr int kFastAccumulation = 25;
constexpr int kWorkspaceBytes = 1;  // CUBLASLT_MATMUL_PREF_*
constexpr std::size_t kWorkspace = std::size_t{32} << 20;

struct Heuristic {
  unsigned long long algorithm[8];
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

using Handle = void*;
using Opaque = void*;

int data_type(Format format) {
  switch (format) {
    case Format::kBf16:
      return kBrain16;
    case Format::kFp16:
      return kReal16;
    case Format::kFp8:
      return kFloat8;
    case Format::kTf32:
    case Format::kFp32:
      return kReal32;
  }
  return kReal32;
}

std::size_t element_bytes(Format format) {
  if (format == Format::kFp8) return 1;
  return format == Format::kBf16 || format == Format::kFp16 ? 2 : 4;
}

// Random numbers around one, of either sign.
std::vector<unsigned char> random_operand(Format format, std::size_t bytes) {
  std::mt19937_64 random(7);
  std::vector<unsigned char> data(bytes);
  const auto fill = [&](auto make) {
    using Word = decltype(make(std::uint64_t{0}));
    for (std::size_t at = 0; at + sizeof(Word) <= bytes; at += sizeof(Word)) {
      const Word word = make(random());
      std::memcpy(data.data() + at, &word, sizeof(Word));
    }
  };
  switch (format) {
    case Format::kBf16:  // sign and mantissa at random, exponents 124 to 127
      fill([](std::uint64_t r) { return static_cast<std::uint16_t>((r & 0x807f) | ((124 + (r >> 20) % 4) << 7)); });
      break;
    case Format::kFp16:
      fill([](std::uint64_t r) { return static_cast<std::uint16_t>((r & 0x83ff) | ((12 + (r >> 20) % 4) << 10)); });
      break;
    case Format::kFp8:  // exponents 4 to 7 of 15: no infinities or NaN
      fill([](std::uint64_t r) { return static_cast<std::uint8_t>((r & 0x87) | ((4 + (r >> 20) % 4) << 3)); });
      break;
    case Format::kTf32:
    case Format::kFp32:
      fill(
          [](std::uint64_t r) { return static_cast<std::uint32_t>((r & 0x807fffff) | ((124 + (r >> 40) % 4) << 23)); });
      break;
  }
  return data;
}

}  // namespace

std::string name_of(Format format) {
  switch (format) {
    case Format::kBf16:
      return "bf16";
    case Format::kFp16:
      return "fp16";
    case Format::kFp8:
      return "fp8";
    case Format::kTf32:
      return "tf32";
    case Format::kFp32:
      return "fp32";
  }
  return {};
}

struct Products::Functions {
  std::unique_ptr<Library> library;
  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*create_operation)(Opaque*, int compute, int scale) = nullptr;
  int (*destroy_operation)(Opaque) = nullptr;
  int (*set_operation)(Opaque, int which, const void*, std::size_t) = nullptr;
  int (*create_layout)(Opaque*, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) = nullptr;
  int (*destroy_layout)(Opaque) = nullptr;
  int (*create_preference)(Opaque*) = nullptr;
  int (*destroy_preference)(Opaque) = nullptr;
  int (*set_preference)(Opaque, int which, const void*, std::size_t) = nullptr;
  int (*choose)(Handle, Opaque operation, Opaque a, Opaque b, Opaque c, Opaque d, Opaque preference, int wanted,
                Heuristic*, int* found) = nullptr;
  int (*multiply)(Handle, Opaque operation, const void* alpha, const void* a, Opaque, const void* b, Opaque,
                  const void* beta, const void* c, Opaque, void* d, Opaque, const void* algorithm, void* workspace,
                  std::size_t, abi::Stream) = nullptr;
};

// What one product needs, released with it.
struct Products::Plan {
  const Functions* call = nullptr;
  Opaque operation = nullptr;
  Opaque a = nullptr;
  Opaque b = nullptr;
  Opaque out = nullptr;
  Opaque preference = nullptr;
  Heuristic chosen{};

  ~Plan() {
    if (preference != nullptr) call->destroy_preference(preference);
    for (Opaque layout : {a, b, out})
      if (layout != nullptr) call->destroy_layout(layout);
    if (operation != nullptr) call->destroy_operation(operation);
  }
};

Result<std::unique_ptr<Products>> Products::open(const Session& session, const std::vector<std::string>& folders,
                                                 std::int64_t most_elements) {
  auto library = Library::open({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}, folders);
  if (!library) return tl::make_unexpected(std::move(library.error()));
  std::unique_ptr<Products> products(new Products);
  products->session_ = &session;
  products->call_ = std::make_unique<Functions>();
  Functions& call = *products->call_;
  call.library = *std::move(library);
  const Library& from = *call.library;
  const bool complete = from.find("cublasLtCreate", call.create) && from.find("cublasLtDestroy", call.destroy) &&
                        from.find("cublasLtMatmulDescCreate", call.create_operation) &&
                        from.find("cublasLtMatmulDescDestroy", call.destroy_operation) &&
                        from.find("cublasLtMatmulDescSetAttribute", call.set_operation) &&
                        from.find("cublasLtMatrixLayoutCreate", call.create_layout) &&
                        from.find("cublasLtMatrixLayoutDestroy", call.destroy_layout) &&
                        from.find("cublasLtMatmulPreferenceCreate", call.create_preference) &&
                        from.find("cublasLtMatmulPreferenceDestroy", call.destroy_preference) &&
                        from.find("cublasLtMatmulPreferenceSetAttribute", call.set_preference) &&
                        from.find("cublasLtMatmulAlgoGetHeuristic", call.choose) &&
                        from.find("cublasLtMatmul", call.multiply);
  if (!complete) return missing(fmt::format("{} lacks functions of cuBLASLt", from.path()));
  PLIMSOLL_TRY_STATUS(session.use());
  if (const int code = call.create(&products->handle_); code != kOk)
    return missing(fmt::format("{} does not start: cuBLAS error {}", from.path(), code));
  const auto bytes = static_cast<std::size_t>(most_elements) * sizeof(float);
  PLIMSOLL_TRY(left, session.allocate(bytes));
  PLIMSOLL_TRY(right, session.allocate(bytes));
  PLIMSOLL_TRY(out, session.allocate(bytes));
  PLIMSOLL_TRY(workspace, session.allocate(kWorkspace));
  products->left_ = std::move(left);
  products->right_ = std::move(right);
  products->out_ = std::move(out);
  products->workspace_ = std::move(workspace);
  return products;
}

Products::~Products() {
  if (handle_ != nullptr) call_->destroy(handle_);
}

const std::string& Products::library() const { return call_->library->path(); }

Status Products::prepare(Format format) {
  constexpr std::size_t kPattern = std::size_t{8} << 20;
  const std::vector<unsigned char> pattern = random_operand(format, kPattern);
  const abi::Driver& call = session_->cuda().call();
  for (const Buffer* buffer : {&left_, &right_}) {
    for (std::size_t at = 0; at < buffer->bytes(); at += kPattern) {
      const std::size_t bytes = std::min(kPattern, buffer->bytes() - at);
      PLIMSOLL_TRY_STATUS(session_->cuda().check(
          call.to_device(buffer->address() + at, pattern.data(), bytes, session_->stream()), "filling operands"));
    }
    PLIMSOLL_TRY_STATUS(session_->synchronize());
  }
  return {};
}

// cuBLASLt counts columns first: its matrices are ours transposed. y^T[n, m] = W[n, k] x^T[k, m]: A is the weight, B
// the input, and both lie as in PyTorch.
Result<std::unique_ptr<Products::Plan>> Products::plan(Format format, Pass pass, const Shape& shape) const {
  const Functions& call = *call_;
  auto plan = std::make_unique<Plan>();
  plan->call = &call;
  const auto m = static_cast<std::uint64_t>(shape.rows);
  const auto n = static_cast<std::uint64_t>(shape.columns);
  const auto k = static_cast<std::uint64_t>(shape.depth);
  const int type = data_type(format);
  const int out = format == Format::kFp8 ? kBrain16 : type;
  // FP8 operands are transposed before, so that every pass has the layout of the forward one.
  const bool as_forward = pass == Pass::kForward || format == Format::kFp8;
  const std::int32_t transpose_a = as_forward ? 1 : 0;
  const std::int32_t transpose_b = pass == Pass::kWeightGradient && !as_forward ? 1 : 0;
  bool ok =
      call.create_operation(&plan->operation, format == Format::kTf32 ? kComputeTf32 : kCompute32, kReal32) == kOk &&
      call.set_operation(plan->operation, kTransposeA, &transpose_a, sizeof(transpose_a)) == kOk &&
      call.set_operation(plan->operation, kTransposeB, &transpose_b, sizeof(transpose_b)) == kOk &&
      call.create_layout(&plan->a, type, transpose_a != 0 ? k : n, transpose_a != 0 ? n : k,
                         static_cast<std::int64_t>(transpose_a != 0 ? k : n)) == kOk &&
      call.create_layout(&plan->b, type, transpose_b != 0 ? m : k, transpose_b != 0 ? k : m,
                         static_cast<std::int64_t>(transpose_b != 0 ? m : k)) == kOk &&
      call.create_layout(&plan->out, out, n, m, static_cast<std::int64_t>(n)) == kOk &&
      call.create_preference(&plan->preference) == kOk &&
      call.set_preference(plan->preference, kWorkspaceBytes, &kWorkspace, sizeof(kWorkspace)) == kOk;
  if (format == Format::kFp8) {
    const std::int8_t fast = pass == Pass::kForward ? 1 : 0;  // as Transformer Engine: gradients sum in fp32
    ok = ok && call.set_operation(plan->operation, kFastAccumulation, &fast, sizeof(fast)) == kOk;
  }
  if (!ok) return missing(fmt::format("cuBLASLt refuses {} products", name_of(format)));
  int found = 0;
  const int code = call.choose(handle_, plan->operation, plan->a, plan->b, plan->out, plan->out, plan->preference, 1,
                               &plan->chosen, &found);
  if (code != kOk || found < 1) return missing(fmt::format("no algorithm for {} products", name_of(format)));
  return plan;
}

Status Products::multiply(const Plan& plan) const {
  const float one = 1;
  const float zero = 0;
  const auto pointer = [](const Buffer& buffer) { return reinterpret_cast<void*>(buffer.address()); };
  const int code = call_->multiply(handle_, plan.operation, &one, pointer(left_), plan.a, pointer(right_), plan.b,
                                   &zero, pointer(out_), plan.out, pointer(out_), plan.out, plan.chosen.algorithm,
                                   pointer(workspace_), kWorkspace, session_->stream());
  if (code != kOk) return missing(fmt::format("a matrix product failed: cuBLAS error {}", code));
  return {};
}

Result<double> Products::time(Format format, Pass pass, const Shape& shape, double burst) const {
  const std::int64_t most =
      std::max({shape.rows * shape.depth, shape.depth * shape.columns, shape.rows * shape.columns});
  if (most * static_cast<std::int64_t>(element_bytes(format)) > static_cast<std::int64_t>(out_.bytes()) ||
      shape.rows * shape.columns * 2 > static_cast<std::int64_t>(out_.bytes()))
    return missing("a product larger than the memory that is free");
  PLIMSOLL_TRY(planned, plan(format, pass, shape));
  return session_->seconds([&] { return multiply(*planned); }, burst);
}

Result<Products::Sustained> Products::sustain(Format format, const Shape& shape, double seconds) const {
  using Clock = std::chrono::steady_clock;
  constexpr double kBurst = 0.05;
  PLIMSOLL_TRY(planned, plan(format, Pass::kForward, shape));
  const Session::Call call = [&] { return multiply(*planned); };
  Sustained sustained;
  PLIMSOLL_TRY(first, session_->seconds(call, kBurst));
  sustained.first = sustained.last = first;
  const Clock::time_point begin = Clock::now();
  // The clock of the host ends it on a real device, the device's own on one that is simulated.
  double spent = 0;
  while (spent < seconds && std::chrono::duration<double>(Clock::now() - begin).count() < seconds) {
    PLIMSOLL_TRY(next, session_->seconds(call, 4 * kBurst));
    sustained.last = next;
    spent += 4 * kBurst;
  }
  return sustained;
}

}  // namespace plimsoll::measure

// SPDX-License-Identifier: Apache-2.0
#include "capture/kernel_memory.h"

#include <algorithm>
#include <array>

#include "step/transformers/reduce.h"

namespace plimsoll::capture {

namespace {

using Bytes = std::vector<std::int64_t>;

constexpr std::int64_t kPlanWorkspace = 256;  // cuDNN
constexpr std::int64_t kSortFrom = 3072;      // ids are sorted first when there are more (embedding)
constexpr std::int64_t kRowsPerPart = 10;
constexpr std::int64_t kGroupedScratch = 67584;  // kernel arguments and workspace of a grouped product

// grad * output, before the rows are summed.
Bytes softmax_backward(const Capture& c, const Event& e, const Device&) {
  const auto in = c.inputs_of(e);
  if (in.size() < 2) return {};
  return {std::max(c.elements_of(in[0]) * c.width_of(in[0]), c.elements_of(in[1]) * c.width_of(in[1]))};
}

// Few outputs of many inputs each are summed by blocks that meet in global memory: leading dimensions are summed away,
// as in the gradient of a bias. Sums within rows need none.
Bytes sum(const Capture& c, const Event& e, const Device& device) {
  const auto in = c.inputs_of(e);
  const auto out = c.outputs_of(e);
  if (in.empty() || out.empty()) return {};
  const std::int64_t outputs = c.elements_of(out[0]);
  const std::int64_t inputs = c.elements_of(in[0]);
  const auto from = c.shape_of(in[0]);
  if (outputs <= 1 || from.empty() || inputs % outputs != 0) return {};
  // The kept dimensions must be the last ones.
  std::int64_t kept = 1;
  for (std::size_t i = from.size(); i-- > 0 && kept < outputs;) kept *= from[i];
  if (kept != outputs || c.shape_of(out[0]).empty() || c.shape_of(out[0]).back() != from.back()) return {};
  const auto found = step::transformers::outer_reduce_scratch(outputs, inputs / outputs, device.multiprocessors);
  return {found.partials, found.semaphores};
}

// An fp32 accumulator of dq and a sum per row; grouped queries also need dk and dv of every head.
struct AttentionBackward {
  std::int64_t accumulator = 0;
  std::int64_t rows = 0;
  std::int64_t expanded = 0;
};

AttentionBackward attention_backward(const Capture& c, const Event& e) {
  const auto in = c.inputs_of(e);
  if (in.size() < 4) return {};
  const auto q = c.shape_of(in[1]);
  const auto k = c.shape_of(in[2]);
  const auto v = c.shape_of(in[3]);
  if (q.size() != 4 || k.size() != 4 || v.size() != 4) return {};
  AttentionBackward need;
  const std::int64_t rows = q[0] * q[1] * q[2];
  need.accumulator = 4 * rows * q[3];
  need.rows = 4 * rows;
  if (k[1] < q[1]) need.expanded = rows * (q[3] + v[3]) * c.width_of(in[1]);
  return need;
}

Bytes cudnn_forward(const Capture&, const Event&, const Device&) { return {kPlanWorkspace}; }

Bytes cudnn_backward(const Capture& c, const Event& e, const Device&) {
  const AttentionBackward need = attention_backward(c, e);
  return {need.accumulator + need.rows + need.expanded + kPlanWorkspace};
}

Bytes flash_backward(const Capture& c, const Event& e, const Device&) {
  const AttentionBackward need = attention_backward(c, e);
  return {need.accumulator, need.rows, need.expanded};
}

// Ids are sorted, equal ones are summed in parts.
Bytes embedding_backward(const Capture& c, const Event& e, const Device&) {
  const auto in = c.inputs_of(e);
  const auto out = c.outputs_of(e);
  if (in.size() < 2 || out.empty() || c.shape_of(out[0]).size() != 2) return {};
  const std::int64_t tokens = c.elements_of(in[1]);
  if (tokens <= kSortFrom) return {};
  const std::int64_t rows = c.shape_of(out[0])[0];
  const std::int64_t hidden = c.shape_of(out[0])[1];
  const std::int64_t segments = std::min(tokens, rows);
  const std::int64_t parts = tokens / kRowsPerPart + segments;
  return {8 * tokens, 8 * tokens, 8 * segments, 8 * segments, 8 * segments, 8 * parts, 4 * parts * hidden};
}

Bytes grouped(const Capture&, const Event&, const Device&) { return {kGroupedScratch}; }

struct Rule {
  std::string_view operation;
  Bytes (*bytes)(const Capture&, const Event&, const Device&);
};

constexpr std::array<Rule, 8> kRules = {{
    {"aten._softmax_backward_data.default", softmax_backward},
    {"aten.sum.dim_IntList", sum},
    {"aten._scaled_dot_product_cudnn_attention.default", cudnn_forward},
    {"aten._scaled_dot_product_cudnn_attention_backward.default", cudnn_backward},
    {"aten._scaled_dot_product_flash_attention_backward.default", flash_backward},
    {"aten.embedding_dense_backward.default", embedding_backward},
    {"aten._grouped_mm.default", grouped},
    {"aten._scaled_grouped_mm.default", grouped},
}};

}  // namespace

std::vector<std::int64_t> scratch_of(const Capture& capture, const Event& operation, const Device& device) {
  const std::string_view name = capture.name_of(operation);
  for (const Rule& rule : kRules)
    if (rule.operation == name) return rule.bytes(capture, operation, device);
  return {};
}

Product product_of(std::string_view operation) {
  if (operation == "aten.addmm.default") return Product::kWithBias;
  for (const std::string_view plain : {"aten.mm.default", "aten.bmm.default", "aten.baddbmm.default"})
    if (operation == plain) return Product::kPlain;
  return Product::kNone;
}

}  // namespace plimsoll::capture

// SPDX-License-Identifier: Apache-2.0
// A Mamba-2 mixer against what mamba_ssm's kernels kept and asked for on an H200 (tests/data/timing/scan-h200.json).
#include <gtest/gtest.h>

#include "base/file.h"
#include "document/node.h"
#include "support.h"

namespace plimsoll::step {
namespace {

using document::Node;

// One GPU, one mixer of the recorded shape behind a hidden size as small as can be, without gathers.
job::Job job_of(const Node& row) {
  job::Job job = test::with_transformer_engine(test::llama_70b());
  job.parallel = {};
  job.cluster.gpus = 1;
  job.batch.micro_batch = row.find("sequences")->integer;
  job.batch.global_batch = job.batch.micro_batch;
  job.batch.seq_length = row.find("tokens")->integer;
  model::Layer& layer = job.model.kinds.front();
  layer = {};
  layer.norms = 1;
  layer.attention.kind = model::AttentionKind::kMamba2;
  model::StateSpace& m = layer.attention.mamba;
  m.heads = row.find("heads")->integer;
  m.head_dim = row.find("head_dim")->integer;
  m.groups = row.find("groups")->integer;
  m.state = row.find("state")->integer;
  m.chunk = row.find("block")->integer;
  m.conv = 4;
  layer.attention.heads = layer.attention.kv_heads = m.heads;
  layer.attention.head_dim = m.head_dim;
  job.model.layers.assign(1, 0);
  job.model.hidden = 512;
  return test::completed(job);
}

std::vector<Node> rows() {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/timing/scan-h200.json";
  return document::parse_json(read_file(path).value()).value().find("cases")->items;
}

TEST(Mixer, keeps_what_was_recorded) {
  ASSERT_EQ(rows().size(), 8U);
  for (const Node& row : rows()) {
    const job::Job job = job_of(row);
    const megatron::LayerSizes z = megatron::layer_sizes(job, job.model.kinds.front(), false);
    // Beside it the layer keeps its input, the norm's output and statistics. The recording began behind the
    // projection: with one sequence that is not copied.
    const std::int64_t around = 2 * z.h + z.stats;
    const std::int64_t projection = z.mixer.transposes ? 0 : z.mixer.projected;
    const auto kept = static_cast<double>(test::kept_by_a_layer(job) - around - projection);
    EXPECT_NEAR(kept / row.find("kept_bytes")->as_real(), 1, 0.001) << document::to_json(row).substr(0, 90);
  }
}

// From the gradient of the normed output to that of the projection.
TEST(Mixer, asks_for_what_was_recorded_at_the_peak_of_its_backward) {
  for (const Node& row : rows()) {
    const job::Job job = job_of(row);
    const megatron::Choices choices = megatron::choices_of(job);
    const megatron::LayerSizes z = megatron::layer_sizes(job, job.model.kinds.front(), false);
    const megatron::Layer layer(choices, z, megatron::OffloadScope::kNone);
    Tape tape;
    const Tensor x = tape.alloc(z.h, Name::kLayerInput);
    megatron::Kept kept;
    (void)layer.forward(tape, x, kept, true);
    const std::int64_t before = tape.live();
    tape.begin_span();
    megatron::ResidualGrad grad;
    layer.backward(tape, kept, grad);
    // The gradient of the normed output came from outside; the normed output and its gradient are gone by the peak.
    const auto peak = static_cast<double>(tape.span_peak() - before + z.mixer.channels);
    EXPECT_NEAR(peak / row.find("backward_peak_bytes")->as_real(), 1, 0.03) << document::to_json(row).substr(0, 90);
  }
}

TEST(Mixer, tensor_parallel_ranks_keep_their_heads) {
  const Node row = rows().front();
  job::Job job = job_of(row);
  const megatron::LayerSizes whole = megatron::layer_sizes(job, job.model.kinds.front(), false);
  job.parallel.tensor = 2;
  const megatron::LayerSizes half = megatron::layer_sizes(job, job.model.kinds.front(), false);
  EXPECT_EQ(2 * half.mixer.projected, whole.mixer.projected);
  EXPECT_EQ(2 * half.mixer.states, whole.mixer.states);
  EXPECT_EQ(2 * half.mixer.products, whole.mixer.products);
}

}  // namespace
}  // namespace plimsoll::step

// SPDX-License-Identifier: Apache-2.0
// Jobs and machines for the tests of timing.
#pragma once

#include "job/job.h"
#include "job/pipeline_layout.h"
#include "model/catalog.h"
#include "timing/step_time.h"

namespace plimsoll::timing::test {

inline job::Job llama_70b(std::int64_t tp = 4, std::int64_t pp = 4, std::int64_t vpp = 5) {
  job::Job job = job::defaults_for(job::Framework::kMegatronBridge);
  job.model = model::find_model("llama3-70b").value();
  job.cluster.gpu = cluster::find_gpu("h100-sxm-80gb").value();
  job.cluster.gpus = 32;
  job.parallel.tensor = tp;
  job.parallel.pipeline = pp;
  job.parallel.virtual_pipeline = vpp;
  job.parallel.overlap_p2p = vpp > 1;
  job.parallel.sequence_parallel = tp > 1;
  job.parallel.tp_comm_overlap = tp > 1;
  job.batch.seq_length = 4096;
  job.batch.global_batch = 32;
  job.precision.params = job.precision.compute = job::DType::kBf16;
  job.precision.fp8 = job::Fp8Recipe::kTensorwise;
  return job;
}

inline StepTime time_of(job::Job job, const Options& options = {}) {
  if (const auto status = job::complete(job); !status) throw std::runtime_error(to_string(status.error()));
  return predict(job, options).value();
}

inline cluster::Cluster cluster_of(const char* gpu, std::int64_t gpus) {
  cluster::Cluster cluster;
  cluster.gpu = cluster::find_gpu(gpu).value();
  cluster.gpus = gpus;
  cluster::use_typical_node(cluster);
  return cluster;
}

}  // namespace plimsoll::timing::test

// SPDX-License-Identifier: Apache-2.0
// Configurations of trainers on JAX (MaxText, Levanter). XLA decides there what is kept and when, which is not
// modelled: the files are known, and say so, instead of being taken for something else.
#include <algorithm>

#include <fmt/format.h>

#include "framework/jax/jax.h"
#include "job/format.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

std::string_view tool_of(const Node& root) {
  for (const std::string_view key :
       {"ici_fsdp_parallelism", "ici_tensor_parallelism", "dcn_data_parallelism", "remat_policy", "base_emb_dim"})
    if (root.has(key)) return "MaxText";
  const Node* trainer = root.find("trainer");
  if (!is_table(trainer)) return {};
  const Node* precision = trainer->find("mp");
  const bool is_policy = precision != nullptr && precision->is_string() && precision->text.starts_with("p=");
  return is_policy || trainer->has("model_axis_size") || trainer->has("fsdp_axis") ? "Levanter" : std::string_view{};
}

// The same question in a framework that is modelled, with what the file says.
std::string question_of(const Node& root) {
  std::string flags;
  std::string model = "MODEL";
  for_each_leaf(root, [&](const std::string& path, const Node& value) {
    const std::string_view last = std::string_view(path).substr(path.rfind('.') + 1);
    const bool names_model = last == "model_name" || last == "initialize_from_hf" || last == "hf_id";
    if (names_model && value.is_string() && value.text.size() < 80) model = value.text;
    const bool is_length = last == "max_target_length" || last == "seq_len" || last == "max_seq_len";
    if (is_length && value.is_integer() && flags.find("--seq-length") == std::string::npos)
      flags += fmt::format(" --seq-length {}", value.integer);
    if (last == "per_device_batch_size" && value.is_number() && value.as_real() >= 1)
      flags += fmt::format(" --micro-batch-size {}", static_cast<std::int64_t>(std::min(value.as_real(), 1e6)));
  });
  return fmt::format("plimsoll fit {} --framework fsdp2{} --gpus N answers for the same sizes under PyTorch", model,
                     flags);
}

}  // namespace

tl::unexpected<Error> not_xla(std::string_view tool, const Node& said) {
  return bad_input(
      fmt::format("read as {}: it runs on JAX, where XLA decides what is kept in memory; that is not modelled", tool),
      question_of(said));
}

bool is_jax_config(const Node& root) { return !tool_of(root).empty(); }

tl::unexpected<Error> refuse_jax_config(const Node& root) { return not_xla(tool_of(root), root); }

std::string_view jax_tool_of_program(std::string_view program) {
  if (program.starts_with("maxtext.") || program.starts_with("MaxText.") || program.find("MaxText/") != program.npos)
    return "MaxText";
  return program.starts_with("levanter.") ? "Levanter" : std::string_view{};
}

}  // namespace plimsoll::job

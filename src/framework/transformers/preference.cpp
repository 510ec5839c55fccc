// SPDX-License-Identifier: Apache-2.0
#include "framework/transformers/preference.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/transformers/teacher.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

constexpr std::int64_t kTrainerBatch = 8;  // per_device_train_batch_size where it is not given

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Node doubled(const Node* batch) {
  if (batch == nullptr) return integer_node(2 * kTrainerBatch);
  const auto number = to_integer(*batch, Range{1, 1 << 24});
  return number ? integer_node(2 * *number) : *batch;
}

// Both answers of a pair are sequences.
void double_batch(Node& root) {
  const Node batch = doubled(root.find("per_device_train_batch_size"));
  std::erase_if(root.members, [](const auto& member) { return member.first == "per_device_train_batch_size"; });
  root.members.emplace_back("per_device_train_batch_size", batch);
  for (auto& [key, value] : root.members)
    if (key == "per_device_eval_batch_size" || key == "global_batch_size") value = doubled(&value);
}

void tell(const Preference& preference, std::string_view what, Draft& draft) {
  if (preference.scores) {
    draft.assign("num_labels", integer_node(1), what);
    draft.notes.push_back(fmt::format(
        "{}: {} is of a reward model: one score for each token in place of the "
        "vocabulary{}",
        draft.path, what, preference.pairs ? "; both answers of a pair are sequences of a micro-batch" : ""));
    return;
  }
  // Log-probabilities of every token make the loss: no chunked cross-entropy here.
  draft.assign("loss", text_node("unfused"), what, true);
  draft.assign("preference_loss", bool_node(true), what);
  if (preference.reference) draft.assign("reference_model", bool_node(true), what);
  // The model's and the reference's passes over mismatched answers, and the reference's over those at hand.
  if (preference.reference && preference.mismatches) draft.assign("reference_passes", integer_node(3), what, true);
  if (preference.chosen) draft.assign("chosen_loss", bool_node(true), what);
  std::string note = fmt::format("{}: {} is preference training", draft.path, what);
  if (preference.pairs) note += "; chosen and rejected answers are two sequences of a micro-batch";
  if (preference.reference)
    note += "; a frozen reference answers beside the model: a copy of it, or itself without its adapters";
  if (preference.chosen) note += "; the chosen answers have a cross-entropy of their own";
  draft.notes.push_back(std::move(note));
}

}  // namespace

Result<std::optional<Preference>> preference_named(std::string_view key, std::string_view word) {
  if (is_one_of(word, {"dpo", "ipo", "dpop", "trl_dpo", "sigmoid"})) return Preference{true, true};
  if (is_one_of(word, {"kto", "trl_kto"})) return Preference{false, true, false, true};
  if (word == "simpo") return Preference{true, false};
  if (is_one_of(word, {"orpo", "cpo", "trl_orpo"})) return Preference{true, false, false, false, true};
  if (is_one_of(word, {"rm", "reward", "reward_model", "trl_reward"})) return Preference{true, false, true};
  PLIMSOLL_TRY_STATUS(refuse_other_training(key, word));
  return std::nullopt;
}

void put_preference(const Preference& preference, Translation& to, Draft& draft) {
  constexpr std::string_view kBatch = "per_device_train_batch_size";
  if (preference.pairs) {
    const Node batch = doubled(to.peek(kBatch));
    to.put(kBatch, batch, to.name_of(kBatch));
  }
  const bool chosen = preference.chosen || to.peek("rpo_alpha") != nullptr;
  for (const std::string_view key : {"beta", "loss_type", "max_prompt_length", "max_completion_length", "rpo_alpha",
                                     "pref_beta", "pref_loss", "desirable_weight", "undesirable_weight"})
    static_cast<void>(to.take(key));
  const bool keeps_no_copy = preference.reference && to.takes_true("precompute_ref_log_probs");
  Preference told = preference;
  told.reference = preference.reference && !keeps_no_copy;
  told.chosen = chosen;
  tell(told, "the training", draft);
}

Status take_trl_preference(Node& root, Draft& draft) {
  const auto has = [&root](std::string_view key) {
    const Node* value = root.find(key);
    return value != nullptr && !value->is_null();
  };
  for (const std::string_view key : {"num_generations", "use_vllm", "reward_funcs", "vllm_mode", "reward_model_path"})
    if (has(key)) return {};  // refused by name
  if (take_teacher(root, draft)) return {};
  const Node* loss = root.find("loss_type");
  const std::string word = loss != nullptr && loss->is_string() ? lower(loss->text) : "";
  const bool is_kto =
      has("desirable_weight") || has("undesirable_weight") || is_one_of(word, {"kto", "bco", "apo_zero_unpaired"});
  const bool is_pairs =
      is_one_of(word, {"sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot",
                       "aot_pair", "discopop", "apo_zero", "apo_down", "simpo", "sigmoid_norm"});
  const bool is_reward = word == "reward" || has("center_rewards_coefficient");
  if (is_reward || word == "prm") {  // AutoModelForSequenceClassification, for every token with two classes
    if (is_reward) double_batch(root);
    std::erase_if(root.members, [](const auto& member) {
      return is_one_of(member.first, {"loss_type", "center_rewards_coefficient", "max_prompt_length"});
    });
    tell(Preference{is_reward, false, true}, "the training", draft);
    return {};
  }
  if (!is_kto && !is_pairs && !has("beta") && !has("precompute_ref_log_probs") && !has("sync_ref_model") &&
      !has("rpo_alpha")) {
    // Of plain training it is where data are cut.
    if (has("max_prompt_length") && !has("max_completion_length"))
      std::erase_if(root.members, [](const auto& member) { return member.first == "max_prompt_length"; });
    return {};
  }
  const Node* precomputed = root.find("precompute_ref_log_probs");
  // SimPO's own program calls its loss sigmoid; its margin gives it away.
  const bool is_simpo = word == "simpo" || has("gamma_beta_ratio") || has("simpo_gamma");
  const bool keeps_no_copy = (precomputed != nullptr && !is_off(*precomputed)) || is_simpo;
  const bool chosen = has("rpo_alpha");
  if (!is_kto) double_batch(root);
  std::erase_if(root.members, [](const auto& member) {
    return is_one_of(member.first, {"beta",
                                    "loss_type",
                                    "max_prompt_length",
                                    "max_completion_length",
                                    "rpo_alpha",
                                    "precompute_ref_log_probs",
                                    "sync_ref_model",
                                    "desirable_weight",
                                    "undesirable_weight",
                                    "label_smoothing",
                                    "ref_model_init_kwargs",
                                    "loss_weights",
                                    "gamma_beta_ratio",
                                    "simpo_gamma",
                                    "ref_model_mixup_alpha",
                                    "ref_model_sync_steps",
                                    "precompute_ref_batch_size",
                                    "ld_alpha",
                                    "f_divergence_type",
                                    "f_alpha_divergence_coef",
                                    "use_weighting",
                                    "discopop_tau"});
  });
  const bool mismatches = is_kto && word != "apo_zero_unpaired";
  tell(Preference{!is_kto, !keeps_no_copy, false, mismatches, chosen}, word.empty() ? "beta" : "loss_type", draft);
  if (word.empty()) draft.notes.back() += " (ORPO and CPO have none: --reference-model false --chosen-loss)";
  return {};
}

}  // namespace plimsoll::job

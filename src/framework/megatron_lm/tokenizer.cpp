// SPDX-License-Identifier: Apache-2.0
#include "framework/megatron_lm/tokenizer.h"

#include <fmt/format.h>

#include "base/text.h"
#include "job/value.h"

namespace plimsoll::job {

namespace {

struct Row {
  std::string_view part;  // of the tokenizer's name or path, in lower case without dashes and points
  std::int64_t size;      // len(tokenizer): the added tokens count
};

// Sizes (vocabulary and added tokens) as remembered, not read again from the tokenizers' files; the note that comes
// with one says how to change it. The more special name first.
constexpr Row kMegatronLmRows[] = {
    {"llama4", 201135},
    {"llama3", 128256},
    {"metallama3", 128256},
    {"llama2", 32000},
    {"qwen3", 151669},
    {"qwen25", 151665},
    {"qwen2", 151646},
    {"qwen15", 151646},
    {"deepseekv3", 128815},
    {"deepseekr1", 128815},
    {"deepseekv2", 100002},
    {"mixtral8x22b", 32768},
    {"mixtral", 32000},
    {"mistral7binstructv03", 32768},
    {"mistralnemo", 131072},
    {"mistral7bv03", 32768},
    {"mistral", 32000},
    {"gemma3", 262145},
    {"gemma2", 256000},
    {"gemma", 256000},
    {"gptneox", 50277},
    {"pythia", 50277},
    {"bloom", 250680},
    {"falcon", 65024},
    {"gptj", 50257},
    {"phi3", 32011},
    {"gpt2", 50257},
    {"codellama", 32016},
    {"openllama", 32000},
    {"llama7b", 32000},
    {"llama13b", 32000},
    {"llama30b", 32000},
    {"llama65b", 32000},
    {"t5small", 32100},
    {"t5base", 32100},
    {"t5large", 32100},
    {"bigsciencetokenizer", 250680},
};

std::string plain(std::string_view name) {
  std::string result;
  for (const char c : lower(name))
    if (c != '-' && c != '.' && c != '_' && c != ' ') result += c;
  return result;
}

const Assignment* find(const Draft& draft, std::string_view key) {
  for (const Assignment& assignment : draft.assignments)
    if (assignment.key == key && assignment.problem.empty()) return &assignment;
  return nullptr;
}

}  // namespace

void take_class_of_vocabulary(std::string_view program, Draft& draft) {
  if (program.find("gpt") != std::string_view::npos || find(draft, "model_class") != nullptr) return;
  const Assignment* type = find(draft, "tokenizer_type");
  const Assignment* file = find(draft, "vocab_file");
  const std::string kind = type == nullptr ? "" : type->value.text;
  const bool has_word_pieces = kind.starts_with("Bert");
  const bool is_list = kind.empty() && file != nullptr && file->value.text.ends_with(".txt");
  if (!has_word_pieces && !is_list) return;
  bool is_t5 = false;
  for (const std::string_view key :
       {"encoder_num_layers", "decoder_num_layers", "decoder_seq_length", "vocab_extra_ids"})
    is_t5 = is_t5 || find(draft, key) != nullptr;
  const char* sign = has_word_pieces ? "tokenizer_type" : "vocab_file";
  draft.assign("model_class", text_node(is_t5 ? "t5" : "bert"), sign);
  if (is_list) draft.assign("tokenizer_type", text_node("BertWordPieceLowerCase"), sign, true);
  draft.notes.push_back(fmt::format("{}: word pieces are BERT's and T5's: read as {} (--model-class changes that)",
                                    sign, is_t5 ? "T5" : "BERT"));
}

void take_vocabulary_of_tokenizer(const std::string& name, Draft& draft) {
  for (const Assignment& given : draft.assignments)
    if (given.key == "vocab_size" || given.key == "padded_vocab_size") return;
  // Padding up to a given size: the rows are those, whatever the tokenizer has.
  if (const Assignment* padded = find(draft, "pad_vocab_size_to"); padded != nullptr) {
    draft.assign("vocab_size", padded->value, "--pad-vocab-size-to", true);
    return;
  }
  const Assignment* type = find(draft, "tokenizer_type");
  const std::string kind = type == nullptr ? "" : type->value.text;
  std::int64_t size = 0;
  std::string from = kind;
  if (kind == "GPT2BPETokenizer") size = 50257;
  if (kind == "Llama3Tokenizer") size = 128256;
  if (kind == "Llama2Tokenizer") size = 32000;
  // The published vocabularies of BERT and the two tokens that Megatron adds to them.
  if (kind == "BertWordPieceLowerCase") size = 30522 + 2;
  if (kind == "BertWordPieceCase") size = 28996 + 2;
  if (size == 0 && kind != "NullTokenizer") {
    // The folder and the file: ".../Llama-2-7b/tokenizer.model".
    const std::size_t last = name.rfind('/');
    const std::size_t start = last == std::string::npos || last == 0 ? 0 : name.rfind('/', last - 1) + 1;
    const std::string spelled = plain(std::string_view(name).substr(start));
    for (const Row& row : kMegatronLmRows)
      if (spelled.find(row.part) != std::string::npos) {
        size = row.size;
        from = name;
        break;
      }
  }
  if (size == 0) return;
  draft.assign("vocab_size", integer_node(size), "the tokenizer", true);
  draft.notes.push_back(fmt::format("vocab_size: {} rows, as {} has them (--vocab-size changes that)", size, from));
}

}  // namespace plimsoll::job

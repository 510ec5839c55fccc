// SPDX-License-Identifier: Apache-2.0
// Frameworks are named in src/framework and nowhere else: what they do is asked of their tables (job/framework.h,
// job/format.h, emit/targets.h, why/speaker.h). The names are those of framework/list.h, so that a new row is held to
// it at once. Texts for users and comments may name whom they like.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

fs::path source_folder() { return fs::path(PLIMSOLL_SOURCE_DIR) / "src"; }

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Names {
  std::set<std::string> ids;       // kMegatronLm, kAxolotl: enumerators of Framework, Target and FileKind
  std::set<std::string> stems;     // megatron_lm: parts of identifiers
  std::set<std::string> literals;  // "megatron-lm": what is compared with names that users write
};

Names names_of_list() {
  const std::regex row(R"re(ROW\((k\w+), (\w+)(?:, \w+)?\))re");
  const std::set<std::string> ours = {"kJob", "kSafetensorsIndex", "kLaunchScript", "kByNames"};
  const std::string text = read_text(source_folder() / "framework/list.h");
  Names names;
  for (std::sregex_iterator it(text.begin(), text.end(), row), end; it != end; ++it) {
    const std::string stem = (*it)[2];
    if (ours.contains((*it)[1])) continue;
    names.ids.insert((*it)[1]);
    if (stem.starts_with("read_") || stem.starts_with("k")) continue;  // of a file, not of a framework
    names.stems.insert(stem);
    std::string literal = stem;
    std::replace(literal.begin(), literal.end(), '_', '-');
    names.literals.insert(literal);
  }
  // Also what job files and keys call that sharding.
  names.literals.erase("fsdp2");
  names.stems.erase("fsdp2");
  return names;
}

// What may name one all the same. Every entry must be needed.
struct Exception {
  std::string file;   // the start of the path, relative to src/
  std::string token;  // the start of the identifier or literal; empty: any
  std::string reason;
};
const std::vector<Exception>& exceptions() {
  static const std::vector<Exception> kExceptions = {
      {"", "step::transformers", "mechanism: the launches and tensors of Transformers' modules, priced elsewhere"},
      {"step/", "", "mechanisms: whose modules a rank runs, and how"},
      {"", "Implementation::", "mechanism: whose modules run"},
      {"", "LossKind::", "mechanism: whose loss runs"},
      {"", "FsdpUnits::", "mechanism: what is gathered at once"},
      {"", "ShardingKind::", "mechanism: who holds which part"},
      {"job/knobs.", "", "the names of those mechanisms"},
      {"job/readers/launch.cpp", "\"deepspeed\"", "a launcher, like torchrun, of any framework's program"},
      {"job/common_words.cpp", "\"deepspeed\"", "a word in keys: a table or file of that engine"},
      {"job/unknown.cpp", "\"", "words in keys that speak of a server, not of the training"},
      {"live/proof", "", "versions of libraries that a proof ran with, and the names of its programs"},
      {"inference/", "", "servers, which have a table of their own (inference/names.cpp)"},
      {"rl/", "",
       "frameworks of post-training have a folder of their own (rl/frameworks), and trainers of their choice"},
      {"truth/", "", "a record is of one framework, whose job its reader makes"},
      {"model/", "lightning", "MiniMax's own name of its attention"},
      {"", "AttentionKind::kLightning", "the same"},
      {"memory/", "model::AttentionKind::kLightning", "the same"},
      {"why/pace_line.cpp", "", "lines of logs: steps as each prints them"},
      {"why/phase.", "", "lines of logs: frames of a stack"},
      {"why/frame_details.cpp", "", "lines of logs: frames of a stack"},
      {"why/collector_facts.cpp", "\"torchtitan\"", "lines of logs: commands"},
  };
  return kExceptions;
}

// Identifiers, qualified names and literals outside comments and #include lines.
std::vector<std::string> tokens_of(const std::string& text) {
  static const std::regex kToken(
      R"re(//[^\n]*|#\s*include[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)re");
  std::vector<std::string> tokens;
  for (std::sregex_iterator it(text.begin(), text.end(), kToken), end; it != end; ++it) {
    std::string token = it->str();
    if (token.starts_with("//") || token.starts_with("#") || token.starts_with("'")) continue;
    if (token.starts_with("job::")) token.erase(0, 5);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// megatron_lm in write_megatron_lm, not in megatron_lmx.
bool has_part(const std::string& token, const std::string& stem) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = token.find(stem); at != std::string::npos; at = token.find(stem, at + 1)) {
    const std::size_t end = at + stem.size();
    if ((at == 0 || !is_letter(token[at - 1])) && (end == token.size() || !is_letter(token[end]))) return true;
  }
  return false;
}

bool names_one(const std::string& token, const Names& names) {
  if (token.front() == '"') return names.literals.contains(token.substr(1, token.size() - 2));
  const std::size_t colons = token.rfind("::");
  if (colons != std::string::npos && names.ids.contains(token.substr(colons + 2))) return true;
  return std::any_of(names.stems.begin(), names.stems.end(),
                     [&token](const std::string& stem) { return has_part(token, stem); });
}

bool is_excepted(const std::string& file, const std::string& token, std::set<std::string>& used) {
  for (const Exception& exception : exceptions())
    if (file.starts_with(exception.file) && token.starts_with(exception.token)) {
      used.insert(exception.file + "|" + exception.token);
      return true;
    }
  return false;
}

TEST(Frameworks, are_named_in_their_folder_alone) {
  const Names names = names_of_list();
  ASSERT_TRUE(names.stems.contains("megatron_lm") && names.ids.contains("kAxolotl"));
  std::set<std::string> used;

  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source_folder())) {
    const std::string file = fs::relative(entry.path(), source_folder()).string();
    if (!entry.is_regular_file() || file.starts_with("framework/") || file == "CMakeLists.txt") continue;
    for (const std::string& token : tokens_of(read_text(entry.path())))
      if (names_one(token, names) && !is_excepted(file, token, used))
        ADD_FAILURE() << file << " names a framework: " << token << "; ask its table (job/framework.h) instead";
  }

  for (const Exception& exception : exceptions())
    EXPECT_TRUE(used.contains(exception.file + "|" + exception.token))
        << "nothing needs the exception for " << exception.file << " " << exception.token;
}

TEST(Frameworks, the_list_includes_nothing) {
  EXPECT_EQ(read_text(source_folder() / "framework/list.h").find("#include"), std::string::npos);
}

TEST(Frameworks, a_name_is_found_in_code_and_not_in_words) {
  const Names names = names_of_list();
  const auto found = [&names](const std::string& code) {
    const std::vector<std::string> tokens = tokens_of(code);
    return std::count_if(tokens.begin(), tokens.end(), [&](const auto& token) { return names_one(token, names); });
  };

  EXPECT_EQ(found("if (job.framework == job::Framework::kTorchtitan) {"), 1);
  EXPECT_EQ(found("return emit::Target::kFsdp2;"), 1);
  EXPECT_EQ(found("write_megatron_lm(order)"), 1);
  EXPECT_EQ(found("if (name == \"deepspeed\") axolotl();"), 2);
  EXPECT_EQ(found("// torchtitan has no such key"), 0);
  EXPECT_EQ(found("return bad_input(\"torchtitan has no such key\");"), 0);
  EXPECT_EQ(found("job.is_megatron()"), 0) << "Megatron-Core is the mechanism of two frameworks";
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Files -> request: every file is recognised and becomes a draft.
#include "job/read.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "document/repeated_keys.h"
#include "job/format.h"
#include "job/readers/resolve.h"
#include "job/request.h"

namespace plimsoll::job {

namespace {

Result<Draft> read_one(const InputFile& file, FileKind kind, std::string_view index, const ReadOptions& options) {
  if (kind == FileKind::kJob) return read_job_file(file);
  if (kind == FileKind::kHfConfig) return read_hf_model(file, index);
  if (kind == FileKind::kSafetensorsIndex)
    return bad_input("this is the index of a checkpoint; it needs the model's config.json beside it",
                     "give config.json instead; the index beside it is read with it");
  for (const Format& format : formats())
    if (format.kind == kind) return format.read(file, options);
  return bad_input("unknown kind of file");
}

// Scripts, logs and Python have lines that look like keys.
bool is_program(FileKind kind) {
  if (kind == FileKind::kLaunchScript || is_log(kind)) return true;
  return std::any_of(text_signs().begin(), text_signs().end(), [kind](const TextSign& sign) {
    return sign.kind == kind && sign.strength == TextStrength::kText;
  });
}

// The frameworks' own loaders take the last of them without a word.
void note_repeated_keys(const InputFile& file, FileKind kind, Draft& draft) {
  const std::string_view start = trim(file.text);
  if (is_program(kind) || start.starts_with("PK") || start.starts_with("{") || start.starts_with("[")) return;
  for (const document::RepeatedKey& repeated : document::repeated_yaml_keys(file.text))
    draft.warnings.push_back(fmt::format("{}: '{}' is given twice; the value in line {} counts, as for the framework",
                                         file.path, repeated.key, repeated.line));
}

}  // namespace

Result<Draft> read_any(const InputFile& file, const ReadOptions& options) {
  PLIMSOLL_TRY(kind, recognise(file));
  return read_one(file, kind, {}, options);
}

Result<Request> read_request(std::vector<InputFile> files, const ReadOptions& options) {
  std::vector<FileKind> kinds;
  std::string_view index;
  for (const InputFile& file : files) {
    auto kind = recognise(file);
    if (!kind) return tl::make_unexpected(std::move(kind.error()).with_context(file.path));
    kinds.push_back(*kind);
    if (*kind == FileKind::kSafetensorsIndex) index = file.text;
  }
  const bool has_config = std::find(kinds.begin(), kinds.end(), FileKind::kHfConfig) != kinds.end();
  std::vector<Draft> drafts;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const InputFile& file = files[i];
    if (kinds[i] == FileKind::kSafetensorsIndex && has_config) continue;  // read with the config
    auto draft = read_one(file, kinds[i], index, options);
    if (!draft) return tl::make_unexpected(std::move(draft.error()).with_context(file.path));
    draft->path = file.path;
    note_repeated_keys(file, kinds[i], *draft);
    drafts.push_back(*std::move(draft));
  }
  Request request;
  request.files_ = std::make_shared<const std::vector<InputFile>>(std::move(files));
  request.drafts_ = std::make_shared<const std::vector<Draft>>(std::move(drafts));
  request.options_ = options;
  if (!options.model.empty()) {
    request.name_model(options.model);
    if (!*request.named_model()) return tl::make_unexpected(request.named_model()->error());
  }
  return request;
}

Result<Job> read_job(const std::vector<InputFile>& files, const ReadOptions& options) {
  PLIMSOLL_TRY(request, read_request(files, options));
  return resolve(request);
}

}  // namespace plimsoll::job

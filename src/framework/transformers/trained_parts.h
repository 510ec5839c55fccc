// SPDX-License-Identifier: Apache-2.0
// Which parts of a vision-language model a program of the Trainer trains: the tower for images, the projector behind
// it, the language model. LLaVA's programs and their relatives name a tower beside a language model.
#pragma once

#include "framework/tools/dialect_rows.h"

namespace plimsoll::job {

// Takes the words for the tower and for what is trained, and puts vision_tower, mm_projector_type, image_tiles and the
// three freeze_ keys.
[[nodiscard]] Status read_trained_parts(const document::Node& root, Translation& to, Draft& draft);

// spectrum_config_path: a file of Spectrum, whose list names the parameters that are trained.
[[nodiscard]] Status take_spectrum_file(document::Node& root, Draft& draft);

}  // namespace plimsoll::job

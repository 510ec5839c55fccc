// SPDX-License-Identifier: Apache-2.0
// The writer of JSON under the names that the verbs use.
#pragma once

#include "document/json_writer.h"

namespace plimsoll::cli {

using document::json_quoted;
using document::JsonWriter;
using document::Layout;

}  // namespace plimsoll::cli

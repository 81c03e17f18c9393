// The comparison as JSON; the schema is docs/json-output.md.
#pragma once

#include <filesystem>
#include <string>

#include "assay/compare/comparison.h"

namespace assay {

// Always valid JSON: what is not finite is "nan", "inf" or "-inf", names are
// valid UTF-8 (see append_utf8). Replaces `path` only when complete. Rows are
// formatted in parallel. Throws Error.
void write_json(const Comparison& comparison,
                const std::filesystem::path& path);

// The same document in memory.
std::string json_text(const Comparison& comparison);

}  // namespace assay

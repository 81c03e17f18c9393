// Which of the JSON files of this field a text is, by its keys.
#pragma once

#include "assay/formats/file_bytes.h"

namespace assay {

enum class JsonKind {
  kNone,              // no JSON
  kOther,             // JSON of no known kind, or malformed
  kPolygraphy,        // RunResults, input lists, a bare array
  kSafetensorsIndex,  // "weight_map"
  kMsprobeDump,       // dump.json, debug.json
};

// Reads top-level keys until one decides. Never throws on content.
JsonKind classify_json(const FileBytes& file);

}  // namespace assay

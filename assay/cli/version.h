// The version, as CMake's project() states it.
#pragma once

namespace assay {
extern const char* const kVersion;
}  // namespace assay

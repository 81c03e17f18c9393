#include "assay/cli/version.h"

namespace assay {
const char* const kVersion = ASSAY_VERSION;
}  // namespace assay

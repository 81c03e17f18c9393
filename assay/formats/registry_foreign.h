// Files we know but do not read: what they are and what to do instead.
#pragma once

#include <string>

#include "assay/formats/file_bytes.h"

namespace assay {

// "an HDF5 file: ...", to follow "FILE: ". Empty when nothing is recognised.
std::string foreign_advice(const FileBytes& file);

}  // namespace assay

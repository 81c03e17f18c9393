// Reader for numpy's .npz files: a zip archive of .npy members.
#pragma once

#include <memory>

#include "assay/formats/file_bytes.h"
#include "assay/formats/tensor_source.h"
#include "assay/formats/zip_archive.h"

namespace assay {

// One tensor per member, in archive order, named as the member without
// ".npy"; a member that is no .npy is listed as unsupported. Stored members
// are zero-copy where their data is aligned. load() verifies size and CRC-32.
// Void dtypes as in open_npy. Throws Error{kRefused} as ZipArchive and
// open_npy do, and for two members that give the same name.
std::unique_ptr<TensorSource> open_npz(ZipArchive archive,
                                       const ReadOptions& options);
inline std::unique_ptr<TensorSource> open_npz(FileBytes file,
                                              const ReadOptions& options) {
  return open_npz(ZipArchive(std::move(file)), options);
}

}  // namespace assay

// Reader for torch.save files (.pt, .pth) that executes nothing in them.
#pragma once

#include <memory>
#include <utility>

#include "assay/formats/file_bytes.h"
#include "assay/formats/tensor_source.h"
#include "assay/formats/zip_archive.h"

namespace assay {

// True for a zip archive with a `<folder>/data.pkl`, as torch.save (1.6 and
// later) and TorchScript write.
bool is_torch_archive(const ZipArchive& archive);

// True for torch.save before 1.6 (a pickle stream that starts with torch's
// magic number, or a tar of pickles). open_torch refuses it with advice.
bool is_legacy_torch(std::span<const std::byte> bytes);

// Every tensor and number of the saved object; naming, and what becomes of
// other values, as walk_torch_pickle says. Tensors are views of the file:
// offsets and strides stay, expanded and shared storages too; copied only
// where the archive is big-endian or a storage is not aligned to its
// element. Only data.pkl is checked against its CRC-32 (where there is one:
// torch lets writers leave it out); doing so for storages would read every
// byte twice. float4_e2m1fn_x2 is read as e2m1 with the last dimension
// doubled. Throws Error{kRefused}, with advice for TorchScript archives and
// files of torch before 1.6; a global outside the list is named ("global not
// allowed: posix.system").
std::unique_ptr<TensorSource> open_torch(ZipArchive archive,
                                         const ReadOptions& options);
std::unique_ptr<TensorSource> open_torch(FileBytes file,
                                         const ReadOptions& options);

}  // namespace assay

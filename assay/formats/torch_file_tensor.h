// From a `_rebuild_tensor` call in a torch pickle to checked bytes of a
// storage member.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "assay/core/tensor.h"
#include "assay/formats/pickle.h"
#include "assay/formats/torch_file_globals.h"
#include "assay/formats/zip_archive.h"

namespace assay {

// One tensor of the file, checked: `part` reaches from its first element to
// its last. Or `unsupported` says why it has no bytes of ours.
struct TorchTensor {
  DType dtype = DType::kF32;
  Shape shape;    // float4_e2m1fn_x2: last dimension counts codes, not pairs
  Shape strides;  // empty where contiguous; x2: in pairs
  bool pairs = false;  // float4_e2m1fn_x2
  std::span<const std::byte> part;
  std::string unsupported;
};

// What all tensors of one archive share.
struct TorchArchive {
  const ZipArchive* zip = nullptr;
  const Pickle* pickle = nullptr;
  std::string folder;               // "archive/"
  std::uint64_t pickle_offset = 0;  // of data.pkl's bytes, for errors
};

// `function` is the callable, `arguments` its tuple. Throws Error{kRefused}
// for arguments of the wrong kind or number, a storage that is absent,
// compressed or shorter than the pickle says, negative sizes or strides, a
// view that leaves its storage, products that overflow, and an expanded view
// over max(64 MiB, 16 times its storage).
TorchTensor read_torch_tensor(const TorchArchive& archive,
                              const PickleValue& function,
                              const PickleValue& arguments);

}  // namespace assay

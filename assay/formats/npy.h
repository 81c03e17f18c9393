// Reader for numpy's .npy files.
#pragma once

#include <memory>

#include "assay/formats/file_bytes.h"
#include "assay/formats/npy_header.h"
#include "assay/formats/tensor_source.h"

namespace assay {

// One tensor named "". Versions 1.0 to 3.0, C and Fortran order (the latter as
// strides), both byte orders, every dtype of ours; void dtypes (bf16 and fp8
// saved through ml_dtypes) when options.dtype says what they are, else the
// tensor is listed as unsupported. Bytes after the array are refused: a second
// array appended to the file would otherwise go uncompared. Throws
// Error{kRefused}.
std::unique_ptr<TensorSource> open_npy(FileBytes file,
                                       const ReadOptions& options);
inline std::unique_ptr<TensorSource> open_npy(
    std::shared_ptr<const MappedFile> file, const ReadOptions& options) {
  return open_npy(FileBytes::of(std::move(file)), options);
}

// What a header describes, checked against `size`, the bytes from the start of
// the .npy to its end; and how to make the tensor once they are there. Shared
// with .npz.
class NpyLayout {
 public:
  // Throws Error{kRefused} naming `file`, offsets relative to `base`.
  NpyLayout(NpyHeader header, std::uint64_t size, const ReadOptions& options,
            std::string_view file, std::uint64_t base);
  TensorInfo info(std::string name) const;
  // `bytes` is the whole .npy, of the size given above. Throws
  // Error{kUnsupported} when info().unsupported is set.
  Tensor tensor(std::span<const std::byte> bytes,
                const std::shared_ptr<const void>& owner,
                std::string_view file) const;

 private:
  void resolve_void(const ReadOptions& options, std::string_view file,
                    std::uint64_t base);
  NpyHeader header_;
};

}  // namespace assay

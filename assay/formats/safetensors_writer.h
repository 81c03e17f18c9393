// Writer for .safetensors, streaming: the header first, then tensor by tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "assay/base/atomic_file.h"
#include "assay/core/tensor.h"
#include "assay/formats/tensor_source.h"

namespace assay {

// The header needs every shape before the first byte of data, so the infos
// come first. The file appears at commit(), complete, or not at all. The order
// in the file is the order given; `metadata` becomes "__metadata__". The
// header is padded with spaces so that data starts on a multiple of 8. Holds
// one block of a strided tensor at a time. Not thread-safe.
class SafetensorsWriter {
 public:
  // Throws Error{kUsage} on a name used twice, not UTF-8 or reserved, an odd
  // number of e2m1 elements (the format wants whole bytes), a dtype the format
  // lacks (complex128), or an info that is marked unsupported.
  SafetensorsWriter(std::filesystem::path path, std::vector<TensorInfo> infos,
                    const std::map<std::string, std::string>& metadata = {});

  // The next tensor in order: dtype and shape as announced, any strides.
  // Throws Error{kUsage} when they differ or all are written already.
  void write(const TensorView& tensor);

  // Throws Error{kUsage} when tensors are missing.
  void commit();

 private:
  AtomicFile file_;
  std::vector<TensorInfo> infos_;
  std::size_t next_ = 0;
};

// The header for `infos` at consecutive offsets, with its length and padding.
// Throws as the constructor of SafetensorsWriter.
std::string safetensors_header(
    const std::vector<TensorInfo>& infos,
    const std::map<std::string, std::string>& metadata = {});

}  // namespace assay

// Flattens the value graph of a torch pickle into named tensors and scalars.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "assay/formats/torch_file_tensor.h"

namespace assay {

struct TorchLeaf {
  std::string name;
  TorchTensor tensor;
  bool is_scalar = false;  // a Python number: 0-d, its bytes in `scalar`
  std::array<std::byte, 16> scalar{};
  bool is_text = false;  // a string: uint8, its UTF-8 bytes in `text`
  std::string text;
};

struct TorchLeaves {
  std::vector<TorchLeaf> leaves;
  std::vector<std::string> notes;
};

// Depth first, in the order of the file. Names join dict keys and list
// positions by '.'; the only tensor of a file is "". Python int, float, bool
// and complex become 0-d int64, float64, bool and complex128; strings become
// uint8 of their bytes, so that a differing setting is a differing value. None,
// bytes, dtypes and devices: inside containers they are counted in `notes`, as
// the whole file (a string too) they are one unsupported leaf. A bare
// storage and an integer beyond 64 bits are unsupported leaves wherever they
// are. Throws Error{kRefused} as read_torch_tensor does, and for nesting
// deeper than 64, a key that is no string, number, bool, None or tuple of
// them, two leaves of one name, and a graph whose shared parts expand to more
// leaves than the file's bytes justify.
TorchLeaves walk_torch_pickle(const TorchArchive& archive);

}  // namespace assay

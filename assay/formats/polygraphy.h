// Reader for the JSON files of NVIDIA Polygraphy: saved outputs (RunResults)
// and saved inputs (a list of {name: array}).
#pragma once

#include <memory>

#include "assay/formats/file_bytes.h"
#include "assay/formats/tensor_source.h"

namespace assay {

// Names: "runner/iteration/output" for RunResults, "iteration/name" for input
// lists, "name" for one {name: array}, "" for a bare array. Arrays are base64
// of a .npy (or, in old files, the bytes as latin-1 text or a one-array .npz);
// torch tensors base64 of torch.save, read as .pt without executing anything.
// Arrays are decoded once to check them and again by load(); one at a time is
// in memory. Values that are no array are listed as unsupported. Throws
// Error{kRefused} on malformed JSON, a name used twice, or a payload that its
// reader refuses.
std::unique_ptr<TensorSource> open_polygraphy(FileBytes file,
                                              const ReadOptions& options);

}  // namespace assay

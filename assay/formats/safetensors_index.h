// Reader for a sharded checkpoint: `*.safetensors.index.json` names the shard
// of each tensor.
#pragma once

#include <memory>

#include "assay/formats/file_bytes.h"
#include "assay/formats/tensor_source.h"

namespace assay {

// One source over all shards, which lie beside the index. A shard name with a
// separator or "..", a link, a listed tensor that its shard lacks, or one name
// in two shards is Error{kRefused}. Tensors of a shard that the index does not
// list are kept and noted.
std::unique_ptr<TensorSource> open_safetensors_index(FileBytes file);

}  // namespace assay

// RotaryPositionEmbedding: the angles of RoPE for the positions of a sequence,
// TransformerEngine's module of that name.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "assay/te/modules/module.h"
#include "assay/te/ops/rope.h"

namespace assay::te {

// Names and defaults are NVTE's.
struct RotaryPositionEmbeddingOptions {
  double rotary_percent = 1.0;
  std::optional<double> seq_len_interpolation_factor = std::nullopt;
  std::optional<double> pretrained_max_position_embeddings = std::nullopt;
  double rotary_base = 10000.0;
  bool interleaved = false;
  Device device = Device::kCpu;
  std::string name = {};
};

class RotaryPositionEmbedding : public Module {
 public:
  // `dim`: channels of a head.
  explicit RotaryPositionEmbedding(
      std::int64_t dim, const RotaryPositionEmbeddingOptions& options = {});

  // float32 [max_seq_len, 1, 1, int(dim * rotary_percent)] for positions from
  // `offset` on: rope_frequencies(). The last table is kept, and given again.
  Tensor forward(std::int64_t max_seq_len, std::int64_t offset = 0);

 private:
  RopeFrequencies frequencies_;
  Device device_;
  std::int64_t length_ = -1, offset_ = 0;  // of the table
  Tensor table_;
};

}  // namespace assay::te

#include "assay/te/modules/rotary.h"

#include <string>

#include "assay/te/check.h"

namespace assay::te {

RotaryPositionEmbedding::RotaryPositionEmbedding(
    std::int64_t dim, const RotaryPositionEmbeddingOptions& options)
    : Module("RotaryPositionEmbedding", options.name),
      frequencies_{dim,
                   options.rotary_percent,
                   options.rotary_base,
                   options.seq_len_interpolation_factor,
                   options.pretrained_max_position_embeddings,
                   options.interleaved},
      device_(options.device) {
  require(dim > 0, name(), "dim", std::to_string(dim), "a positive size");
  rope_frequencies(frequencies_, 0);  // checks the rest
}

Tensor RotaryPositionEmbedding::forward(std::int64_t max_seq_len,
                                        std::int64_t offset) {
  require(max_seq_len >= 0, name(), "max_seq_len", std::to_string(max_seq_len),
          "0 or more");
  if (length_ != max_seq_len || offset_ != offset) {
    table_ = rope_frequencies(frequencies_, max_seq_len, offset);
    table_.device = device_;
    length_ = max_seq_len;
    offset_ = offset;
  }
  return table_;
}

}  // namespace assay::te

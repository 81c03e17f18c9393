// A quantiser of its own for each direction.
#pragma once

#include <memory>

#include "assay/te/quantize/quantizer.h"

namespace assay::te {

// What the columnwise data are made of.
enum class ColumnwiseSource : std::uint8_t {
  kOriginal,           // the tensor
  kRowwiseDequantized  // the decoded rowwise data, in the tensor's dtype
};

// Rowwise data of one quantiser, columnwise data of another (NVTE's
// HybridQuantizer): the forward pass in one format, the gradient in another.
// Usages of the two quantisers are set by this one. mode() and format() are
// those of the rowwise quantiser. As thread-safe as both are.
class HybridQuantizer : public Quantizer {
 public:
  // Throws Error{kUsage} where one of them is null.
  HybridQuantizer(std::unique_ptr<Quantizer> rowwise,
                  std::unique_ptr<Quantizer> columnwise,
                  ColumnwiseSource source = ColumnwiseSource::kOriginal);

  QuantizedTensor quantize(const Tensor& x) override;
  QuantizedTensor quantize_fused(const Tensor& x_f32, DType dtype) override;
  ScalingMode mode() const override { return rowwise_->mode(); }
  DType format() const override { return rowwise_->format(); }
  std::unique_ptr<Quantizer> clone() const override;

  Quantizer& rowwise() { return *rowwise_; }
  Quantizer& columnwise() { return *columnwise_; }
  const Quantizer& rowwise() const { return *rowwise_; }
  const Quantizer& columnwise() const { return *columnwise_; }

 private:
  template <typename Quantize>
  QuantizedTensor both(Quantize quantize);

  std::unique_ptr<Quantizer> rowwise_, columnwise_;
  ColumnwiseSource source_;
};

}  // namespace assay::te

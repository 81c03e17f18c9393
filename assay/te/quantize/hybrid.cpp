#include "assay/te/quantize/hybrid.h"

#include <utility>

#include "assay/te/check.h"

namespace assay::te {

HybridQuantizer::HybridQuantizer(std::unique_ptr<Quantizer> rowwise,
                                 std::unique_ptr<Quantizer> columnwise,
                                 ColumnwiseSource source)
    : rowwise_(std::move(rowwise)),
      columnwise_(std::move(columnwise)),
      source_(source) {
  const auto present = [](const auto& quantizer, const char* name) {
    require(quantizer != nullptr, "HybridQuantizer", name, "null",
            "a quantiser");
  };
  present(rowwise_, "rowwise_quantizer");
  present(columnwise_, "columnwise_quantizer");
  rowwise_->set_usage({true, false});
  columnwise_->set_usage({false, true});
}

// quantize(q) is the tensor quantised by q.
template <typename Quantize>
QuantizedTensor HybridQuantizer::both(Quantize quantize) {
  const bool decoded = source_ == ColumnwiseSource::kRowwiseDequantized;
  QuantizedTensor out, columns;
  if (usage().rowwise || decoded || !usage().columnwise)
    out = quantize(*rowwise_);
  if (usage().columnwise)
    columns = decoded ? columnwise_->quantize(dequantize(out, out.dtype))
                      : quantize(*columnwise_);
  if (!usage().rowwise) out.rowwise.reset();
  if (!usage().columnwise) return out;
  columns.rowwise = std::move(out.rowwise);
  return columns;
}

QuantizedTensor HybridQuantizer::quantize(const Tensor& x) {
  return both([&](Quantizer& q) { return q.quantize(x); });
}

QuantizedTensor HybridQuantizer::quantize_fused(const Tensor& x_f32,
                                                DType dtype) {
  return both([&](Quantizer& q) { return q.quantize_fused(x_f32, dtype); });
}

std::unique_ptr<Quantizer> HybridQuantizer::clone() const {
  auto copy = std::make_unique<HybridQuantizer>(rowwise_->clone(),
                                                columnwise_->clone(), source_);
  copy->set_usage(usage());
  return copy;
}

}  // namespace assay::te

#include "assay/te/modules/random_offsets.h"

#include <vector>

#include "assay/te/check.h"
#include "assay/te/quantize/hybrid.h"
#include "assay/te/quantize/nvfp4.h"

namespace assay::te {
namespace {

void add_drawing(Quantizer* quantizer, std::vector<NVFP4Quantizer*>& out) {
  if (auto* both = dynamic_cast<HybridQuantizer*>(quantizer)) {
    add_drawing(&both->rowwise(), out);
    add_drawing(&both->columnwise(), out);
  }
  auto* fp4 = dynamic_cast<NVFP4Quantizer*>(quantizer);
  if (fp4 && fp4->options().stochastic_rounding) out.push_back(fp4);
}

std::vector<NVFP4Quantizer*> drawing(const RecipeState& state) {
  std::vector<NVFP4Quantizer*> out;
  for (const auto& quantizer : state.quantizers)
    add_drawing(quantizer.get(), out);
  return out;
}

}  // namespace

std::optional<Tensor> random_offsets(const RecipeState& state) {
  const std::vector<NVFP4Quantizer*> all = drawing(state);
  if (all.empty()) return std::nullopt;
  Tensor offsets =
      Tensor::empty(DType::kI64, {static_cast<std::int64_t>(all.size())});
  for (std::size_t i = 0; i < all.size(); ++i)
    offsets.mutable_data<std::int64_t>()[i] =
        static_cast<std::int64_t>(all[i]->random_offset());
  return offsets;
}

void check_random_offsets(const RecipeState& state, std::string_view module,
                          const std::optional<NamedTensor>& offsets) {
  if (!offsets) return;
  require_dtype(module, offsets->name, offsets->tensor, {DType::kI64});
  const auto count = static_cast<std::int64_t>(drawing(state).size());
  if (count > 0) require_shape(module, offsets->name, offsets->tensor, {count});
}

void set_random_offsets(RecipeState& state,
                        const std::optional<NamedTensor>& offsets) {
  if (!offsets) return;
  const Tensor values = contiguous(offsets->tensor);
  const std::vector<NVFP4Quantizer*> all = drawing(state);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i]->set_random_offset(
        static_cast<std::uint64_t>(values.data<std::int64_t>()[i]));
}

}  // namespace assay::te

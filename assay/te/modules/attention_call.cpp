#include "assay/te/modules/attention_call.h"

#include <limits>
#include <string>

#include "assay/te/check.h"

namespace assay::te {

Tensor cu_seqlens_of_padding(const Tensor& mask, std::string_view module) {
  constexpr auto kArgument = "attention_mask";
  require_dtype(module, kArgument, mask, {DType::kBool, DType::kU8});
  require_rank(module, kArgument, mask, 4);
  const Shape& s = mask.shape();
  require(s[1] == 1 && s[2] == 1, module, kArgument, "shape " + to_string(s),
          "[batch, 1, 1, sequence] with a padding mask");
  const Tensor dense = contiguous(mask);
  const auto* excluded = dense.data<std::uint8_t>();
  Tensor offsets = Tensor::zeros(DType::kI32, {s[0] + 1}, mask.device);
  auto* to = offsets.mutable_data<std::int32_t>();
  std::int64_t total = 0;
  for (std::int64_t b = 0; b < s[0]; ++b) {
    const std::uint8_t* row = excluded + b * s[3];
    std::int64_t valid = 0;
    while (valid < s[3] && !row[valid]) ++valid;
    for (std::int64_t i = valid; i < s[3]; ++i)
      require(row[i] != 0, module, kArgument,
              "token " + std::to_string(i) + " of sequence " +
                  std::to_string(b) + " valid behind excluded ones",
              "valid tokens first");
    total += valid;
    require(total <= std::numeric_limits<std::int32_t>::max(), module,
            kArgument, std::to_string(total) + " tokens", "fewer than 2^31");
    to[b + 1] = static_cast<std::int32_t>(total);
  }
  return offsets;
}

}  // namespace assay::te

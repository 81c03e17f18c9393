#include "assay/trace/capture_content.h"

#include <array>

#include "assay/metrics/tensor_summary.h"
#include "assay/trace/capture_lines.h"

namespace assay {
namespace {

constexpr std::size_t kLine = 64, kLines = 128;
// Below, a sample would be much of the tensor.
constexpr std::size_t kSmall = 4 * kLine * kLines;

std::int64_t bytes_of(const TensorView& tensor) {
  return storage_bytes(tensor.dtype, tensor.numel()).value();
}

bool sampled(std::uint64_t number, const TensorView& tensor) {
  return number != 0 && traits(tensor.dtype).bits >= 8 &&
         bytes_of(tensor) >= static_cast<std::int64_t>(kSmall);
}

// Lines of the elements in their logical order, spread evenly.
Hash128 sample_of(const TensorView& tensor) {
  std::array<std::byte, kLine * kLines> lines;
  const std::int64_t each =
      static_cast<std::int64_t>(kLine) * 8 / traits(tensor.dtype).bits;
  const std::int64_t last = tensor.numel() - each;
  for (std::size_t i = 0; i < kLines; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    gather(tensor, last * at / static_cast<std::int64_t>(kLines - 1), each,
           lines.data() + i * kLine);
  }
  return hash128(lines);
}

}  // namespace

Hash128 content_hash(const TensorView& tensor) {
  std::string kind(traits(tensor.dtype).name);
  kind += to_string(tensor.shape);
  return hash128(tensor.bytes(), hash128(kind).low);
}

ContentStatistics statistics_of(const TensorView& tensor, bool parallel) {
  ContentStatistics statistics;
  std::string& text = statistics.text;
  const TensorSummary s = summarise(tensor, parallel);
  statistics.finiteness = s.nan > 0 || s.positive_inf > 0
                              ? Finiteness::kNotFinite
                          : s.negative_inf > 0 ? Finiteness::kMinusInfinity
                                               : Finiteness::kFinite;
  if (s.count == 0) return statistics;
  add_number(text, "max", s.max);
  add_number(text, "min", s.min);
  add_number(text, "mean", s.mean);
  add_number(text, "norm", s.norm);
  add_integer(text, "zeros", s.zeros);
  if (saturates(tensor.dtype)) add_integer(text, "saturated", s.saturated);
  add_integer_unless_zero(text, "nan", s.nan);
  add_integer_unless_zero(text, "inf", s.positive_inf);
  add_integer_unless_zero(text, "-inf", s.negative_inf);
  return statistics;
}

const CaptureMemo::Content* CaptureMemo::find(std::uint64_t number,
                                              const TensorView& tensor) const {
  if (!sampled(number, tensor)) return nullptr;
  const auto found = known_.find(number);
  if (found == known_.end()) return nullptr;
  const Known& known = found->second;
  if (known.dtype != tensor.dtype || known.shape != tensor.shape ||
      known.strides != tensor.strides || known.sample != sample_of(tensor))
    return nullptr;
  return &known.content;
}

void CaptureMemo::keep(std::uint64_t number, const TensorView& tensor,
                       Content content) {
  if (!sampled(number, tensor)) return;
  known_.insert_or_assign(number,
                          Known{tensor.dtype, tensor.shape, tensor.strides,
                                sample_of(tensor), std::move(content)});
}

}  // namespace assay

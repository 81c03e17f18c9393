#include "assay/conform/merge.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "assay/base/error.h"
#include "assay/conform/judge_tensor.h"
#include "assay/numerics/element.h"

namespace assay::conform {
namespace {

[[noreturn]] void do_not_fit(std::size_t rank, const Tensor& tensor,
                             const Tensor& first) {
  throw Error(
      Code::kRefused,
      fmt::format("rank {}: {} {}, beside {} {} of rank 0", rank,
                  traits(tensor.dtype()).name, assay::to_string(tensor.shape()),
                  traits(first.dtype()).name, assay::to_string(first.shape())));
}

std::size_t axis_of(const Merge& merge, const Tensor& tensor) {
  const auto rank = static_cast<int>(tensor.shape().size());
  const int axis =
      merge.dimension < 0 ? merge.dimension + rank : merge.dimension;
  if (axis < 0 || axis >= rank)
    throw Error(Code::kRefused,
                fmt::format("no dimension {} of {}", merge.dimension,
                            assay::to_string(tensor.shape())));
  return static_cast<std::size_t>(axis);
}

// Bytes of everything at and below a dimension, of one index above it.
std::size_t bytes_below(const Tensor& tensor, std::size_t axis) {
  std::int64_t count = 1;
  for (std::size_t i = axis; i < tensor.shape().size(); ++i)
    count *= tensor.shape()[i];
  return static_cast<std::size_t>(
      storage_bytes(tensor.dtype(), count).value_or(0));
}

Tensor concatenated(const Merge& merge,
                    const std::vector<const Tensor*>& parts) {
  const Tensor& first = *parts[0];
  const std::size_t axis = axis_of(merge, first);
  Shape shape = first.shape();
  shape[axis] = 0;
  std::vector<Tensor> whole;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const Tensor& part = *parts[rank];
    Shape other = part.shape();
    if (part.dtype() != first.dtype() || other.size() != shape.size())
      do_not_fit(rank, part, first);
    const std::int64_t size = std::exchange(other[axis], 0);
    Shape expected = shape;
    expected[axis] = 0;
    if (other != expected) do_not_fit(rank, part, first);
    shape[axis] += size;
    // Two e2m1 codes share a byte: bytes are joined as they are.
    whole.push_back(first.dtype() == DType::kE2M1 ? as_bytes(part)
                                                  : contiguous(part));
  }
  if (first.dtype() == DType::kE2M1) {
    shape = whole[0].shape();
    if (axis >= shape.size()) do_not_fit(0, first, first);
    shape[axis] = 0;
    for (const Tensor& part : whole) shape[axis] += part.shape()[axis];
  }
  Tensor result = Tensor::empty(whole[0].dtype(), shape);
  std::int64_t above = 1;
  for (std::size_t i = 0; i < axis; ++i) above *= shape[i];
  if (result.numel() == 0) return result;
  std::byte* to = result.mutable_data();
  for (std::int64_t row = 0; row < above; ++row)
    for (const Tensor& part : whole) {
      const std::size_t size = bytes_below(part, axis);
      if (size == 0) continue;
      std::memcpy(to, part.view.data + static_cast<std::size_t>(row) * size,
                  size);
      to += size;
    }
  return result;
}

Tensor summed(const std::vector<const Tensor*>& parts) {
  const Tensor& first = *parts[0];
  std::vector<Tensor> whole;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const Tensor& part = *parts[rank];
    if (part.dtype() != first.dtype() || part.shape() != first.shape())
      do_not_fit(rank, part, first);
    whole.push_back(contiguous(part));
  }
  if (!is_float(first.dtype()) || traits(first.dtype()).bits < 8)
    throw Error(Code::kRefused,
                fmt::format("no sum of {}", traits(first.dtype()).name));
  Tensor result = Tensor::empty(first.dtype(), first.shape());
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    double sum = 0;
    for (const Tensor& part : whole)
      sum += load_as_double(part.dtype(), part.view.data, i);
    store_from_double(result.dtype(), sum, result.mutable_data(), i);
  }
  return result;
}

}  // namespace

std::optional<Tensor> merged(const Merge& merge,
                             const std::vector<const Tensor*>& parts) {
  for (const Tensor* part : parts)
    if (!part) return std::nullopt;
  if (parts.empty()) return std::nullopt;
  return merge.kind == Merge::Kind::kSum ? summed(parts)
                                         : concatenated(merge, parts);
}

Check judge_same(const std::string& name,
                 const std::vector<const Tensor*>& parts) {
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (!parts[rank])
      return make_check(name, -1, Verdict::kIncomplete, "missing",
                        fmt::format("rank {} does not give it", rank));
    if (!same_bytes(*parts[0], *parts[rank]))
      return make_check(
          name, -1, Verdict::kMismatch, "same",
          fmt::format("rank {} has other bytes than rank 0", rank));
  }
  return make_check(name, -1, Verdict::kMatch, "", "");
}

}  // namespace assay::conform

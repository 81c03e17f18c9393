#include "assay/core/shape.h"

#include <limits>

namespace assay {

std::optional<std::int64_t> checked_numel(const Shape& shape) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (product > std::numeric_limits<std::int64_t>::max() / dim)
      return std::nullopt;
    product *= dim;
  }
  return empty ? 0 : product;
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i] > 0 ? shape[i] : 1;
  }
  return strides;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

std::string index_text(const Shape& shape, std::int64_t flat) {
  Shape index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    const std::int64_t dim = shape[i] > 0 ? shape[i] : 1;
    index[i] = flat % dim;
    flat /= dim;
  }
  return to_string(index);
}

}  // namespace assay

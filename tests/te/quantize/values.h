// Tensors of given or random values for the quantiser tests.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/core/philox.h"
#include "assay/core/tensor.h"
#include "assay/numerics/element.h"

namespace assay::te {

// `values`, in row-major order, rounded to `dtype`; infinities stay.
inline Tensor tensor_of(DType dtype, Shape shape,
                        const std::vector<double>& values) {
  Tensor t = Tensor::zeros(dtype, std::move(shape));
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_from_double(dtype, values[i], t.mutable_data(),
                      static_cast<std::int64_t>(i), Overflow::kSpecial);
  }
  return t;
}

// Normal values times 2^k with k uniform in [-spread, spread] for each row.
inline Tensor random_values(DType dtype, Shape shape, std::uint64_t seed,
                            int spread = 0) {
  Tensor t = Tensor::zeros(dtype, shape);
  PhiloxStream random(seed);
  const std::int64_t columns = shape.empty() ? 1 : shape.back();
  double scale = 1;
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    if (spread > 0 && i % columns == 0) {
      const auto steps = static_cast<std::uint32_t>(2 * spread + 1);
      scale = pow2(static_cast<int>(random.next() % steps) - spread);
    }
    store_from_double(dtype, random.next_normal() * scale, t.mutable_data(), i,
                      Overflow::kSpecial);
  }
  return t;
}

inline std::vector<std::uint8_t> bytes_of(const Tensor& t) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(t.view.data);
  return {p, p + t.view.bytes().size()};
}

inline double value_at(const Tensor& t, std::int64_t i) {
  return load_as_double(t.dtype(), t.view.data, i);
}

}  // namespace assay::te

// What the tests of several processes share: the group, inputs that every rank
// makes alike, and how a parallel result is held against the one of a single
// process.
//
// Every rank runs every test, in the same order; calls that communicate must
// stand outside of what depends on the rank. Inputs come from seeds, so a rank
// has the whole tensor, computes the single-process result itself and cuts its
// own part out:
//   const Tensor x = normal(DType::kBF16, {8, 64}, 1);
//   const Tensor y = gathered(f_parallel(part_of(x), *group()));
//   expect_same_bits(y, f(x), "f");
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "assay/te/parallel/collectives.h"
#include "assay/te/parallel/communicator.h"
#include "tests/te/quantize/tensors.h"

namespace assay::te {

// All ranks that mpirun started; one process without.
const std::shared_ptr<Communicator>& group();
inline int rank() { return group()->rank(); }
inline int ranks() { return group()->size(); }

// Rows (columns) of this rank: a slice of the first (last) dimension.
Tensor part_of(const Tensor& whole);
Tensor columns_of(const Tensor& whole);
// The parts of all ranks, one below the other.
Tensor gathered(const Tensor& part);

// Both directions as far as they are there: codes, scales and their layout,
// amax, shape, dtype and format.
void expect_same_quantized(const QuantizedTensor& actual,
                           const QuantizedTensor& expected,
                           const std::string& what);

// Holds a sum that ranks formed in parts against the same sum in one process.
// `terms` [same shape, f64] is the sum of |terms| of each element, `count`
// their number:
//   |actual - expected| <= (2 gamma(count + 4) + 3 v (1 + v)) terms
// An fp32 sum of n terms, whatever its order, is within gamma(n - 1) sum |t|
// of the exact one, gamma(n) = n u / (1 - n u), u = 2^-24 (Higham, Accuracy
// and Stability, 4.2); there are two of them, and 4 more roundings for scales
// that are multiplied. A 16-bit dtype of roundoff v rounds each rank's part
// and both results; f32 parts are not rounded again: v = 0.
void expect_within_reordered_sum(const Tensor& actual, const Tensor& expected,
                                 const Tensor& terms, std::int64_t count,
                                 const std::string& what);
// sum over k of |x[m, k]| |w[n, k]|, f64 [M, N]: terms of x w^T.
Tensor magnitude(const Tensor& x, const Tensor& w);

}  // namespace assay::te

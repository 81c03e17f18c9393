// Tier 2 of one chunk of a pair: by a kernel, or element by element.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "assay/kernels/kernels.h"
#include "assay/metrics/error_stats.h"
#include "assay/metrics/stats_detail_partial.h"
#include "assay/metrics/stats_plan.h"
#include "assay/numerics/ulp.h"

namespace assay {

// What compute_detail asks of each element, for kernels and for plain code.
class DetailRule {
 public:
  DetailRule(DType judged, const DetailRequest& request);

  const DetailParams& params() const { return params_; }
  const SmallValueRule& small() const { return request_.small; }
  // assay::ulp of the judged dtype. Finite x.
  double ulp_of(double x) const {
    if (params_.integer) return 1;
    const double inside = std::clamp(std::fabs(x), smallest_, largest_);
    const std::uint64_t exponent = std::bit_cast<std::uint64_t>(inside) >> 52;
    const auto down = static_cast<std::uint64_t>(params_.mantissa_bits);
    if (exponent <= down) return ulp(judged_, x);  // of f64, subnormal
    return std::bit_cast<double>((exponent - down) << 52);
  }
  double bound_of(double abs_x, double ulp) const {
    return request_.bound.atol + request_.bound.rtol * abs_x +
           request_.bound.ulps * ulp;
  }

 private:
  DType judged_;
  DetailRequest request_;
  DetailParams params_;
  double smallest_, largest_;  // values beyond have the ulp of these
};

// Adds the chunk's figures to `out`. f64 buffers of kChunk numbers each.
void add_detail_chunk(const PairPlan& plan, const DetailRule& rule,
                      std::int64_t chunk, const ChunkData& data,
                      DetailPartial& out);

}  // namespace assay

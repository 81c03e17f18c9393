#include "assay/te/quantize/nvfp4.h"

#include <deque>
#include <string>
#include <utility>

#include "assay/te/check.h"
#include "assay/te/quantize/nvfp4_work.h"
#include "assay/te/quantize/round_input.h"

namespace assay::te {
namespace {

constexpr const char* kOp = "NVFP4Quantizer";

void exclude(bool both, const char* option, const char* other) {
  require(!both, kOp, option, std::string("on together with ") + other,
          "one of the two");
}

}  // namespace

NVFP4Quantizer::NVFP4Quantizer(const NVFP4Options& o) : options_(o) {
  const bool candidates = o.four_over_six != FourOverSix::kNone;
  exclude(o.rht && o.with_2d, "rht", "with_2d");
  exclude(o.row_scaled && o.rht, "row_scaled", "rht");
  exclude(o.row_scaled && o.with_2d, "row_scaled", "with_2d");
  exclude(o.row_scaled && o.stochastic_rounding, "row_scaled",
          "stochastic_rounding");
  exclude(candidates && o.rht, "four_over_six", "rht");
  exclude(candidates && o.stochastic_rounding, "four_over_six",
          "stochastic_rounding");
  require(o.scale_max == 448.0f || (candidates && o.scale_max == 256.0f), kOp,
          "scale_max", std::to_string(o.scale_max),
          "448, or 256 with four_over_six");
}

void NVFP4Quantizer::check(const Tensor& x) const {
  require_high_precision(kOp, "x", x);
  const auto m = matrix_shape(x.shape());
  require_multiple(kOp, "rows", m.rows, kNvfp4Block);
  require_multiple(kOp, "columns", m.columns, kNvfp4Block);
  if (options_.rht && usage().columnwise)
    require_dtype(kOp, "x (rht)", x, {DType::kBF16});
  require(!(options_.row_scaled && usage().columnwise), kOp, "row_scaled",
          "column-wise usage", "row-wise usage only");
}

QuantizedTensor NVFP4Quantizer::quantize(const Tensor& x) {
  return std::move(quantize_multi({&x, 1})[0]);
}

std::vector<QuantizedTensor> NVFP4Quantizer::quantize_multi(
    std::span<const Tensor> xs) {
  for (const Tensor& x : xs) check(x);
  std::deque<Nvfp4Work> works;
  for (const Tensor& x : xs) {
    works.emplace_back(options_, usage(), contiguous(x),
                       options_.random_offset);
    if (options_.stochastic_rounding) options_.random_offset += 2;
  }
  std::vector<Job> jobs;
  for (Nvfp4Work& work : works) jobs.push_back(work.amax_job());
  run_jobs(jobs);
  agree_on_amax(works);
  jobs.clear();
  for (Nvfp4Work& work : works) jobs.push_back(work.quantize_job());
  run_jobs(jobs);
  std::vector<QuantizedTensor> out;
  for (Nvfp4Work& work : works) out.push_back(work.take());
  return out;
}

// One reduction for all tensors.
void NVFP4Quantizer::agree_on_amax(std::deque<Nvfp4Work>& works) const {
  std::vector<float> all;
  for (const Nvfp4Work& work : works) {
    const std::vector<float> own = work.amax();
    all.insert(all.end(), own.begin(), own.end());
  }
  if (options_.amax_reduction) {
    options_.amax_reduction->reduce_max(all.data(),
                                        static_cast<std::int64_t>(all.size()));
  }
  const float* next = all.data();
  for (Nvfp4Work& work : works) {
    const std::size_t count = work.amax().size();
    work.set_amax(next);
    next += count;
  }
}

QuantizedTensor NVFP4Quantizer::quantize_fused(const Tensor& x_f32,
                                               DType dtype) {
  return quantize(round_input(x_f32, dtype));
}

std::unique_ptr<Quantizer> NVFP4Quantizer::clone() const {
  return std::make_unique<NVFP4Quantizer>(*this);
}

}  // namespace assay::te

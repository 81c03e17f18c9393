#include "assay/te/quantize/amax.h"

#include <algorithm>

#include "assay/kernels/cast.h"
#include "assay/te/check.h"
#include "assay/te/quantize/jobs.h"

namespace assay::te {
namespace {

constexpr std::int64_t kBlock = std::int64_t{1} << 16;

// Blocks write to places of their own; the largest is taken at the end.
Job amax_job(const Tensor& x, std::vector<float>& maxima) {
  const std::int64_t n = x.numel();
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  const std::int64_t size = traits(x.dtype()).bits / 8;
  maxima.resize(static_cast<std::size_t>(blocks));
  return {blocks, [&x, &maxima, n, size](std::int64_t b) {
            const std::int64_t begin = b * kBlock;
            maxima[static_cast<std::size_t>(b)] =
                amax_of(x.device, x.dtype(), x.view.data + begin * size,
                        std::min(kBlock, n - begin));
          }};
}

}  // namespace

float amax_of(Device device, DType dtype, const std::byte* x, std::int64_t n) {
  return with_cast_type(cast_kernels(device), dtype,
                        [&]<typename T>(const CastType<T>& type, T) {
                          return type.amax(reinterpret_cast<const T*>(x), n);
                        });
}

std::vector<float> tensor_amax(std::span<const Tensor> xs) {
  std::vector<Tensor> plain;
  for (const Tensor& x : xs) {
    require_high_precision("amax", "x", x);
    plain.push_back(contiguous(x));
  }
  std::vector<std::vector<float>> maxima(xs.size());
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < xs.size(); ++i)
    jobs.push_back(amax_job(plain[i], maxima[i]));
  run_jobs(jobs);
  std::vector<float> out;
  for (const std::vector<float>& of : maxima)
    out.push_back(of.empty() ? 0 : *std::max_element(of.begin(), of.end()));
  return out;
}

float tensor_amax(const Tensor& x) {
  return tensor_amax(std::span(&x, 1)).front();
}

}  // namespace assay::te

#include "assay/te/optim/newton_schulz.h"

#include <algorithm>
#include <map>
#include <string>

#include "assay/te/check.h"
#include "assay/te/ops/gemm.h"
#include "assay/te/ops/transpose.h"
#include "assay/te/optim/in_place.h"

namespace assay::te {
namespace {

struct CoefficientSet {
  std::vector<NewtonSchulzCoefficients> steps;
  bool repeats_last;
};

const std::map<std::string_view, CoefficientSet>& sets() {
  static const std::map<std::string_view, CoefficientSet> all = {
      {"simple", {{{3.4445, -4.7750, 2.0315}}, false}},
      {"quintic",
       {{{4.0848, -6.8946, 2.9270},
         {3.9505, -6.3029, 2.6377},
         {3.7418, -5.5913, 2.3037},
         {2.8769, -3.1427, 1.2046},
         {2.8366, -3.0525, 1.2012}},
        false}},
      {"polar_express",
       {{{8.2051, -22.9019, 16.4607},
         {4.0664, -2.8612, 0.5184},
         {3.9096, -2.8234, 0.5250},
         {3.2856, -2.4153, 0.4853},
         {2.2779, -1.6198, 0.3985},
         {1.8726, -1.2307, 0.3585},
         {1.8564, -1.2132, 0.3568},
         {1.8750, -1.2500, 0.3750}},
        true}},
      {"cans",
       {{{8.4703, -25.1081, 18.6293},
         {4.1828, -3.1087, 0.5806},
         {3.9619, -2.9541, 0.5630},
         {3.2866, -2.4647, 0.5074},
         {2.2737, -1.6447, 0.4162}},
        true}},
      {"aol",
       {{{4.0098, -7.0585, 2.4635},
         {3.4585, -5.5479, 2.5959},
         {2.7573, -3.2939, 1.4254},
         {2.7215, -3.0494, 1.3169}},
        false}},
  };
  return all;
}

// alpha B A^T + beta c, or alpha B A + beta c.
Tensor product(const Tensor& b, const Tensor& a, GemmLayout layout,
               double alpha, double beta, const Tensor* c) {
  GemmOptions options;
  options.alpha = static_cast<float>(alpha);
  options.beta = static_cast<float>(beta);
  options.c = c;
  return gemm(a, b, layout, options).d;
}

}  // namespace

std::vector<NewtonSchulzCoefficients> newton_schulz_coefficients(
    std::int64_t steps, std::string_view set) {
  constexpr std::string_view kOp = "newton_schulz_coefficients";
  require(steps >= 0, kOp, "steps", std::to_string(steps), ">= 0");
  std::string names;
  for (const auto& entry : sets())
    names += (names.empty() ? "" : ", ") + std::string(entry.first);
  const auto found = sets().find(set);
  require(found != sets().end(), kOp, "set", "\"" + std::string(set) + "\"",
          "one of " + names);
  const auto& [known, repeats_last] = found->second;
  std::vector<NewtonSchulzCoefficients> out;
  for (std::size_t i = 0; i < static_cast<std::size_t>(steps); ++i)
    out.push_back(
        known[repeats_last ? std::min(i, known.size() - 1) : i % known.size()]);
  return out;
}

void newton_schulz(Tensor& x,
                   const std::vector<NewtonSchulzCoefficients>& coefficients) {
  constexpr std::string_view kOp = "newton_schulz";
  require_rank(kOp, "x", x, 2);
  require_dtype(kOp, "x", x, {DType::kF32, DType::kBF16});
  if (x.numel() == 0) return;
  InPlace target(kOp, "x", x);
  Tensor y = Tensor::empty(DType::kF32, x.shape(), x.device);
  for_each_chunk(0, y.numel(), [&](std::int64_t begin, std::int64_t n) {
    float* to = y.mutable_data<float>() + begin;
    const float* from = target.load(begin, n, to);
    if (from != to) std::copy_n(from, n, to);
  });
  const bool tall = x.shape()[0] > x.shape()[1];
  if (tall) y = transpose(y);
  for (const auto& [a, b, c] : coefficients) {
    const Tensor gram = product(y, y, GemmLayout::kTN, 1, 0, nullptr);
    // gram is symmetric: its square is gram gram^T.
    const Tensor sum = product(gram, gram, GemmLayout::kTN, c, b, &gram);
    y = product(sum, y, GemmLayout::kNN, 1, a, &y);
  }
  if (tall) y = transpose(y);
  for_each_chunk(0, y.numel(), [&](std::int64_t begin, std::int64_t n) {
    const float* from = y.data<float>() + begin;
    if (x.dtype() == DType::kF32)
      std::copy_n(from, n, reinterpret_cast<float*>(target.at(begin)));
    else
      target.store(begin, n, from);
  });
  target.commit();
}

}  // namespace assay::te

// The values a pattern detector sees, and the detectors by file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "assay/core/tensor.h"
#include "assay/metrics/standard.h"

namespace assay {

// Row-major values of a window of both tensors, d = target - golden. Complex
// tensors are not sampled.
struct PatternSample {
  std::vector<double> golden, target;
  std::vector<double> input;  // empty when unknown
  Shape shape;                // of the window
  std::int64_t begin = 0;     // flat index of its first element
  bool whole = true;          // the window is the tensor
  DType dtype = DType::kF32;  // the judged one
  OpClass op = OpClass::kUnknown;
  std::string api;  // lower case

  double gg = 0, tt = 0, dot = 0, dd = 0, sum_d = 0;  // sums over the window
  std::int64_t differing = 0;

  std::int64_t size() const { return static_cast<std::int64_t>(golden.size()); }
  double unit() const { return unit_roundoff(dtype); }
  // ||target - f(golden)|| is little against ||d||: f explains the error.
  bool explains(const std::function<double(std::int64_t)>& f) const;
};

// Each returns "" or the text after "likely: ".
using PatternDetector = std::string (*)(const PatternSample&);

// pattern_value.cpp
std::string detect_saturation(const PatternSample& sample);
std::string detect_sign_flip(const PatternSample& sample);
std::string detect_scale(const PatternSample& sample);
std::string detect_bias(const PatternSample& sample);
// pattern_place.cpp
std::string detect_all_zero(const PatternSample& sample);
std::string detect_tail(const PatternSample& sample);
std::string detect_one_element(const PatternSample& sample);
std::string detect_one_slice(const PatternSample& sample);
std::string detect_one_block(const PatternSample& sample);
// pattern_layout.cpp
std::string detect_transpose(const PatternSample& sample);
std::string detect_interleave(const PatternSample& sample);
std::string detect_shift(const PatternSample& sample);
std::string detect_permutation(const PatternSample& sample);
// pattern_formula.cpp
std::string detect_gelu(const PatternSample& sample);
std::string detect_rotation(const PatternSample& sample);
// pattern_rounding.cpp
std::string detect_rounding(const PatternSample& sample);
std::string detect_output_downcast(const PatternSample& sample);
std::string detect_input_downcast(const PatternSample& sample);
std::string detect_accumulator(const PatternSample& sample);
std::string detect_discontinuity(const PatternSample& sample);

}  // namespace assay

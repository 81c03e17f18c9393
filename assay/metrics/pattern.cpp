#include "assay/metrics/pattern.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "assay/metrics/pattern_sample.h"
#include "assay/numerics/element.h"
#include "assay/numerics/float_format.h"
#include "assay/numerics/rounding.h"

namespace assay {
namespace {

// Most specific first: what explains every element to the bit goes before
// what only describes where or how large the error is.
constexpr PatternDetector kDetectors[] = {
    detect_all_zero,
    detect_saturation,
    detect_tail,
    detect_sign_flip,
    detect_one_element,
    detect_interleave,
    detect_transpose,
    detect_shift,
    detect_permutation,
    detect_one_slice,
    detect_one_block,
    detect_gelu,
    detect_output_downcast,
    detect_rounding,
    detect_scale,
    detect_bias,
    detect_rotation,
    detect_accumulator,
    detect_input_downcast,
    detect_discontinuity,
};

struct Window {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  Shape shape;
  bool whole = true;
};

// All of it, or whole outermost slices with the largest error in the middle.
Window choose_window(const Shape& shape, std::int64_t count,
                     std::int64_t index) {
  if (count <= kPatternElements) return {0, count, shape, true};
  const std::int64_t slice = shape.empty() ? 1 : count / shape[0];
  const std::int64_t rows = kPatternElements / slice;
  const std::int64_t unit = rows > 0 ? slice : 2;
  const std::int64_t units =
      rows > 0 ? rows : kPatternElements / 2;  // a flat piece of one slice
  const std::int64_t all = count / unit;
  const std::int64_t middle = std::max<std::int64_t>(index, 0) / unit;
  const std::int64_t first =
      std::clamp<std::int64_t>(middle - units / 2, 0, all - units);
  Window window{first * unit, units * unit, {units * unit}, false};
  if (rows > 0) {
    window.shape = shape;
    window.shape[0] = rows;
  }
  return window;
}

std::vector<double> read(const TensorView& view, const Window& window) {
  const std::optional<std::int64_t> bytes =
      storage_bytes(view.dtype, window.count);
  std::vector<std::byte> raw(static_cast<std::size_t>(bytes.value_or(0)));
  std::vector<double> values(static_cast<std::size_t>(window.count));
  gather(view, window.begin, window.count, raw.data());
  load_as_doubles(view.dtype, raw.data(), 0, window.count, values.data());
  return values;
}

// Places that are not finite on either side say nothing here: both become 0.
void drop_nonfinite(PatternSample& sample) {
  for (std::size_t i = 0; i < sample.golden.size(); ++i)
    if (!std::isfinite(sample.golden[i]) || !std::isfinite(sample.target[i]))
      sample.golden[i] = sample.target[i] = 0;
}

void add_sums(PatternSample& sample) {
  for (std::size_t i = 0; i < sample.golden.size(); ++i) {
    const double g = sample.golden[i], t = sample.target[i], d = t - g;
    sample.gg += g * g;
    sample.tt += t * t;
    sample.dot += g * t;
    sample.dd += d * d;
    sample.sum_d += d;
    sample.differing += d != 0;
  }
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

PatternSample take_sample(const TensorView& golden, const TensorView& target,
                          const ErrorStats& stats, const TensorView* input) {
  const Window window =
      choose_window(golden.shape, golden.numel(), stats.max_abs_index);
  PatternSample sample;
  sample.golden = read(golden, window);
  sample.target = read(target, window);
  if (input && !is_complex(input->dtype) && input->numel() == golden.numel())
    sample.input = read(*input, window);
  sample.shape = window.shape;
  sample.begin = window.begin;
  sample.whole = window.whole;
  sample.dtype = stats.judged_dtype;
  if (stats.golden_rounded)
    for (double& g : sample.golden) g = round_to(sample.dtype, g);
  drop_nonfinite(sample);
  add_sums(sample);
  return sample;
}

// Infinities where the golden is finite and beyond fp16: all of them.
bool overflows_half(const TensorView& golden, const TensorView& target,
                    const ErrorStats& stats) {
  if (stats.golden.nan + stats.golden.pos_inf + stats.golden.neg_inf > 0 ||
      stats.target.nan > 0)
    return false;
  const Window window = choose_window(golden.shape, golden.numel(),
                                      stats.first_nonfinite_mismatch);
  const std::vector<double> g = read(golden, window), t = read(target, window);
  const double limit = max_finite(DType::kF16);
  for (std::size_t i = 0; i < g.size(); ++i)
    if (std::isinf(t[i]) != (std::fabs(g[i]) > limit)) return false;
  return true;
}

}  // namespace

bool PatternSample::explains(
    const std::function<double(std::int64_t)>& f) const {
  double rest = 0;
  const double limit = 0.01 * dd;
  for (std::int64_t i = 0; i < size(); ++i) {
    const double r = target[static_cast<std::size_t>(i)] - f(i);
    rest += r * r;
    if (rest > limit) return false;
  }
  return rest <= limit;
}

std::string guess_cause(const TensorView& golden, const TensorView& target,
                        const ErrorStats& stats, OpClass op,
                        std::string_view api_name, const TensorView* input) {
  if (stats.mismatches == 0 || stats.count == 0 || op == OpClass::kRandom ||
      is_complex(golden.dtype) || is_complex(target.dtype) ||
      golden.shape != target.shape)
    return "";
  if (stats.nonfinite_mismatches > 0)
    return overflows_half(golden, target, stats)
               ? "likely: overflow of float16 (what is beyond 65504 became "
                 "infinite)"
               : "";
  PatternSample sample = take_sample(golden, target, stats, input);
  sample.op = op;
  sample.api = lower(api_name);
  if (sample.differing == 0) return "";
  for (const PatternDetector detect : kDetectors)
    if (std::string text = detect(sample); !text.empty())
      return "likely: " + std::move(text);
  return "";
}

}  // namespace assay

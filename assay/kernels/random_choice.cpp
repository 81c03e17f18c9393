// random_fill.h: what is not a law of real numbers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "assay/kernels/random_bits.h"
#include "assay/kernels/random_fill.h"
#include "assay/numerics/basic_math.h"

namespace assay {
namespace {

using random_bits::Bits;

void check_probability(double p) {
  if (!(p >= 0 && p <= 1))
    throw Error(Code::kUsage, "random_bernoulli: p is " + std::to_string(p) +
                                  ", expected one in [0, 1]");
}

// How many of a row's weights are above 0.
std::int64_t positive(const double* weights, std::int64_t classes) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < classes; ++i) {
    if (!(weights[i] >= 0) || !std::isfinite(weights[i]))
      throw Error(Code::kUsage, "random_choice: weight " + std::to_string(i) +
                                    " is " + std::to_string(weights[i]) +
                                    ", expected a finite number, 0 or more");
    count += weights[i] > 0;
  }
  return count;
}

void check_row(const Choice& choice, const double* weights) {
  const std::int64_t wanted = choice.replacement ? 1 : choice.samples;
  const std::int64_t found = positive(weights, choice.classes);
  if (choice.samples > 0 && found < wanted)
    throw Error(Code::kUsage, "random_choice: " + std::to_string(found) +
                                  " weights above 0, expected " +
                                  std::to_string(wanted) + " or more");
}

// Where `samples` numbers of [0, sum) fall among the weights' running sums.
void with_replacement(const Choice& choice, const double* weights,
                      const std::uint64_t* bits, std::int64_t* out) {
  std::vector<double> sums(static_cast<std::size_t>(choice.classes));
  std::partial_sum(weights, weights + choice.classes, sums.begin());
  // The last class of any weight: a rounded product may reach the whole sum.
  const auto last = std::lower_bound(sums.begin(), sums.end(), sums.back());
  for (std::int64_t i = 0; i < choice.samples; ++i) {
    const double at = random_bits::unit(bits[i]) * sums.back();
    const auto found = std::upper_bound(sums.begin(), sums.end(), at);
    out[i] = std::min(found, last) - sums.begin();
  }
}

void without_replacement(const Choice& choice, const double* weights,
                         const std::uint64_t* bits, std::int64_t* out) {
  std::vector<std::pair<double, std::int64_t>> arrivals;
  for (std::int64_t i = 0; i < choice.classes; ++i)
    if (weights[i] > 0)
      arrivals.emplace_back(
          -basic_log(random_bits::centre(bits[i])) / weights[i], i);
  const auto end = arrivals.begin() + choice.samples;
  std::partial_sort(arrivals.begin(), end, arrivals.end());
  for (std::int64_t i = 0; i < choice.samples; ++i)
    out[i] = arrivals[static_cast<std::size_t>(i)].second;
}

}  // namespace

void random_bernoulli(const RandomKey& key, double p, std::uint8_t* out,
                      std::int64_t n) {
  check_probability(p);
  random_bits::for_parts(
      key, n, [=](std::int64_t begin, std::int64_t count, const Bits& bits) {
        for (std::int64_t i = 0; i < count; ++i)
          out[begin + i] =
              random_bits::unit(bits[static_cast<std::size_t>(i)]) < p;
      });
}

void random_bernoulli(const RandomKey& key, const double* p, std::uint8_t* out,
                      std::int64_t n) {
  random_bits::for_parts(
      key, n, [=](std::int64_t begin, std::int64_t count, const Bits& bits) {
        for (std::int64_t i = 0; i < count; ++i) {
          check_probability(p[begin + i]);
          out[begin + i] =
              random_bits::unit(bits[static_cast<std::size_t>(i)]) <
              p[begin + i];
        }
      });
}

void random_integers(const RandomKey& key, std::int64_t low,
                     std::uint64_t count, std::int64_t* out, std::int64_t n) {
  random_bits::for_parts(
      key, 2 * n, [=](std::int64_t begin, std::int64_t part, const Bits& bits) {
        std::int64_t* to = out + begin / 2;
        for (std::size_t i = 0; i < static_cast<std::size_t>(part / 2); ++i)
          to[i] = static_cast<std::int64_t>(
              static_cast<std::uint64_t>(low) +
              random_bits::below(bits[2 * i], bits[2 * i + 1], count));
      });
}

void random_permutation(const RandomKey& key, std::int64_t* out,
                        std::int64_t n) {
  constexpr std::int64_t kBlocks = kRandomPart / 2;
  std::iota(out, out + n, std::int64_t{0});
  Bits bits;
  for (std::int64_t i = n - 1; i > 0; --i) {
    if (i == n - 1 || i % kBlocks == kBlocks - 1)
      random_bits::draw(key, 2 * (i - i % kBlocks), bits);
    const auto at = static_cast<std::size_t>(2 * (i % kBlocks));
    std::swap(out[i],
              out[random_bits::below(bits[at], bits[at + 1],
                                     static_cast<std::uint64_t>(i) + 1)]);
  }
}

void random_choice(const RandomKey& key, const Choice& choice,
                   const double* weights, std::int64_t* out) {
  const std::int64_t own = choice.replacement ? choice.samples : choice.classes;
  std::vector<std::uint64_t> bits(static_cast<std::size_t>(choice.rows * own));
  random_bits::for_parts(
      key, choice.rows * own,
      [&](std::int64_t begin, std::int64_t count, const Bits& part) {
        std::copy_n(part.begin(), count, bits.begin() + begin);
      });
  for (std::int64_t row = 0; row < choice.rows; ++row) {
    const double* of_row = weights + row * choice.classes;
    check_row(choice, of_row);
    (choice.replacement ? with_replacement : without_replacement)(
        choice, of_row, bits.data() + row * own, out + row * choice.samples);
  }
}

}  // namespace assay

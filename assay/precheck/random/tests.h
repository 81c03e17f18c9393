// Tests of a sequence of draws, and the judgement that they add up to.
//
// A draw of a known law is a place u = F(x) in [0, 1], known up to an interval:
// what was rounded to x, or the step of F at an atom. Every test asks whether
// any places within the intervals would pass, so that neither bf16's lattice
// nor a law of integers fails a healthy sample.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/metrics/verdict.h"

namespace assay::precheck {

// Of one test. An output has at most five, a call of two outputs ten.
inline constexpr double kLevel = 1e-7;

// Collects what the tests of one output say.
class Findings {
 public:
  // An exact property: a mismatch where it does not hold.
  void require(bool holds, std::string criterion, std::string text,
               std::int64_t index = -1);
  // A p-value: a mismatch below kLevel.
  void test(double p, std::string criterion, std::string text);
  // From here on every test is one of so many, which share its level.
  void split(std::int64_t parts) { parts_ = static_cast<double>(parts); }
  // What could not be told, or should be known.
  void incomplete(std::string criterion, std::string text);
  void note(std::string criterion, std::string text);
  // Incomplete below `needed` elements, where no test failed.
  void enough(std::int64_t found, std::int64_t needed, std::string what);

  bool failed() const { return failed_; }
  Judgement judgement() const;

 private:
  std::vector<Reason> failures_, gaps_, notes_;
  bool failed_ = false;
  double parts_ = 1;
};

struct Place {
  double low, high;
  double middle() const { return 0.5 * (low + high); }
};
using Places = std::vector<Place>;

// Kolmogorov-Smirnov; mean and spread of u; both ends to one in 8192. `atoms`:
// a law of integers, whose intervals do not overlap.
void test_law(Findings& findings, const Places& places, bool atoms);

// Distances at which neighbours are looked for: 1 to 8, powers of two up to
// half of n, and the strides of the shape.
std::vector<std::int64_t> lags(std::int64_t n,
                               const std::vector<std::int64_t>& shape);

// Correlation at each lag of values about 0, |x| <= bound, of independent
// variances at most v (empty: x itself is 0 where it says nothing).
void test_lags(Findings& findings, const std::vector<float>& centred,
               double variance, double bound,
               const std::vector<std::int64_t>& shape);

// Whether a long run of the sequence comes twice: generators that start over.
// Of independent, equally distributed draws, two of which are equal with
// chance `collision`.
void test_repeats(Findings& findings, const std::vector<std::uint64_t>& codes,
                  double collision);
// That chance, from the sample.
double collision_chance(const std::vector<std::uint64_t>& codes);

// A sequence of zeros and ones, each one with chance p: their number, their
// number in fixed blocks, and repeats.
void test_coins(Findings& findings, const std::vector<std::uint8_t>& coins,
                double p, const std::string& what);

// So many draws that the share of what has chance p is known to 0.1, and that
// p is told from 0 and from 1.
std::int64_t coins_needed(double p);
// So many that a distribution function is known to 0.1.
std::int64_t draws_needed();

}  // namespace assay::precheck

#include "assay/core/philox.h"

#include <cmath>
#include <numbers>

namespace assay {
namespace {

constexpr std::uint32_t low(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
constexpr std::uint32_t high(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

}  // namespace

PhiloxStream::PhiloxStream(std::uint64_t seed, std::uint64_t subsequence)
    : key_{low(seed), high(seed)}, subsequence_(subsequence) {}

void PhiloxStream::refill() {
  words_ = philox4x32(
      {low(block_), high(block_), low(subsequence_), high(subsequence_)}, key_);
  ++block_;
  used_ = 0;
}

std::uint32_t PhiloxStream::next() {
  if (used_ == 4) refill();
  return words_[static_cast<std::size_t>(used_++)];
}

double PhiloxStream::next_normal() {
  const double radius = 1.0 - next_uniform();  // in (0, 1]: log is finite
  const double angle = 2.0 * std::numbers::pi * next_uniform();
  return std::sqrt(-2.0 * std::log(radius)) * std::cos(angle);
}

void PhiloxStream::seek(std::uint64_t position) {
  block_ = position / 4;
  refill();
  used_ = static_cast<int>(position % 4);
}

}  // namespace assay

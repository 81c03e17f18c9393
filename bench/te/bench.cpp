// bench_te --list | NAME: prints what Python needs to make a line of the
// table: seconds of ours, of a copy of as many bytes, of the peer.
#include "bench/te/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/core/philox.h"
#include "assay/numerics/element.h"

namespace assay::bench {
namespace {

constexpr int kRuns = 7;
constexpr double kLeastSeconds = 0.02;  // one run repeats shorter calls
constexpr std::size_t kSlice = std::size_t{1} << 20;
// A row that is bound by memory goes through as many sets of inputs as exceed
// the largest caches, so that each call finds its own in memory. Outputs come
// from the pool and land in the same place every time, the copy's too.
constexpr double kBeyondCaches = 800e6;
constexpr int kMostSets = 48;

// The same work on one or more sets of inputs.
using Sets = std::vector<Body>;

// Seconds a call, over `rounds` rounds through the sets.
double seconds_of(const Sets& sets, int rounds) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i)
    for (const Body& body : sets) body();
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  return taken.count() / (rounds * static_cast<double>(sets.size()));
}

int rounds_of(const Sets& sets) {
  const double once = seconds_of(sets, 1) * static_cast<double>(sets.size());
  return once >= kLeastSeconds ? 1 : static_cast<int>(kLeastSeconds / once) + 1;
}

int set_count(double bytes) {
  if (bytes <= 0) return 1;
  return std::clamp(static_cast<int>(kBeyondCaches / bytes), 1, kMostSets);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

void copy_all(const Tensor& from, Tensor& to) {
  const auto size = static_cast<std::size_t>(from.numel());
  parallel_for(static_cast<std::int64_t>((size + kSlice - 1) / kSlice),
               [&](std::int64_t i) {
                 const std::size_t at = static_cast<std::size_t>(i) * kSlice;
                 std::memcpy(to.mutable_data() + at, from.view.data + at,
                             std::min(kSlice, size - at));
               });
}

// Copies that read and write `bytes` in all, on every core.
Sets copies_of(double bytes) {
  const Shape shape = {static_cast<std::int64_t>(bytes / 2)};
  Sets sets;
  Tensor to = Tensor::zeros(DType::kU8, shape);
  for (int i = set_count(bytes); i > 0; --i) {
    sets.push_back([from = Tensor::zeros(DType::kU8, shape), to]() mutable {
      copy_all(from, to);
    });
  }
  return sets;
}

Sets sets_of(const std::function<Body()>& prepare, double bytes) {
  Sets sets;
  for (int i = set_count(bytes); i > 0; --i) sets.push_back(prepare());
  return sets;
}

void measure(const Row& row) {
  struct Side {
    Sets sets;
    int rounds = 1;
    std::vector<double> taken;
  };
  std::vector<Side> sides;
  sides.push_back({sets_of(row.prepare, row.bytes)});
  if (row.bytes > 0) sides.push_back({copies_of(row.bytes)});
  if (row.prepare_peer) sides.push_back({sets_of(row.prepare_peer, 0)});
  for (Side& side : sides) {
    seconds_of(side.sets, 1);  // first touch, caches of kernels
    side.rounds = rounds_of(side.sets);
  }
  for (int run = 0; run < kRuns; ++run)
    for (Side& side : sides)
      side.taken.push_back(seconds_of(side.sets, side.rounds));

  std::size_t next = 1;
  fmt::print("{{\"name\": \"{}\", \"ours\": {:.9g}", row.name,
             median(sides[0].taken));
  if (row.bytes > 0) {
    fmt::print(", \"copy\": {:.9g}, \"memory_goal\": {}, \"bytes\": {:.0f}",
               median(sides[next++].taken), row.memory_goal, row.bytes);
  }
  if (row.prepare_peer) {
    fmt::print(", \"peer\": {:.9g}, \"peer_name\": \"{}\", \"peer_goal\": {}",
               median(sides[next++].taken), row.peer_name, row.peer_goal);
  }
  fmt::print(", \"torch_goal\": {}, \"flops\": {:.0f}}}\n", row.torch_goal,
             row.flops);
}

}  // namespace

std::vector<Row>& rows() {
  static std::vector<Row> all;
  return all;
}

Tensor random_tensor(DType dtype, Shape shape, std::uint64_t seed,
                     double scale) {
  Tensor tensor = Tensor::empty(dtype, std::move(shape));
  PhiloxStream stream(seed);
  const std::int64_t n = tensor.numel();
  // A period of values is enough for timing and far quicker to make.
  constexpr std::int64_t kPeriod = 1 << 16;
  for (std::int64_t i = 0; i < std::min(n, kPeriod); ++i)
    store_from_double(dtype, scale * stream.next_normal(),
                      tensor.mutable_data(), i);
  const auto period = static_cast<std::size_t>(
      storage_bytes(dtype, std::min(n, kPeriod)).value());
  const std::size_t size = tensor.view.bytes().size();
  for (std::size_t at = period; at < size; at += period)
    std::memcpy(tensor.mutable_data() + at, tensor.mutable_data(),
                std::min(period, size - at));
  return tensor;
}

}  // namespace assay::bench

int main(int argc, char** argv) {
  using assay::bench::rows;
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const auto& row : rows()) fmt::print("{}\n", row.name);
    return 0;
  }
  if (argc == 2) {
    for (const auto& row : rows())
      if (row.name == argv[1]) return assay::bench::measure(row), 0;
  }
  fmt::print(stderr, "usage: bench_te --list | NAME\n");
  return 2;
}

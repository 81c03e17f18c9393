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

double seconds_of(const Body& body, int repeats) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) body();
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  return taken.count() / repeats;
}

int repeats_of(const Body& body) {
  body();  // first touch, caches of kernels
  const double once = seconds_of(body, 1);
  return once >= kLeastSeconds ? 1 : static_cast<int>(kLeastSeconds / once) + 1;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

// A copy that reads and writes `bytes` in all, on every core.
Body copy_of(double bytes) {
  const auto half = static_cast<std::int64_t>(bytes / 2);
  auto from = Tensor::zeros(DType::kU8, {half});
  auto to = Tensor::zeros(DType::kU8, {half});
  return [from, to]() mutable {
    const auto size = static_cast<std::size_t>(from.numel());
    parallel_for(static_cast<std::int64_t>((size + kSlice - 1) / kSlice),
                 [&](std::int64_t i) {
                   const std::size_t at = static_cast<std::size_t>(i) * kSlice;
                   std::memcpy(to.mutable_data() + at, from.view.data + at,
                               std::min(kSlice, size - at));
                 });
  };
}

void measure(const Row& row) {
  struct Side {
    Body body;
    int repeats;
    std::vector<double> taken;
  };
  std::vector<Side> sides;
  sides.push_back({row.prepare(), 1, {}});
  if (row.bytes > 0) sides.push_back({copy_of(row.bytes), 1, {}});
  if (row.prepare_peer) sides.push_back({row.prepare_peer(), 1, {}});
  for (Side& side : sides) side.repeats = repeats_of(side.body);
  for (int run = 0; run < kRuns; ++run)
    for (Side& side : sides)
      side.taken.push_back(seconds_of(side.body, side.repeats));

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

// The fused statistics against a plain read of the same bytes: 1 GiB a side,
// in memory, buffers reused. Prints a table; with an argument, appends one
// line per figure to that file: name, ours, peer, ratio, goal, ok or short.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/core/dtype.h"
#include "assay/kernels/kernels.h"
#include "assay/metrics/error_stats.h"
#include "bench/stream_read.h"

namespace assay::bench {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;
constexpr std::size_t kSlice = std::size_t{256} << 10;
constexpr int kRuns = 7;

// Memory in huge pages where the system grants them, touched once.
std::byte* buffer(std::size_t bytes) {
  void* p = mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    fmt::print(stderr, "bench_stats: no memory for {} bytes\n", bytes);
    std::exit(1);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  auto* aligned =
      reinterpret_cast<std::byte*>((address + kHuge - 1) / kHuge * kHuge);
  madvise(aligned, bytes, MADV_HUGEPAGE);
  std::memset(aligned, 0, bytes);
  return aligned;
}

std::uint64_t next(std::uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

// Values of both signs over a few octaves around 1; the target differs by one
// ulp in about half of the places, and nowhere else.
template <typename Code>
void fill(std::byte* golden, std::byte* target, std::size_t bytes,
          int mantissa_bits, bool noise) {
  auto* x = reinterpret_cast<Code*>(golden);
  auto* y = reinterpret_cast<Code*>(target);
  constexpr int kBits = 8 * sizeof(Code);
  std::uint64_t state = 88172645463325252u;
  for (std::size_t i = 0; i < bytes / sizeof(Code); ++i) {
    const std::uint64_t r = next(state);
    const auto fraction =
        static_cast<Code>(r & ((std::uint64_t{1} << mantissa_bits) - 1));
    const auto exponent =
        static_cast<Code>((124 + (r >> 40) % 6) << mantissa_bits);
    const auto sign = static_cast<Code>((r >> 50 & 1) << (kBits - 1));
    x[i] = static_cast<Code>(sign | exponent | fraction);
    y[i] = static_cast<Code>(x[i] ^ static_cast<Code>(noise && (r >> 60 & 1)));
  }
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + kRuns / 2, values.end());
  return values[kRuns / 2];
}

struct Report {
  const char* file;
  void add(const std::string& name, double ours, double peer,
           double goal) const {
    const double ratio = ours / peer;
    const char* verdict = ratio >= goal ? "ok" : "short";
    fmt::print(
        "{:<34} {:>7.2f} GB/s   read {:>7.2f} GB/s   {:>5.2f}   "
        "goal {:.2f}   {}\n",
        name, ours, peer, ratio, goal, verdict);
    if (file == nullptr) return;
    std::FILE* out = std::fopen(file, "a");
    if (out == nullptr) return;
    fmt::print(out, "{}\t{:.2f} GB/s\t{:.2f} GB/s\t{:.3f}\t{:.2f}\t{}\n", name,
               ours, peer, ratio, goal, verdict);
    std::fclose(out);
  }
};

struct Buffers {
  std::byte *golden, *target;
  std::size_t bytes;
};

void read_all(const Buffers& b) {
  static std::atomic<std::uint64_t> sink;
  if (thread_count() == 1) {
    sink ^= read_two(b.golden, b.target, b.bytes);
    return;
  }
  parallel_for(static_cast<std::int64_t>(b.bytes / kSlice),
               [&](std::int64_t i) {
                 const std::size_t at = static_cast<std::size_t>(i) * kSlice;
                 sink ^= read_two(b.golden + at, b.target + at, kSlice);
               });
}

// Medians of runs that alternate between us and the read.
void measure(const Report& report, const std::string& name, const Buffers& b,
             double goal, const std::function<void()>& ours) {
  std::vector<double> us, peer;
  ours();
  for (int i = 0; i < kRuns; ++i) {
    peer.push_back(seconds([&] { read_all(b); }));
    us.push_back(seconds(ours));
  }
  const double gigabytes = 2e-9 * static_cast<double>(b.bytes);
  report.add(name, gigabytes / median(us), gigabytes / median(peer), goal);
}

void measure_dtype(const Report& report, DType dtype, const Buffers& b,
                   bool equal) {
  const auto n = static_cast<std::int64_t>(b.bytes) * 8 / traits(dtype).bits;
  const TensorView x{dtype, {n}, {}, b.golden}, y{dtype, {n}, {}, b.target};
  const std::string name{traits(dtype).short_name};
  ErrorStats stats;
  const auto tier1 = [&] { stats = compute_stats(x, y); };
  const DetailRequest request{{0, 1e-6, 2}, {}};
  const auto tier2 = [&] { compute_detail(x, y, request, stats); };
  for (const int threads : {1, 0}) {
    set_thread_count(threads);
    const std::string cores = threads == 1 ? ", 1 core" : ", all cores";
    if (equal) {
      measure(report, "equal pair " + name + cores, b, 0.9, tier1);
      continue;
    }
    measure(report, "fused pass " + name + cores, b, threads == 1 ? 0.7 : 0.85,
            tier1);
    measure(report, "detail tier " + name + cores, b, 0.3, tier2);
  }
  set_thread_count(0);
}

}  // namespace
}  // namespace assay::bench

int main(int argc, char** argv) {
  using namespace assay;
  using namespace assay::bench;
  const Report report{argc > 1 ? argv[1] : nullptr};
  const std::size_t bytes = std::size_t{1} << 30;
  const Buffers b{buffer(bytes), buffer(bytes), bytes};
  fmt::print("{} threads, {}\n", thread_count(), kernels().isa);
  for (const bool noise : {true, false}) {
    fill<std::uint32_t>(b.golden, b.target, bytes, 23, noise);
    measure_dtype(report, DType::kF32, b, !noise);
    fill<std::uint16_t>(b.golden, b.target, bytes, 7, noise);
    measure_dtype(report, DType::kBF16, b, !noise);
  }
}

// What letting rows travel while others are multiplied gains: each overlap of
// te/parallel/tensor_parallel.h against the same calls one after the other.
//
//   tools/mpirun.sh 2 build/release/bin/bench_overlap [table.tsv]
//
// One thread a rank. Rank 0 prints, and appends rows of name, overlapped ms,
// plain ms, plain / overlapped, goal and verdict to the table. A round is as
// slow as its slowest rank; medians over rounds that take turns.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/core/philox.h"
#include "assay/numerics/element.h"
#include "assay/te/parallel/collectives.h"
#include "assay/te/parallel/tensor_parallel.h"
#include "assay/te/quantize/mxfp8.h"

namespace assay::te {
namespace {

constexpr int kRounds = 15;
// Nothing is promised where every core multiplies: only that little is lost.
constexpr double kGoal = 0.9;

Tensor random(Shape shape, std::uint64_t seed) {
  Tensor t = Tensor::empty(DType::kBF16, std::move(shape));
  PhiloxStream stream(seed);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(DType::kBF16, stream.next_normal(), t.mutable_data(), i);
  return t;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Milliseconds of the slowest rank.
double time_of(const std::function<void()>& call, Communicator& group) {
  group.barrier();
  const auto begin = std::chrono::steady_clock::now();
  call();
  const std::chrono::duration<double, std::milli> own =
      std::chrono::steady_clock::now() - begin;
  const double ms = own.count();
  std::vector<double> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(&ms, 1)),
                   std::as_writable_bytes(std::span(all)));
  return *std::max_element(all.begin(), all.end());
}

class Bench {
 public:
  Bench(std::shared_ptr<Communicator> group, const char* table)
      : group_(std::move(group)), table_(table) {}

  using Call = std::function<void(const ParallelLinear&)>;
  void row(const std::string& name, const CommOverlap& overlap,
           const Call& call) {
    const ParallelLinear plain{group_.get(), true, {}};
    const ParallelLinear overlapped{group_.get(), true, overlap};
    std::vector<double> ours, peer;
    for (int i = 0; i < kRounds; ++i) {
      peer.push_back(time_of([&] { call(plain); }, *group_));
      ours.push_back(time_of([&] { call(overlapped); }, *group_));
    }
    if (group_->rank() == 0) print(name, median(ours), median(peer));
  }

 private:
  void print(const std::string& name, double ours, double peer) const {
    const double ratio = peer / ours;
    const char* verdict = ratio >= kGoal ? "ok" : "short";
    std::printf("%-44s %8.2f ms %8.2f ms  %.2f\n", name.c_str(), ours, peer,
                ratio);
    if (!table_) return;
    std::FILE* file = std::fopen(table_, "a");
    if (!file) return;
    std::fprintf(file, "%s\t%.2f ms\t%.2f ms\t%.2f\t%.2f\t%s\n", name.c_str(),
                 ours, peer, ratio, kGoal, verdict);
    std::fclose(file);
  }

  std::shared_ptr<Communicator> group_;
  const char* table_;
};

struct Operands {
  GemmOperand x, w, dy;
};

void rows_of_layer(Bench& bench, const std::string& dtype,
                   const Operands& column, const Operands& row) {
  CommOverlap ring, pipeline, dgrad, bulk;
  ring.ub_overlap_ag = ring.ub_overlap_rs = true;
  pipeline.ub_overlap_rs = true;
  pipeline.rs_method = OverlapMethod::kPipeline;
  dgrad.ub_overlap_rs_dgrad = true;
  bulk.ub_bulk_dgrad = bulk.ub_bulk_wgrad = true;
  GemmOptions bf16;
  bf16.out_dtype = DType::kBF16;
  const auto forward = [&](const ParallelLinear& how) {
    column_parallel_forward(column.x, column.w, how, bf16);
  };
  const auto scatter = [&](const ParallelLinear& how) {
    row_parallel_forward(row.x, row.w, how, bf16);
  };
  const auto backward = [&](const ParallelLinear& how) {
    column_parallel_backward(column.dy, column.x, column.w, how);
  };
  bench.row(dtype + " gather + GEMM, ring_exchange", ring, forward);
  bench.row(dtype + " GEMM + scatter, ring_exchange", ring, scatter);
  bench.row(dtype + " GEMM + scatter, pipeline", pipeline, scatter);
  bench.row(dtype + " column backward, ring_exchange", dgrad, backward);
  bench.row(dtype + " column backward, bulk", bulk, backward);
}

void run(const char* table) {
  const auto group =
      launched_by_mpi() ? mpi_communicator() : self_communicator();
  set_thread_count(1);
  const std::int64_t ranks = group->size();
  constexpr std::int64_t kTokens = 2048, kHidden = 1024, kInner = 4096;
  Bench bench(group, table);
  if (group->rank() == 0)
    std::printf("%d ranks, %ld tokens, %ld -> %ld; overlapped, plain, ratio\n",
                group->size(), static_cast<long>(kTokens),
                static_cast<long>(kHidden), static_cast<long>(kInner));
  const Tensor x = random({kTokens / ranks, kHidden}, 1);
  const Tensor w = random({kInner / ranks, kHidden}, 2);
  const Tensor dy = random({kTokens, kInner / ranks}, 3);
  const Tensor inner = random({kTokens, kInner / ranks}, 4);
  const Tensor v = random({kHidden, kInner / ranks}, 5);
  rows_of_layer(bench, "bf16", {x, w, dy}, {inner, v, x});
  MXFP8Quantizer quantizer(DType::kE4M3FN);
  const auto qx = quantizer.quantize(x), qw = quantizer.quantize(w),
             qdy = quantizer.quantize(dy), qi = quantizer.quantize(inner),
             qv = quantizer.quantize(v);
  rows_of_layer(bench, "mxfp8", {qx, qw, qdy}, {qi, qv, qx});
}

}  // namespace
}  // namespace assay::te

int main(int argc, char** argv) {
  assay::te::run(argc > 1 ? argv[1] : nullptr);
  return 0;
}

// Rows of the engine's benchmark. A family registers its rows at namespace
// scope of bench_<family>.cpp; torch's side of the same rows, by name, stands
// in torch_<family>.py:
//
//   const Row kRows[] = {
//     {.name = "rmsnorm_forward_bf16", .bytes = 2.0 * kRows * kCols * 2,
//      .prepare = [] { auto x = ...; return [x] { rmsnorm_forward(x, ...); };
//      }},
//   };
//   const Registration kNorms{kRows};
//
//   PEERS = {"rmsnorm_forward_bf16": lambda: (lambda x=...: F.rms_norm(x...))}
//
// Run: make bench, or
//   python bench/te/bench_te.py build/release/bin/bench_te out.tsv --only
//   'rms*'
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "assay/core/tensor.h"

namespace assay::bench {

using Body = std::function<void()>;

struct Row {
  std::string name;
  // Bytes the operator must read and write at least; 0: not bound by memory.
  double bytes = 0;
  double memory_goal = 0.7;  // of the bandwidth of a copy of as many bytes
  double torch_goal = 1.0;   // torch's time over ours
  // Floating-point operations, for the text; 0: none.
  double flops = 0;
  std::function<Body()> prepare;  // allocates inputs, gives the call to time
  // A peer in the same process, such as bare oneDNN. Empty: none.
  std::string peer_name;
  double peer_goal = 0;  // the peer's time over ours
  std::function<Body()> prepare_peer;
};

std::vector<Row>& rows();

struct Registration {
  template <typename Rows>
  explicit Registration(const Rows& more) {
    rows().insert(rows().end(), std::begin(more), std::end(more));
  }
};

// Standard normal values (Philox), in any float dtype.
Tensor random_tensor(DType dtype, Shape shape, std::uint64_t seed = 1,
                     double scale = 1.0);

}  // namespace assay::bench

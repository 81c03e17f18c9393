// The GEMM's tables: every fp32 unit of this machine, and the widest one with
// each bf16 unit.
#include "assay/kernels/gemm.h"

#include <array>
#include <vector>

#include "assay/kernels/family.h"
#include "assay/kernels/gemm_unit.h"
#include "assay/kernels/ref/ref_gemm.h"
#include "assay/kernels/simd/gemm.h"
#include "assay/kernels/x86/gemm_bf16.h"

namespace assay {
namespace {

constexpr std::size_t kMostTables = 8;

struct Combination {
  const GemmVectorUnits* vector;
  const GemmUnit* bf16;
};

std::vector<Combination> combinations() {
  std::vector<Combination> all;
  for (const GemmVectorUnits* vector : simd_gemm_units()) {
    if (std::string_view(vector->isa) == "avx512") {
      for (const GemmUnit* unit : {amx_gemm_unit(), avx512_bf16_gemm_unit()})
        if (unit) all.push_back({vector, unit});
    }
    all.push_back({vector, nullptr});
  }
  return all;
}

// A kernel is a bare function: one per place in the list.
template <std::size_t i>
void run(const GemmProblem& problem) {
  static const GemmUnits units = [] {
    const Combination c = combinations()[i];
    return GemmUnits{&c.vector->f32, c.bf16, c.vector->epilogue};
  }();
  run_gemm(units, problem);
}

template <std::size_t... i>
constexpr auto runners(std::index_sequence<i...>) {
  return std::array{&run<i>...};
}

std::vector<const GemmKernels*> make_tables() {
  static const auto kRunners = runners(std::make_index_sequence<kMostTables>());
  static std::array<GemmKernels, kMostTables> storage;
  std::vector<const GemmKernels*> tables;
  for (const Combination& c : combinations()) {
    const std::size_t i = tables.size();
    storage[i] = {c.vector->isa, (c.bf16 ? c.bf16 : &c.vector->f32)->name,
                  kRunners[i]};
    tables.push_back(&storage[i]);
  }
  tables.push_back(&kRefGemm);
  return tables;
}

const std::vector<const GemmKernels*>& tables() {
  static const std::vector<const GemmKernels*> all = make_tables();
  return all;
}

}  // namespace

std::span<const GemmKernels* const> all_gemm_kernels() { return tables(); }

const GemmKernels& gemm_kernels(Device device) {
  return choose_family<GemmKernels>(tables(), device);
}

}  // namespace assay

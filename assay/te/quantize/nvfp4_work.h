// One tensor on its way to NVFP4: what is found out and written in which order.
// For nvfp4.cpp.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "assay/te/quantize/column_tiles.h"
#include "assay/te/quantize/jobs.h"
#include "assay/te/quantize/nvfp4.h"

namespace assay::te {

// amax_job(), then amax() and set_amax(), then quantize_job(), then take().
// Each job may run together with those of other tensors. x is contiguous and
// checked, and outlives the work, as do the options.
class Nvfp4Work {
 public:
  Nvfp4Work(const NVFP4Options& options, Usage usage, const Tensor& x,
            std::uint64_t random_offset);

  Job amax_job();
  // What a group of processes has to agree on: the amax of rows and that of
  // columns or, row-scaled, of each row.
  std::vector<float> amax() const;
  void set_amax(const float* values);
  Job quantize_job();
  QuantizedTensor take();

 private:
  // A direction: a matrix of codes, its scales, and the factors for them.
  struct Target {
    QuantizedData data;
    Nvfp4Run run;  // codes and scales: of the whole direction
    std::array<float, 127> factors{};
    RandomStream random;
  };

  Target make_target(bool columnwise, std::uint64_t offset) const;
  static void set_scale(Target& target, float amax, float scale_max);
  TileArea area(std::int64_t i) const;
  std::int64_t areas() const;
  void find_amax(std::int64_t i);
  void quantize_area(std::int64_t i);
  void quantize_row_scaled(const TileArea& a);
  void quantize_run(const Target& target, const std::byte* x, std::int64_t at,
                    std::int64_t blocks, std::int64_t runs = 1) const;
  void quantize_columns(const ColumnTile& tile) const;
  std::optional<std::uint16_t> signs() const;

  const NVFP4Options& options_;
  const Tensor x_;
  const std::int64_t rows_, columns_, size_;
  const BlockQuantKernels& kernels_;
  std::int64_t area_rows_, area_columns_;
  bool columnwise_;  // wanted
  bool rowwise_;
  std::optional<Target> row_, column_;
  std::vector<float> row_parts_, column_parts_;  // amax of each area (or row)
};

}  // namespace assay::te

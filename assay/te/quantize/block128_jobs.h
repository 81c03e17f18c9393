// The loops of block-128 quantisation over one tensor.
#pragma once

#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/jobs.h"

namespace assay::te {

// A contiguous tensor and its results, allocated; what is absent of the two
// directions is not computed.
struct Block128Pass {
  Tensor x;
  Block128Options options;
  QuantizedTensor out;
};

// Fills pass.out; `pass` must outlive the job. Strips of 128 rows by 512
// columns (tiles of 128 x 128 in it) are the blocks.
Job block128_job(Block128Pass& pass);

}  // namespace assay::te

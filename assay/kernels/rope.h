// Rotary position embedding of one token: its angles, and the rotation of its
// heads.
//
// Of the first `rotated` = d2 dims of a head, dims j and partner(j) turn into
// each other; the others are copied:
//   half split:   partner(j) = j +- d2 / 2      interleaved: partner(j) = j ^ 1
//   out[j] = x[j] cos[j] -+ x[partner(j)] sin[j]   (- for the first of the two)
// Angles are given for every j by itself; nothing assumes that the two of a
// pair have the same. Backward is the transpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "assay/core/dtype.h"
#include "assay/kernels/family.h"

namespace assay {

// Heads of one token; strides count elements.
struct RopeRows {
  DType dtype = DType::kF32;
  const std::byte* from = nullptr;
  std::int64_t from_stride = 0;
  std::byte* to = nullptr;
  std::int64_t to_stride = 0;
  std::int64_t heads = 0, dim = 0;
  std::int64_t rotated = 0;  // even, at most dim
  bool interleaved = false;
};

struct RopeKernels {
  const char* isa;
  // Bytes of a table for d2 angles.
  std::size_t element_bytes;
  // Fills `table` (2 d2 elements) from d2 fp32 angles: cosines, then sines as
  // they multiply partners, in the order in which rotate() takes them for this
  // dtype and pairing (fp32: as they come). Vectors: angles reduced in fp64,
  // cos and sin within 0.6 ulp of fp32 for |angle| < 2^30. Plain loops: fp64.
  void (*prepare)(const float* angles, std::int64_t d2, DType dtype,
                  bool interleaved, bool backward, void* table);
  // Multiplies and adds in fp32 (one fused), plain loops fp64; rounds once.
  void (*rotate)(const RopeRows& rows, const void* table);
};

const RopeKernels& rope_kernels(Device device);
std::span<const RopeKernels* const> all_rope_kernels();

}  // namespace assay

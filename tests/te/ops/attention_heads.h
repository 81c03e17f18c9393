// Random heads of attention for the tests, and their results by plain loops
// and by tiles.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "assay/core/philox.h"
#include "assay/kernels/attention.h"
#include "assay/kernels/attention_tiles.h"
#include "assay/numerics/element.h"
#include "assay/te/ops/attention_flash.h"

namespace assay::te {

// Values of a dtype with their bytes.
struct Values {
  DType dtype = DType::kF32;
  std::int64_t rows = 0, columns = 0;
  std::vector<std::byte> bytes;

  Values() = default;
  Values(DType d, std::int64_t r, std::int64_t c)
      : dtype(d),
        rows(r),
        columns(c),
        bytes(static_cast<std::size_t>(r * c * (traits(d).bits / 8))) {}

  RowsView view() const { return {bytes.data(), columns}; }
  double at(std::int64_t r, std::int64_t c) const {
    return load_as_double(dtype, bytes.data(), r * columns + c);
  }
  void set(std::int64_t r, std::int64_t c, double v) {
    store_from_double(dtype, v, bytes.data(), r * columns + c);
  }
};

inline Values normal_values(DType dtype, std::int64_t rows,
                            std::int64_t columns, std::uint64_t seed,
                            double scale = 1.0) {
  Values v(dtype, rows, columns);
  PhiloxStream stream(seed);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      v.set(r, c, scale * stream.next_normal());
  return v;
}

// One head over memory of its own.
struct OwnedHead {
  Values q, k, v, d_out, bias;
  std::vector<std::uint8_t> mask;
  AttentionHead head;

  OwnedHead(DType dtype, std::int64_t queries, std::int64_t keys,
            std::int64_t qk_dim, std::int64_t v_dim, std::uint64_t seed = 1)
      : q(normal_values(dtype, queries, qk_dim, seed)),
        k(normal_values(dtype, keys, qk_dim, seed + 1)),
        v(normal_values(dtype, keys, v_dim, seed + 2)),
        d_out(normal_values(dtype, queries, v_dim, seed + 3)) {
    head.dtype = dtype;
    head.queries = queries;
    head.keys = keys;
    head.qk_dim = qk_dim;
    head.v_dim = v_dim;
    head.scale = 1.0f / std::sqrt(static_cast<float>(qk_dim));
    point();
  }
  OwnedHead(const OwnedHead&) = delete;
  OwnedHead& operator=(const OwnedHead&) = delete;

  void point() {
    head.q = q.view();
    head.k = k.view();
    head.v = v.view();
  }
  void add_bias(DType dtype, std::uint64_t seed = 9) {
    bias = normal_values(dtype, head.queries, head.keys, seed);
    head.bias.data = bias.bytes.data();
    head.bias.dtype = dtype;
    head.bias.row_stride = head.keys;
    head.bias.column_stride = 1;
  }
  void add_mask(std::uint64_t seed = 11) {
    PhiloxStream stream(seed);
    mask.resize(static_cast<std::size_t>(head.queries * head.keys));
    for (auto& m : mask) m = stream.next_uniform() < 0.3 ? 1 : 0;
    head.mask = mask.data();
    head.mask_row = head.keys;
    head.mask_column = 1;
  }
};

struct HeadForward {
  Values out;
  std::vector<float> lse, row_max;
};

struct HeadBackward {
  std::vector<float> dq, dk, dv, d_bias;
  double d_sink = 0;
};

// Null `tiles`: plain loops.
inline HeadForward run_forward(
    const OwnedHead& h, const AttentionTileChoice* tiles,
    InternalPrecision precision = InternalPrecision::kF64) {
  HeadForward f{Values(h.head.dtype, h.head.queries, h.head.v_dim), {}, {}};
  f.lse.assign(static_cast<std::size_t>(h.head.queries), -7);
  f.row_max = f.lse;
  // What is not written must show: no finite sum of ours is this pattern.
  std::fill(f.out.bytes.begin(), f.out.bytes.end(), std::byte{0x7d});
  const AttentionOutput o{f.out.bytes.data(), h.head.v_dim, f.lse.data(),
                          f.row_max.data()};
  if (tiles == nullptr)
    ref_attention_forward(h.head, 0, h.head.queries, precision, o);
  else
    flash_attention_forward(*tiles, {&h.head, 1}, {&o, 1});
  return f;
}

inline HeadBackward run_backward(
    const OwnedHead& h, const HeadForward& f, const AttentionTileChoice* tiles,
    InternalPrecision precision = InternalPrecision::kF64) {
  const auto size = [](std::int64_t a, std::int64_t b) {
    return static_cast<std::size_t>(a * b);
  };
  const AttentionHead& a = h.head;
  HeadBackward b;
  b.dq.assign(size(a.queries, a.qk_dim), NAN);
  b.dk.assign(size(a.keys, a.qk_dim), NAN);
  b.dv.assign(size(a.keys, a.v_dim), NAN);
  b.d_bias.assign(size(a.queries, a.keys), 0);
  AttentionGradient g{.out = f.out.view(),
                      .d_out = h.d_out.view(),
                      .lse = f.lse.data(),
                      .dq = b.dq.data(),
                      .dk = b.dk.data(),
                      .dv = b.dv.data(),
                      .d_sink = &b.d_sink};
  if (a.bias.data != nullptr) {
    g.d_bias = b.d_bias.data();
    g.d_bias_row = a.keys;
    g.d_bias_column = 1;
  }
  if (tiles == nullptr)
    ref_attention_backward(a, precision, g);
  else
    flash_attention_backward(*tiles, {&a, 1}, {&g, 1});
  return b;
}

// Every table of this machine; the fp32 one of its set takes special inputs.
inline std::vector<AttentionTileChoice> all_choices() {
  std::vector<AttentionTileChoice> choices;
  const auto tables = all_attention_tiles();
  for (std::size_t i = 0; i < tables.size(); ++i) {
    std::size_t general = i;
    while (tables[general]->element_bytes != 4) ++general;
    choices.push_back({tables[i], tables[general]});
  }
  return choices;
}

}  // namespace assay::te

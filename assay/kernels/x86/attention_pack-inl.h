// Operands of the bf16 products, from rows of bf16 codes.
// A part of attention.cpp: no guard, no includes.

// 16 x 16 transpose of 32-bit elements, rows and columns of any stride.
inline void transpose_16x16(const __m512i in[16], std::uint32_t* to,
                            std::int64_t stride) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(in[i], in[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(in[i], in[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    a[i] = _mm512_shuffle_i32x4(b[i], b[i + 4], 0x88);
    a[i + 4] = _mm512_shuffle_i32x4(b[i], b[i + 4], 0xdd);
    a[i + 8] = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0x88);
    a[i + 12] = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    b[i] = _mm512_shuffle_i32x4(a[i], a[i + 8], 0x88);
    b[i + 8] = _mm512_shuffle_i32x4(a[i], a[i + 8], 0xdd);
    b[i + 4] = _mm512_shuffle_i32x4(a[i + 4], a[i + 12], 0x88);
    b[i + 12] = _mm512_shuffle_i32x4(a[i + 4], a[i + 12], 0xdd);
  }
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * stride, b[i]);
}

void transpose_f32(const float* from, std::int64_t rows, std::int64_t columns,
                   float* to) {
  for (std::int64_t r = 0; r < rows; r += 16)
    for (std::int64_t c = 0; c < columns; c += 16) {
      __m512i block[16];
      for (int i = 0; i < 16; ++i)
        block[i] = _mm512_loadu_si512(from + (r + i) * columns + c);
      transpose_16x16(
          block, reinterpret_cast<std::uint32_t*>(to) + c * rows + r, rows);
    }
}

// Sixteen rows of 32 codes, zero outside the source.
struct Codes {
  __m512i row[16];
};

inline Codes load_codes(const PackSource& s, std::int64_t r, std::int64_t c) {
  const std::int64_t n = s.columns - c;
  const __mmask32 used = n >= 32  ? ~__mmask32{0}
                         : n <= 0 ? __mmask32{0}
                                  : (__mmask32{1} << n) - 1;
  const auto* codes = reinterpret_cast<const std::uint16_t*>(s.data);
  Codes out;
  for (int i = 0; i < 16; ++i)
    out.row[i] =
        r + i < s.rows && used != 0
            ? _mm512_maskz_loadu_epi16(used, codes + (r + i) * s.stride + c)
            : _mm512_setzero_si512();
  return out;
}

// Exponent all ones, or zero under a mantissa that is not.
inline bool any_special(const Codes& codes) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  const __m512i magnitude = _mm512_set1_epi16(0x7fff);
  __mmask32 special = 0;
  for (const __m512i& row : codes.row) {
    const __m512i e = _mm512_and_si512(row, exponent);
    special |= _mm512_cmpeq_epi16_mask(e, exponent);
    special |= _mm512_testn_epi16_mask(row, exponent) &
               _mm512_test_epi16_mask(row, magnitude);
  }
  return special != 0;
}

// Two rows woven into pairs, columns in order.
inline void weave(const __m512i& even, const __m512i& odd, __m512i& low,
                  __m512i& high) {
  const __m512i a = _mm512_unpacklo_epi16(even, odd);
  const __m512i b = _mm512_unpackhi_epi16(even, odd);
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  low = _mm512_permutex2var_epi64(a, first, b);
  high = _mm512_permutex2var_epi64(a, second, b);
}

// Pairs of rows of 32 columns: 8 x 32 words.
struct Woven {
  __m512i low[8], high[8];
};

inline Woven weave_rows(const Codes& codes) {
  Woven w;
  for (int i = 0; i < 8; ++i)
    weave(codes.row[2 * i], codes.row[2 * i + 1], w.low[i], w.high[i]);
  return w;
}

bool pack_bf16(const PackSource& s, const PackTargets& t) {
  if (s.dtype != DType::kBF16) return false;
  bool special = false;
  const std::int64_t rows = s.padded_rows, columns = s.padded_columns;
  for (std::int64_t c = 0; c < columns; c += 32) {
    for (std::int64_t r = 0; r < rows; r += 16) {
      const Codes codes = load_codes(s, r, c);
      special |= any_special(codes);
      if (t.a != nullptr)
        for (int i = 0; i < 16; ++i)
          _mm512_storeu_si512(
              static_cast<std::uint16_t*>(t.a) + (r + i) * columns + c,
              codes.row[i]);
      // A row's codes, two by two, are the words that B = S^T turns.
      if (t.b_transposed != nullptr)
        transpose_16x16(
            codes.row,
            static_cast<std::uint32_t*>(t.b_transposed) + c / 2 * rows + r,
            rows);
      if (t.b == nullptr && t.a_transposed == nullptr) continue;
      const Woven woven = weave_rows(codes);
      if (t.b != nullptr)
        for (int i = 0; i < 8; ++i) {
          auto* to =
              static_cast<std::uint32_t*>(t.b) + (r / 2 + i) * columns + c;
          _mm512_storeu_si512(to, woven.low[i]);
          _mm512_storeu_si512(to + 16, woven.high[i]);
        }
      if (t.a_transposed == nullptr) continue;
      // Woven pairs, turned, are rows of S^T: eight words of each of 32.
      alignas(64) std::uint32_t turned[16 * 16];
      __m512i half[16];
      for (int side = 0; side < 2; ++side) {
        for (int i = 0; i < 8; ++i) {
          half[i] = side == 0 ? woven.low[i] : woven.high[i];
          half[i + 8] = _mm512_setzero_si512();
        }
        transpose_16x16(half, turned, 16);
        for (int i = 0; i < 16; ++i) {
          auto* to = static_cast<std::uint16_t*>(t.a_transposed) +
                     (c + 16 * side + i) * rows + r;
          _mm256_storeu_si256(
              reinterpret_cast<__m256i*>(to),
              _mm256_load_si256(
                  reinterpret_cast<const __m256i*>(turned + 16 * i)));
        }
      }
    }
  }
  return !special;
}

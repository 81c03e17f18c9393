// Products of bf16 operands: AMX tiles, and AVX-512's dot product.
// A part of attention.cpp: no guard, no includes.

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// All eight tiles whole: 16 rows of 64 bytes.
void configure_tiles() {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.bytes[i] = 64;
    config.rows[i] = 16;
  }
  // Not the intrinsic: GCC's tells the compiler of the first eight bytes only,
  // and the stores to the others vanish.
  asm volatile("ldtilecfg %0" : : "m"(config));
}

void release_tiles() { _tile_release(); }

// C of 32 x 32: two by two tiles, 16 x 16 each.
void amx_32x32(std::int64_t n, std::int64_t k, const std::uint16_t* a,
               const std::uint32_t* b, float* c, bool accumulate) {
  const auto c_stride = static_cast<std::size_t>(n) * 4;
  const auto a_stride = static_cast<std::size_t>(k) * 2;
  const auto b_stride = static_cast<std::size_t>(n) * 4;
  if (accumulate) {
    _tile_loadd(0, c, c_stride);
    _tile_loadd(1, c + 16, c_stride);
    _tile_loadd(2, c + 16 * n, c_stride);
    _tile_loadd(3, c + 16 * n + 16, c_stride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t i = 0; i < k; i += 32) {
    _tile_loadd(4, a + i, a_stride);
    _tile_loadd(6, b + i / 2 * n, b_stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + i / 2 * n + 16, b_stride);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + 16 * k + i, a_stride);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_stride);
  _tile_stored(1, c + 16, c_stride);
  _tile_stored(2, c + 16 * n, c_stride);
  _tile_stored(3, c + 16 * n + 16, c_stride);
}

void amx_16x16(std::int64_t n, std::int64_t k, const std::uint16_t* a,
               const std::uint32_t* b, float* c, bool accumulate) {
  const auto n_stride = static_cast<std::size_t>(n) * 4;
  if (accumulate)
    _tile_loadd(0, c, n_stride);
  else
    _tile_zero(0);
  for (std::int64_t i = 0; i < k; i += 32) {
    _tile_loadd(4, a + i, static_cast<std::size_t>(k) * 2);
    _tile_loadd(6, b + i / 2 * n, n_stride);
    _tile_dpbf16ps(0, 4, 6);
  }
  _tile_stored(0, c, n_stride);
}

void product_amx(std::int64_t m, std::int64_t n, std::int64_t k,
                 const void* a_void, const void* b_void, float* c,
                 bool accumulate) {
  const auto* a = static_cast<const std::uint16_t*>(a_void);
  const auto* b = static_cast<const std::uint32_t*>(b_void);
  if (m % 32 == 0 && n % 32 == 0) {
    for (std::int64_t j = 0; j < n; j += 32)
      for (std::int64_t i = 0; i < m; i += 32)
        amx_32x32(n, k, a + i * k, b + j, c + i * n + j, accumulate);
    return;
  }
  for (std::int64_t j = 0; j < n; j += 16)
    for (std::int64_t i = 0; i < m; i += 16)
      amx_16x16(n, k, a + i * k, b + j, c + i * n + j, accumulate);
}

// Eight rows by kVectors vectors of C over all of K.
template <int kVectors>
void dot_block(std::int64_t n, std::int64_t k, const std::uint16_t* a,
               const std::uint32_t* b, float* c, bool accumulate) {
  __m512 sum[8][kVectors];
  for (int r = 0; r < 8; ++r)
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = accumulate ? _mm512_loadu_ps(c + r * n + 16 * v)
                             : _mm512_setzero_ps();
  for (std::int64_t i = 0; i < k; i += 2) {
    __m512i row[kVectors];
    for (int v = 0; v < kVectors; ++v)
      row[v] = _mm512_loadu_si512(b + i / 2 * n + 16 * v);
    for (int r = 0; r < 8; ++r) {
      std::int32_t pair;
      std::memcpy(&pair, a + r * k + i, 4);
      const auto x = (__m512bh)_mm512_set1_epi32(pair);
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = _mm512_dpbf16_ps(sum[r][v], x, (__m512bh)row[v]);
    }
  }
  for (int r = 0; r < 8; ++r)
    for (int v = 0; v < kVectors; ++v)
      _mm512_storeu_ps(c + r * n + 16 * v, sum[r][v]);
}

void product_dot(std::int64_t m, std::int64_t n, std::int64_t k,
                 const void* a_void, const void* b_void, float* c,
                 bool accumulate) {
  const auto* a = static_cast<const std::uint16_t*>(a_void);
  const auto* b = static_cast<const std::uint32_t*>(b_void);
  std::int64_t j = 0;
  for (; j + 32 <= n; j += 32)
    for (std::int64_t i = 0; i < m; i += 8)
      dot_block<2>(n, k, a + i * k, b + j, c + i * n + j, accumulate);
  for (; j < n; j += 16)
    for (std::int64_t i = 0; i < m; i += 8)
      dot_block<1>(n, k, a + i * k, b + j, c + i * n + j, accumulate);
}

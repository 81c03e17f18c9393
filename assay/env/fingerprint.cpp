#include "assay/env/fingerprint.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "assay/base/hash.h"
#include "assay/base/parallel.h"
#include "assay/base/text_out.h"
#include "assay/kernels/cast.h"
#include "assay/kernels/decode.h"
#include "assay/metrics/tensor_summary.h"
#include "assay/trace/capture_content.h"

namespace assay::env {
namespace {

constexpr std::int64_t kBlock = 1 << 15;  // elements; even, for packed dtypes
constexpr std::int64_t kMostRows = 4096;

// A sum that does not depend on the order of what is added.
struct Unordered {
  std::uint64_t high = 0, low = 0;
  void add(const Hash128& hash) {
    high += hash.high;
    low += hash.low;
  }
  std::string text(std::int64_t count) const {
    return to_hex(
        hash128(to_hex({high, low}), static_cast<std::uint64_t>(count)));
  }
};

// A hash of hashes of blocks, which threads fill in.
class Ordered {
 public:
  explicit Ordered(std::size_t blocks) : blocks_(blocks) {}
  void set(std::size_t block, std::span<const std::byte> bytes) {
    blocks_[block] = hash128(bytes);
  }
  std::string text() const {
    return to_hex(hash128(std::as_bytes(std::span(blocks_))));
  }

 private:
  std::vector<Hash128> blocks_;
};

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values,
                                    std::int64_t n) {
  return std::as_bytes(
      std::span<const T>(values.data(), static_cast<std::size_t>(n)));
}

// Elements, of complex dtypes components.
std::int64_t components(DType dtype, std::int64_t n) {
  return is_complex(dtype) ? 2 * n : n;
}

std::uint64_t mixed(std::uint64_t x, std::uint64_t key) {
  x = (x ^ key) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 32);
}

// Which narrower forms a dtype has.
bool has_narrow(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64;
}

class Forms {
 public:
  explicit Forms(const TensorView& tensor)
      : tensor_(tensor),
        narrow_(has_narrow(tensor.dtype)),
        integers_(tensor.dtype == DType::kI64 || tensor.dtype == DType::kU64),
        blocks_(
            static_cast<std::size_t>((tensor.numel() + kBlock - 1) / kBlock)),
        values_(blocks_),
        bf16_(narrow_ ? blocks_ : 0),
        f16_(narrow_ ? blocks_ : 0),
        elements_(blocks_) {}

  void run(TensorPrint& print) {
    parallel_for(static_cast<std::int64_t>(blocks_), [&](std::int64_t i) {
      const std::int64_t begin = i * kBlock;
      block(static_cast<std::size_t>(i), begin,
            std::min(kBlock, tensor_.numel() - begin));
    });
    Unordered elements;
    for (const Hash128& each : elements_) elements.add(each);
    print.as["values"] = values_.text();
    print.as["elements"] = elements.text(tensor_.numel());
    if (!narrow_) return;
    print.as["bfloat16"] = bf16_.text();
    print.as["float16"] = f16_.text();
  }

 private:
  void block(std::size_t number, std::int64_t at, std::int64_t count) {
    const DType dtype = tensor_.dtype;
    const std::int64_t n = components(dtype, count);
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(storage_bytes(dtype, count).value_or(0)));
    std::vector<double> doubles(static_cast<std::size_t>(n));
    gather(tensor_, at, count, bytes.data());
    decode_f64(dtype, bytes.data(), n, doubles.data());
    if (integers_ && !exact(doubles)) {  // beyond 2^53: by their bits
      values_.set(number, bytes);
    } else {
      values_.set(number, bytes_of(doubles, n));
    }
    elements_[number] = sum_of(doubles);
    if (narrow_) add_narrow(number, doubles);
  }

  static bool exact(const std::vector<double>& doubles) {
    constexpr double kLimit = 9007199254740992;  // 2^53
    return std::all_of(doubles.begin(), doubles.end(), [](double value) {
      return value > -kLimit && value < kLimit;
    });
  }

  static Hash128 sum_of(const std::vector<double>& doubles) {
    Hash128 sum;
    for (const double value : doubles) {
      const auto bits = std::bit_cast<std::uint64_t>(value);
      sum.high += mixed(bits, 0x243f6a8885a308d3);
      sum.low += mixed(bits, 0x13198a2e03707344);
    }
    return sum;
  }

  // Float64 by way of float32, as torch narrows it.
  void add_narrow(std::size_t number, std::vector<double>& doubles) {
    const auto n = static_cast<std::int64_t>(doubles.size());
    std::vector<float> floats(doubles.begin(), doubles.end());
    std::vector<std::uint16_t> codes(doubles.size());
    const CastKernels& kernels = cast_kernels(Device::kCpu);
    kernels.to_bf16(floats.data(), n, codes.data());
    add_codes(number, DType::kBF16, codes, bf16_);
    kernels.to_f16(floats.data(), n, codes.data());
    add_codes(number, DType::kF16, codes, f16_);
  }

  static void add_codes(std::size_t number, DType dtype,
                        const std::vector<std::uint16_t>& codes,
                        Ordered& form) {
    const auto n = static_cast<std::int64_t>(codes.size());
    std::vector<double> doubles(codes.size());
    decode_f64(dtype, reinterpret_cast<const std::byte*>(codes.data()), n,
               doubles.data());
    form.set(number, bytes_of(doubles, n));
  }

  const TensorView& tensor_;
  const bool narrow_, integers_;
  const std::size_t blocks_;
  Ordered values_, bf16_, f16_;
  std::vector<Hash128> elements_;
};

void add_rows(const TensorView& tensor, TensorPrint& print) {
  if (tensor.shape.empty()) return;
  const std::int64_t rows = tensor.shape[0];
  if (rows < 1 || rows > kMostRows || tensor.numel() == 0) return;
  const std::int64_t each = tensor.numel() / rows;
  // Packed elements of a row may begin in the middle of a byte.
  if (traits(tensor.dtype).bits < 8) return;
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(storage_bytes(tensor.dtype, each).value_or(0)));
  Unordered sum;
  std::string all;
  for (std::int64_t i = 0; i < rows; ++i) {
    gather(tensor, i * each, each, bytes.data());
    const Hash128 hash = hash128(bytes);
    sum.add(hash);
    all += to_hex(hash).substr(0, 16);
  }
  print.as["rows"] = sum.text(rows);
  print.as["each_row"] = std::move(all);
}

void add_statistics(const TensorView& tensor, TensorPrint& print) {
  const TensorSummary s = summarise(tensor);
  const auto add = [&](const char* name, double value) {
    std::string text;
    append_double(text, value);
    print.statistics[name] = std::move(text);
  };
  if (s.finite > 0) {
    add("max", s.max);
    add("min", s.min);
    add("mean", s.mean);
    add("norm", s.norm);
  }
  if (s.nan > 0) print.statistics["nan"] = std::to_string(s.nan);
  const std::int64_t infinite = s.positive_inf + s.negative_inf;
  if (infinite > 0) print.statistics["inf"] = std::to_string(infinite);
}

}  // namespace

TensorPrint fingerprint(const TensorView& tensor, bool rows) {
  TensorPrint print;
  print.dtype = traits(tensor.dtype).name;
  print.shape.assign(tensor.shape.begin(), tensor.shape.end());
  Tensor whole;
  whole.view = tensor;
  whole = contiguous(whole);
  print.hash = to_hex(content_hash(whole.view));
  Forms(whole.view).run(print);
  if (rows) add_rows(whole.view, print);
  add_statistics(whole.view, print);
  return print;
}

}  // namespace assay::env

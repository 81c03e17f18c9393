#include <numeric>
#include <string>

#include "assay/te/check.h"
#include "assay/te/parallel/agreement.h"
#include "assay/te/parallel/collectives.h"
#include "assay/te/parallel/packed_rows.h"
#include "assay/te/parallel/quantized_rows.h"
#include "assay/te/parallel/rank_sum.h"
#include "assay/te/parallel/row_counts.h"
#include "assay/te/quantize/check_quantized.h"

namespace assay::te {
namespace {

// One row of the rank itself, and directions that are what they say.
void check(std::string_view op, const QuantizedTensor& x) {
  require(x.rowwise || x.columnwise, op, "x", "neither rowwise nor columnwise",
          "at least one direction");
  require(!x.shape.empty(), op, "x", "shape []", "at least one dimension");
  if (x.rowwise) check_quantized(op, *x.rowwise, x.shape);
  if (x.columnwise) check_quantized(op, *x.columnwise, x.shape);
}

// Contiguous, data as a matrix: what pack() takes.
QuantizedTensor prepared(const QuantizedTensor& x) {
  const std::int64_t all[] = {matrix_shape(x.shape).rows};
  return slice_rows(x, all).front();
}

std::span<std::byte> writable_bytes(Tensor& t) {
  return {t.mutable_data(), t.view.bytes().size()};
}

std::int64_t sum_of(std::span<const std::int64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

std::vector<QuantizedTensor> exchange_rows(
    const QuantizedTensor& x, std::span<const std::int64_t> send_counts,
    std::span<const std::int64_t> receive_counts, Communicator& group) {
  std::vector<std::int64_t> sent, received;
  for (const std::int64_t rows : send_counts)
    sent.push_back(packed_size(x, rows));
  for (const std::int64_t rows : receive_counts)
    received.push_back(packed_size(x, rows));
  Tensor from = Tensor::empty(DType::kU8, {sum_of(sent)});
  Tensor to = Tensor::empty(DType::kU8, {sum_of(received)});
  const auto slices = slice_rows(x, send_counts);
  std::byte* next = from.mutable_data();
  for (std::size_t r = 0; r < slices.size(); ++r) {
    pack(slices[r], next);
    next += sent[r];
  }
  group.all_to_all(from.view.bytes(), sent, writable_bytes(to), received);
  std::vector<QuantizedTensor> out;
  std::int64_t begin = 0;
  for (std::size_t r = 0; r < received.size(); ++r) {
    out.push_back(unpack(x, receive_counts[r], to, begin));
    begin += received[r];
  }
  return out;
}

}  // namespace

QuantizedTensor all_gather_first_dim(const QuantizedTensor& x,
                                     Communicator& group) {
  constexpr std::string_view kOp = "all_gather_first_dim";
  agree(kOp, group, [&] {
    check(kOp, x);
    if (group.size() > 1) require_whole_blocks(kOp, x);
    return to_string(x.shape) + " " + kind_of(x);
  });
  const QuantizedTensor own = prepared(x);
  const std::int64_t bytes = packed_size(own, own.shape[0]);
  Tensor from = Tensor::empty(DType::kU8, {bytes});
  Tensor to = Tensor::empty(DType::kU8, {bytes * group.size()});
  pack(own, from.mutable_data());
  group.all_gather(from.view.bytes(), writable_bytes(to));
  std::vector<QuantizedTensor> parts;
  for (int r = 0; r < group.size(); ++r)
    parts.push_back(unpack(own, own.shape[0], to, r * bytes));
  QuantizedTensor out = concatenate_rows(parts);
  out.shape = x.shape;
  out.shape[0] *= group.size();
  return out;
}

QuantizedTensor all_gather_first_dim(const Tensor& x, Quantizer& quantizer,
                                     Communicator& group) {
  if (can_gather_quantized(quantizer, x.shape(), group))
    return all_gather_first_dim(quantizer.quantize(x), group);
  return quantizer.quantize(all_gather_first_dim(x, group));
}

std::vector<QuantizedTensor> all_to_all_rows(
    const QuantizedTensor& x, std::span<const std::int64_t> send_counts,
    std::span<const std::int64_t> receive_counts, Communicator& group) {
  constexpr std::string_view kOp = "all_to_all_rows";
  agree(kOp, group, [&] {
    check(kOp, x);
    check_row_counts(kOp, matrix_shape(x.shape).rows, send_counts,
                     receive_counts, group.size());
    slice_rows(x, send_counts);
    return kind_of(x);
  });
  require_matching_counts(kOp, send_counts, receive_counts, group);
  return exchange_rows(x, send_counts, receive_counts, group);
}

Tensor reduce_scatter_first_dim(const QuantizedTensor& x, DType out,
                                Communicator& group) {
  constexpr std::string_view kOp = "reduce_scatter_first_dim";
  const int size = group.size();
  QuantizedTensor one_way = x;
  if (x.rowwise) one_way.columnwise.reset();
  const std::int64_t rows = matrix_shape(x.shape).rows / size;
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size), rows);
  agree(kOp, group, [&] {
    check(kOp, one_way);
    require_multiple(kOp, "x: first dimension", x.shape[0], size);
    require(out == DType::kF32 || out == DType::kBF16 || out == DType::kF16,
            kOp, "out", std::string(traits(out).name),
            "float32, bfloat16 or float16");
    slice_rows(one_way, counts);
    return to_string(x.shape) + " " + kind_of(one_way) + " to " +
           std::string(traits(out).name);
  });
  const auto parts = exchange_rows(one_way, counts, counts, group);
  std::vector<Tensor> decoded;
  std::vector<const std::byte*> bytes;
  for (const QuantizedTensor& part : parts) {
    decoded.push_back(dequantize(part, DType::kF32));
    bytes.push_back(decoded.back().view.data);
  }
  Shape shape = x.shape;
  shape[0] /= size;
  Tensor sum = Tensor::empty(out, shape, x.device);
  sum_in_rank_order(x.device, DType::kF32, out, bytes, sum.numel(),
                    sum.mutable_data());
  return sum;
}

}  // namespace assay::te

#include "assay/te/modules/qkv_order.h"

#include <vector>

#include "assay/te/ops/split.h"

namespace assay::te {
namespace {

// The last `dims` dimensions replaced.
Tensor with_last_dims(const Tensor& x, std::size_t dims,
                      std::initializer_list<std::int64_t> last) {
  Tensor out = contiguous(x);
  Shape& shape = out.view.shape;
  shape.resize(shape.size() - dims);
  shape.insert(shape.end(), last);
  out.view.strides.clear();
  return out;
}

// Pieces of the projection in units of a head's channels, cut along the last
// dimension: of all groups, or within every group where they are interleaved.
std::vector<Tensor> cut(const Tensor& mixed, const QkvOrder& order,
                        std::vector<std::int64_t> heads_per_group) {
  std::int64_t total = 0;
  for (std::int64_t& piece : heads_per_group) {
    if (!order.interleaved) piece *= order.groups;
    piece *= order.channels;
    total += piece;
  }
  const Tensor source = order.interleaved
                            ? with_last_dims(mixed, 1, {order.groups, total})
                            : mixed;
  auto pieces = split(source, heads_per_group, -1);
  for (Tensor& piece : pieces)
    piece = split_heads(order.interleaved ? join_last_dims(piece) : piece,
                        order.channels);
  return pieces;
}

Tensor join(const std::vector<Tensor>& parts, const QkvOrder& order) {
  std::vector<Tensor> pieces;
  for (const Tensor& part : parts) {
    const std::int64_t columns =
        part.shape()[part.shape().size() - 2] * part.shape().back();
    pieces.push_back(
        order.interleaved
            ? with_last_dims(part, 2, {order.groups, columns / order.groups})
            : with_last_dims(part, 2, {columns}));
  }
  const Tensor joined = concatenate(pieces, -1);
  return order.interleaved ? join_last_dims(joined) : joined;
}

}  // namespace

Tensor split_heads(const Tensor& x, std::int64_t channels) {
  return with_last_dims(x, 1, {x.shape().back() / channels, channels});
}

Tensor join_last_dims(const Tensor& x) {
  const auto& s = x.shape();
  return with_last_dims(x, 2, {s[s.size() - 2] * s[s.size() - 1]});
}

QkvTensors split_qkv(const Tensor& mixed, const QkvOrder& order) {
  auto pieces = cut(mixed, order, {order.heads / order.groups, 1, 1});
  return {pieces[0], pieces[1], pieces[2]};
}

Tensor join_qkv(const QkvTensors& parts, const QkvOrder& order) {
  return join({parts.q, parts.k, parts.v}, order);
}

std::pair<Tensor, Tensor> split_kv(const Tensor& mixed, const QkvOrder& order) {
  auto pieces = cut(mixed, order, {1, 1});
  return {pieces[0], pieces[1]};
}

Tensor join_kv(const Tensor& k, const Tensor& v, const QkvOrder& order) {
  return join({k, v}, order);
}

}  // namespace assay::te

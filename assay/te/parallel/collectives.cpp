#include "assay/te/parallel/collectives.h"

#include <cstring>
#include <string>

#include "assay/te/check.h"
#include "assay/te/ops/split.h"
#include "assay/te/parallel/agreement.h"
#include "assay/te/parallel/rank_sum.h"
#include "assay/te/parallel/row_counts.h"

namespace assay::te {
namespace {

// Up to so many bytes on all ranks every one of them adds everything up: one
// round of messages in place of two.
constexpr std::int64_t kGatherAllBytes = 1 << 16;

std::span<std::byte> writable_bytes(Tensor& t) {
  return {t.mutable_data(), t.view.bytes().size()};
}

std::string description(const Tensor& x) {
  return std::string(traits(x.dtype()).name) + " " + to_string(x.shape()) +
         " on " + std::string(device_name(x.device));
}

void require_outer(std::string_view op, const Tensor& x) {
  require(!x.shape().empty(), op, "x", "shape []", "at least one dimension");
  require_present(op, "x", x);
}

// Slice r of `size` equal ones of the first dimension, sharing the bytes of a
// contiguous x. Its elements must fill whole bytes.
Tensor slice_view(std::string_view op, const Tensor& x, int r, int size) {
  require_outer(op, x);
  require_multiple(op, "x: first dimension", x.shape()[0], size);
  Tensor part = x;
  part.view.shape[0] /= size;
  const std::int64_t bits = part.numel() * traits(x.dtype()).bits;
  require(bits % 8 == 0, op, "x", description(x),
          "slices of whole bytes for " + std::to_string(size) + " ranks");
  part.view.data += r * (bits / 8);
  return part;
}

Tensor copy_of(const Tensor& x) {
  Tensor out = Tensor::empty(x.dtype(), x.shape(), x.device);
  gather(x.view, 0, x.numel(), out.mutable_data());
  return out;
}

Tensor gather_contiguous(const Tensor& x, Communicator& group) {
  Shape whole = x.shape();
  whole[0] *= group.size();
  Tensor out = Tensor::empty(x.dtype(), whole, x.device);
  group.all_gather(x.view.bytes(), writable_bytes(out));
  return out;
}

// Blocks of `count` elements, the block of this rank of every rank summed into
// `out`.
void sum_blocks(const Tensor& all, std::int64_t count, int size,
                std::byte* out) {
  std::vector<const std::byte*> parts;
  const std::int64_t bytes = count * (traits(all.dtype()).bits / 8);
  for (int r = 0; r < size; ++r) parts.push_back(all.view.data + r * bytes);
  sum_in_rank_order(all.device, all.dtype(), all.dtype(), parts, count, out);
}

// Of a contiguous x: rank r gets elements [counts before r, + counts[r]).
Tensor scatter_sum(const Tensor& x, std::span<const std::int64_t> counts,
                   Communicator& group) {
  const int size = group.size();
  const std::int64_t own = counts[static_cast<std::size_t>(group.rank())];
  const std::int64_t width = traits(x.dtype()).bits / 8;
  std::vector<std::int64_t> sent;
  for (const std::int64_t n : counts) sent.push_back(n * width);
  const std::vector<std::int64_t> received(counts.size(), own * width);
  Tensor all = Tensor::empty(x.dtype(), {size, own}, x.device);
  group.all_to_all(x.view.bytes(), sent, writable_bytes(all), received);
  Tensor out = Tensor::empty(x.dtype(), {own}, x.device);
  sum_blocks(all, own, size, out.mutable_data());
  return out;
}

void reduce_small(Tensor& x, Communicator& group) {
  Tensor flat = x;
  flat.view.shape = {x.numel()};
  const Tensor all = gather_contiguous(flat, group);
  sum_blocks(all, x.numel(), group.size(), x.mutable_data());
}

// Each rank sums a run of elements and sends it to all.
void reduce_large(Tensor& x, Communicator& group) {
  const auto size = static_cast<std::size_t>(group.size());
  const std::int64_t n = x.numel(), width = traits(x.dtype()).bits / 8;
  std::vector<std::int64_t> counts(size, n / group.size());
  for (std::size_t r = 0; r < static_cast<std::size_t>(n % group.size()); ++r)
    ++counts[r];
  const Tensor sum = scatter_sum(x, counts, group);
  const std::int64_t own = sum.numel() * width;
  std::vector<std::int64_t> received;
  for (const std::int64_t count : counts) received.push_back(count * width);
  Tensor copies = Tensor::empty(x.dtype(), {group.size(), sum.numel()});
  for (int r = 0; own > 0 && r < group.size(); ++r)
    std::memcpy(copies.mutable_data() + r * own, sum.view.data,
                static_cast<std::size_t>(own));
  group.all_to_all(copies.view.bytes(), std::vector<std::int64_t>(size, own),
                   writable_bytes(x), received);
}

}  // namespace

void require_same_everywhere(const Tensor& x, const char* what,
                             Communicator& group) {
  agree(what, group, [&] { return description(x); });
}

Tensor all_gather_first_dim(const Tensor& x, Communicator& group) {
  constexpr std::string_view kOp = "all_gather_first_dim";
  agree(kOp, group, [&] {
    require_outer(kOp, x);
    require(group.size() == 1 || x.numel() * traits(x.dtype()).bits % 8 == 0,
            kOp, "x", description(x), "whole bytes from every rank");
    return description(x);
  });
  return gather_contiguous(contiguous(x), group);
}

Tensor reduce_scatter_first_dim(const Tensor& x, Communicator& group) {
  constexpr std::string_view kOp = "reduce_scatter_first_dim";
  agree(kOp, group, [&] {
    require_high_precision(kOp, "x", x);
    slice_view(kOp, x, 0, group.size());
    return description(x);
  });
  const Tensor in = contiguous(x);
  const auto size = static_cast<std::size_t>(group.size());
  Tensor out = scatter_sum(
      in, std::vector<std::int64_t>(size, in.numel() / group.size()), group);
  out.view.shape = x.shape();
  out.view.shape[0] /= group.size();
  return out;
}

Tensor all_reduce_sum(const Tensor& x, Communicator& group) {
  agree("all_reduce_sum", group, [&] {
    require_high_precision("all_reduce_sum", "x", x);
    return description(x);
  });
  Tensor out = copy_of(x);
  all_reduce_sum_in_place(out, group);
  return out;
}

void all_reduce_sum_in_place(Tensor& x, Communicator& group) {
  agree("all_reduce_sum", group, [&] {
    require_high_precision("all_reduce_sum", "x", x);
    require_contiguous("all_reduce_sum", "x", x);
    require_writable("all_reduce_sum", "x", x);
    return description(x);
  });
  const auto bytes = static_cast<std::int64_t>(x.view.bytes().size());
  if (group.size() == 1) return;
  if (bytes <= kGatherAllBytes / group.size()) return reduce_small(x, group);
  reduce_large(x, group);
}

Tensor slice_first_dim(const Tensor& x, const Communicator& group) {
  const Tensor in = contiguous(x);
  return copy_of(slice_view("slice_first_dim", in, group.rank(), group.size()));
}

Tensor slice_last_dim(const Tensor& x, const Communicator& group) {
  constexpr std::string_view kOp = "slice_last_dim";
  require_outer(kOp, x);
  require(traits(x.dtype()).bits % 8 == 0, kOp, "x", description(x),
          "a dtype of whole bytes");
  require_multiple(kOp, "x: last dimension", x.shape().back(), group.size());
  Tensor part = x;
  if (part.view.strides.empty())
    part.view.strides = contiguous_strides(x.shape());
  part.view.shape.back() /= group.size();
  part.view.data += group.rank() * part.view.shape.back() *
                    part.view.strides.back() * (traits(x.dtype()).bits / 8);
  return copy_of(part);
}

Tensor all_to_all_rows(const Tensor& x,
                       std::span<const std::int64_t> send_counts,
                       std::span<const std::int64_t> receive_counts,
                       Communicator& group) {
  constexpr std::string_view kOp = "all_to_all_rows";
  Shape row;
  std::int64_t bits = 0;
  agree(kOp, group, [&] {
    require_outer(kOp, x);
    check_row_counts(kOp, x.shape()[0], send_counts, receive_counts,
                     group.size());
    row = x.shape();
    row[0] = 1;
    bits = checked_numel(row).value() * traits(x.dtype()).bits;
    require(bits % 8 == 0, kOp, "x", description(x), "rows of whole bytes");
    Tensor one_row = x;  // the ranks may have different numbers of them
    one_row.view.shape = row;
    return description(one_row);
  });
  require_matching_counts(kOp, send_counts, receive_counts, group);
  std::vector<std::int64_t> sent, received;
  Shape shape = x.shape();
  shape[0] = 0;
  for (const std::int64_t rows : send_counts) sent.push_back(rows * bits / 8);
  for (const std::int64_t rows : receive_counts) {
    received.push_back(rows * bits / 8);
    shape[0] += rows;
  }
  Tensor out = Tensor::empty(x.dtype(), shape, x.device);
  group.all_to_all(contiguous(x).view.bytes(), sent, writable_bytes(out),
                   received);
  return out;
}

Tensor all_gather_last_dim(const Tensor& x, Communicator& group) {
  constexpr std::string_view kOp = "all_gather_last_dim";
  agree(kOp, group, [&] {
    require_outer(kOp, x);
    require(traits(x.dtype()).bits % 8 == 0, kOp, "x", description(x),
            "a dtype of whole bytes");
    return description(x);
  });
  Tensor in = contiguous(x);
  const Shape shape = in.shape();
  in.view.shape = {1, in.numel()};
  const Tensor all = gather_contiguous(in, group);
  std::vector<Tensor> pieces;
  for (int r = 0; r < group.size(); ++r) {
    pieces.push_back(slice_view(kOp, all, r, group.size()));
    pieces.back().view.shape = shape;
  }
  return concatenate(pieces, -1);
}

}  // namespace assay::te

#include "assay/te/parallel/vocab_parallel.h"

#include <span>
#include <string>
#include <vector>

#include "assay/base/hash.h"
#include "assay/te/check.h"
#include "assay/te/parallel/agreement.h"
#include "assay/te/parallel/collectives.h"

namespace assay::te {
namespace {

// What ranks must have in common of ids or targets: all of it.
std::string text_of(std::string_view name, const Tensor& x) {
  const Tensor dense = contiguous(x);
  return std::string(name) + " " + std::string(traits(x.dtype()).name) +
         to_string(x.shape()) + " of hash " +
         to_hex(hash128(dense.view.bytes()));
}

EmbeddingOptions local_options(const VocabParallelEmbeddingOptions& o) {
  return {.vocab_offset = o.slice.offset,
          .vocab_size = o.slice.vocab_size,
          .padding_id = o.padding_id,
          .precision = o.precision};
}

void check_ids(std::string_view op, const Tensor& ids,
               const VocabParallelEmbeddingOptions& o,
               const Communicator& group) {
  require_dtype(op, "ids", ids, {DType::kI32, DType::kI64});
  require(o.slice.vocab_size > 0, op, "slice.vocab_size",
          std::to_string(o.slice.vocab_size), "1 or more: see vocab_slice()");
  if (!o.sequence_parallel) return;
  require(!ids.shape().empty(), op, "ids", "shape []",
          "a first dimension for sequence_parallel");
  require_multiple(op, "first dimension of ids", ids.shape()[0], group.size());
}

// The whole d_out on every rank.
Tensor whole_gradient(std::string_view op, const Tensor& d_out,
                      const Tensor& ids, const VocabParallelEmbeddingOptions& o,
                      Communicator& group) {
  agree(op, group, [&] {
    check_ids(op, ids, o, group);
    require_high_precision(op, "d_out", d_out);
    Shape expected = ids.shape();
    if (o.sequence_parallel) expected[0] /= group.size();
    expected.push_back(d_out.shape().empty() ? 0 : d_out.shape().back());
    require_shape(op, "d_out", d_out, expected);
    common_device(op, {&d_out, &ids});
    return text_of("ids", ids) + ", d_out " + to_string(d_out.shape());
  });
  return o.sequence_parallel ? all_gather_first_dim(d_out, group) : d_out;
}

// Everything that one rank's cross entropy would refuse once reductions have
// begun is refused before.
CrossEntropyOptions agreed_options(const Tensor& logits, const Tensor& target,
                                   CrossEntropyOptions options,
                                   const VocabSlice& slice, Communicator& group,
                                   bool in_place) {
  constexpr std::string_view kOp = "vocab_parallel_cross_entropy";
  options.vocab_offset = slice.offset;
  options.vocab_size = slice.vocab_size;
  agree(kOp, group, [&] {
    require_high_precision(kOp, "logits", logits);
    require(!logits.shape().empty(), kOp, "logits", "shape []",
            "[..., " + std::to_string(slice.rows) + "]");
    require(logits.shape().back() == slice.rows, kOp, "logits",
            "shape " + to_string(logits.shape()),
            std::to_string(slice.rows) + " entries, those of the slice");
    check_cross_entropy(kOp, logits, target, options, in_place);
    return text_of("target", target) + ", ignore_index " +
           std::to_string(options.ignore_index) + ", label smoothing " +
           std::to_string(options.label_smoothing) +
           (options.reduce_loss ? ", reduced" : "");
  });
  return options;
}

}  // namespace

VocabSlice vocab_slice(std::int64_t rows, Communicator& group) {
  constexpr std::string_view kOp = "vocab_slice";
  agree(kOp, group, [&] {
    require(rows >= 0, kOp, "rows", std::to_string(rows), "0 or more");
    return std::string();
  });
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(&rows, 1)),
                   std::as_writable_bytes(std::span(all)));
  VocabSlice slice{0, rows, 0};
  for (int r = 0; r < group.size(); ++r) {
    if (r == group.rank()) slice.offset = slice.vocab_size;
    slice.vocab_size += all[static_cast<std::size_t>(r)];
  }
  return slice;
}

Tensor vocab_parallel_embedding_forward(
    const Tensor& table, const Tensor& ids,
    const VocabParallelEmbeddingOptions& options, Communicator& group) {
  constexpr std::string_view kOp = "vocab_parallel_embedding_forward";
  Tensor part;
  agree(kOp, group, [&] {
    check_ids(kOp, ids, options, group);
    require_rank(kOp, "table", table, 2);
    require_shape(kOp, "table", table, {options.slice.rows, table.shape()[1]});
    part = embedding_forward(table, ids, local_options(options));
    return text_of("ids", ids) + ", " +
           std::string(traits(table.dtype()).name) + " rows of " +
           std::to_string(table.shape()[1]);
  });
  if (group.size() == 1) return part;
  return options.sequence_parallel ? reduce_scatter_first_dim(part, group)
                                   : all_reduce_sum(part, group);
}

Tensor vocab_parallel_embedding_backward(
    const Tensor& d_out, const Tensor& ids,
    const VocabParallelEmbeddingOptions& options, Communicator& group) {
  const Tensor whole = whole_gradient("vocab_parallel_embedding_backward",
                                      d_out, ids, options, group);
  return embedding_backward(whole, ids, options.slice.rows,
                            local_options(options));
}

void vocab_parallel_embedding_backward_accumulate(
    const Tensor& d_out, const Tensor& ids, Tensor& gradient,
    const VocabParallelEmbeddingOptions& options, Communicator& group) {
  constexpr std::string_view kOp =
      "vocab_parallel_embedding_backward_accumulate";
  const Tensor whole = whole_gradient(kOp, d_out, ids, options, group);
  require_rank(kOp, "gradient", gradient, 2);
  require_shape(kOp, "gradient", gradient,
                {options.slice.rows, gradient.shape()[1]});
  embedding_backward_accumulate(whole, ids, gradient, local_options(options));
}

CrossEntropyResult vocab_parallel_cross_entropy_forward(
    const Tensor& logits, const Tensor& target, CrossEntropyOptions options,
    const VocabSlice& slice, const std::shared_ptr<Communicator>& group) {
  options = agreed_options(logits, target, options, slice, *group, false);
  const auto reducer = group_vocab_reducer(group);
  options.reducer = reducer.get();
  return cross_entropy_forward(logits, target, options);
}

CrossEntropyResult vocab_parallel_cross_entropy_forward_in_place(
    Tensor& logits, const Tensor& target, CrossEntropyOptions options,
    const VocabSlice& slice, const std::shared_ptr<Communicator>& group) {
  options = agreed_options(logits, target, options, slice, *group, true);
  const auto reducer = group_vocab_reducer(group);
  options.reducer = reducer.get();
  return cross_entropy_forward_in_place(logits, target, options);
}

Tensor vocab_parallel_cross_entropy_backward(const Tensor& d_loss,
                                             const Tensor& logits,
                                             const Tensor& target,
                                             const CrossEntropyResult& forward,
                                             CrossEntropyOptions options,
                                             const VocabSlice& slice) {
  options.vocab_offset = slice.offset;
  options.vocab_size = slice.vocab_size;
  options.reducer = nullptr;
  return cross_entropy_backward(d_loss, logits, target, forward, options);
}

}  // namespace assay::te

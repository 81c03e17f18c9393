#include <cstring>

#include "assay/te/check.h"
#include "assay/te/modules/linear.h"
#include "assay/te/modules/parameter_init.h"

namespace assay::te {
namespace {

// The rows of one name, of all ranks and of this one.
struct Piece {
  std::string name;
  std::int64_t whole, mine;
};

std::vector<Piece> pieces_of(const std::string& module,
                             const std::string& prefix,
                             std::int64_t out_features,
                             const LinearOptions& options) {
  const bool column = options.parallel_mode == ParallelMode::kColumn;
  const int ranks = column ? options.tp.size() : 1;
  std::vector<Piece> pieces;
  std::int64_t total = 0;
  for (const auto& [name, rows] : options.parameters_split) {
    pieces.push_back({name + "_", rows, shard_size(module, name, rows, ranks)});
    total += rows;
  }
  if (pieces.empty()) {
    pieces.push_back({prefix, out_features,
                      shard_size(module, "out_features", out_features,
                                 ranks * options.row_blocks) *
                          options.row_blocks});
    return pieces;
  }
  require(total == out_features, module, "parameters_split",
          "rows of " + std::to_string(total),
          std::to_string(out_features) + " (out_features)");
  return pieces;
}

}  // namespace

LinearParameters::LinearParameters(const std::string& module_name,
                                   const Add& add, const std::string& prefix,
                                   std::int64_t in_features,
                                   std::int64_t out_features,
                                   const LinearOptions& options) {
  require(in_features > 0, module_name, "in_features",
          std::to_string(in_features), "a positive size");
  require(out_features > 0, module_name, "out_features",
          std::to_string(out_features), "a positive size");
  require_dtype(module_name, "params_dtype",
                Tensor::zeros(options.params_dtype, {0}),
                {DType::kF32, DType::kBF16, DType::kF16});
  const int ranks = options.tp.size(), rank = options.tp.rank();
  const int blocks = options.parameters_split.empty() ? options.row_blocks : 1;
  const bool row = options.parallel_mode == ParallelMode::kRow;
  const bool column = options.parallel_mode == ParallelMode::kColumn;
  if (row) shard_size(module_name, "in_features", in_features, ranks);
  const auto pieces = pieces_of(module_name, prefix, out_features, options);
  const bool split = !options.parameters_split.empty();
  std::int64_t mine = 0;
  for (const Piece& piece : pieces) mine += piece.mine;
  const std::int64_t columns = row ? in_features / ranks : in_features;

  const auto mark_weight = [&](Parameter& p) {
    if (options.parallel_mode == ParallelMode::kNone) return;
    p.tensor_model_parallel = true;
    p.partition_dim = row ? 1 : 0;
    if (column) p.partition_stride = blocks;
  };
  const auto mark_bias = [&](Parameter& p) {
    if (column) {
      p.tensor_model_parallel = true;
      p.partition_dim = 0;
      p.partition_stride = blocks;
    }
    if (row) p.sequence_parallel = options.tp.sequence_parallel;
  };

  Tensor weight =
      Tensor::empty(options.params_dtype, {mine, columns}, options.device);
  const InitMethod init =
      options.init_method ? options.init_method : normal_init(0.023);
  // Biases are zero; they take no draw.
  Tensor bias = Tensor::zeros(options.params_dtype, {mine}, options.device);
  std::int64_t at = 0;
  for (const Piece& piece : pieces) {
    const Tensor whole = initialised(
        options.params_dtype, {piece.whole, in_features}, options.device, init);
    const Tensor shard =
        row || column ? cut(whole, row ? 1 : 0, ranks, rank, blocks) : whole;
    Tensor rows = row_view(weight, at, piece.mine);
    const auto bytes = shard.view.bytes();
    if (!bytes.empty())
      std::memcpy(rows.mutable_data(), bytes.data(), bytes.size());
    if (split) {
      split_weights_.push_back(
          &add(piece.name + "weight", make_parameter(rows)));
      mark_weight(*split_weights_.back());
    }
    at += piece.mine;
  }
  if (split) {
    whole_weight_ = std::make_unique<Parameter>(make_parameter(weight));
    weight_ = whole_weight_.get();
  } else {
    weight_ = &add(prefix + "weight", make_parameter(weight));
    mark_weight(*weight_);
  }
  if (!options.bias) return;
  at = 0;
  for (const Piece& piece : pieces) {
    if (!split) break;
    split_biases_.push_back(&add(
        piece.name + "bias", make_parameter(row_view(bias, at, piece.mine))));
    mark_bias(*split_biases_.back());
    at += piece.mine;
  }
  if (split) {
    whole_bias_ = std::make_unique<Parameter>(make_parameter(bias));
    bias_ = whole_bias_.get();
  } else {
    bias_ = &add(prefix + "bias", make_parameter(bias));
    mark_bias(*bias_);
  }
}

void LinearParameters::follow_parts(bool fuse) {
  const auto follow = [&](Parameter& whole, std::vector<Parameter*>& parts) {
    whole.requires_grad = false;
    for (const Parameter* part : parts) {
      whole.requires_grad |= part->requires_grad;
      if (fuse && part->main_grad && !whole.main_grad)
        whole.main_grad = Tensor::zeros(DType::kF32, whole.shape, whole.device);
    }
  };
  if (whole_weight_) follow(*whole_weight_, split_weights_);
  if (whole_bias_) follow(*whole_bias_, split_biases_);
}

void LinearParameters::distribute_gradients(bool fuse) {
  const auto give = [&](const Tensor& sum, std::vector<Parameter*>& parts) {
    std::int64_t at = 0;
    for (Parameter* part : parts) {
      accumulate_grad(*part, row_view(sum, at, part->shape[0]), fuse);
      at += part->shape[0];
    }
  };
  const auto distribute = [&](Parameter& whole,
                              std::vector<Parameter*>& parts) {
    if (whole.grad) give(*whole.grad, parts);
    whole.grad.reset();
    if (!whole.grad_added_to_main_grad) return;
    give(*whole.main_grad, parts);
    std::memset(whole.main_grad->mutable_data(), 0,
                whole.main_grad->view.bytes().size());
    whole.grad_added_to_main_grad = false;
  };
  if (whole_weight_) distribute(*whole_weight_, split_weights_);
  if (whole_bias_) distribute(*whole_bias_, split_biases_);
}

}  // namespace assay::te

// GroupedLinear: several linear layers of one size, each for its rows of the
// input: the experts of a mixture. TransformerEngine's module of that name.
//
// Row group g of y is x_g W_g^T + b_g. Every group is quantised as a tensor of
// its own, by its own quantisers: slots 3g .. 3g + 2 forward, 2g and 2g + 1
// backward. Each product is Linear's, bit for bit (linear_core.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "assay/te/modules/grouped_parameters.h"
#include "assay/te/modules/linear.h"

namespace assay::te {

// parallel_mode and tp decide the sizes of the parameters alone, as in NVTE:
// what moves the tokens sends and sums. (The bias of a row-parallel layer is
// added on every rank.) parameters_split is refused.
struct GroupedLinearOptions : LinearOptions {
  // One parameter "weight" [gemms, out, in] instead of weight0, weight1 ...;
  // "bias" [gemms, out] likewise. Not where weights are stored quantised.
  bool single_grouped_weight = false;
  bool single_grouped_bias = false;
};

class GroupedLinear : public QuantizedModule {
 public:
  struct Context {
    // Set before the forward where the input can be had again: it is not kept,
    // and given to the backward.
    bool drops_input = false;
    std::vector<LinearCore::Saved> saved;  // one a group
    // Of a dropped input, as the forward found them; null: it is not quantised.
    std::vector<std::unique_ptr<Quantizer>> requantizers;
    std::vector<std::int64_t> m_splits;
    Shape input;
    std::function<void()> finish;
    void visit_tensors(const TensorVisitor& visit) const;
  };

  // weight{i} [out, in], bias{i} [out], cut as those of Linear. Initial values
  // are drawn group by group: the same in both layouts, and load_state_dict
  // takes both. Throws Error{kUsage} for sizes that are not positive or cannot
  // be cut.
  GroupedLinear(int num_gemms, std::int64_t in_features,
                std::int64_t out_features,
                const GroupedLinearOptions& options = {});

  // x [..., in] to [..., out]: group g is the next m_splits[g] rows, 0 too, of
  // the matrix that x is. Throws Error{kUsage} where the splits do not add up
  // to its rows, or a group cannot be quantised (Fp8Padding makes it).
  Tensor forward(const Tensor& x, Context* context,
                 std::span<const std::int64_t> m_splits,
                 const LinearCall& call = {});
  // dy [..., out] to dx [..., in]; no elements where call.input_requires_grad
  // was false. A group without rows adds zeros. `input`: that of the forward
  // where it was dropped, else null. `context` is used up.
  Tensor backward(const Tensor& dy, Context& context,
                  const Tensor* input = nullptr);

  bool need_backward_dw() const override;
  void adapt_state(const std::string& prefix, StateMap& state) override;

  int num_gemms() const { return static_cast<int>(cores_.size()); }
  // Of a stacked parameter: a stand-in that shares its values.
  Parameter& weight(std::size_t gemm) { return (*weights_)[gemm]; }
  // Null where there is none.
  Parameter* bias(std::size_t gemm) {
    return biases_ ? &(*biases_)[gemm] : nullptr;
  }
  std::int64_t in_features() const { return in_features_; }
  std::int64_t out_features() const { return out_features_; }

 protected:
  void on_new_quantizers() override;
  void own_backward_dw() override;

 private:
  void make_parameters(int num_gemms);
  void restore_input(Context& context, const Tensor& input) const;
  void check_splits(const Tensor& x,
                    std::span<const std::int64_t> m_splits) const;

  std::int64_t in_features_, out_features_;
  GroupedLinearOptions options_;
  std::optional<GroupedParameters> weights_, biases_;
  std::deque<LinearCore> cores_;
};

}  // namespace assay::te

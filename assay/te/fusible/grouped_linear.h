// GroupedLinear: one linear layer for each group of rows. (NVTE:
// ops.GroupedLinear)
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "assay/te/fusible/basic_linear.h"

namespace assay::te::ops {

struct GroupedLinearOptions {
  bool bias = true;
  // The bias of a row is multiplied by a factor of the row, a second extra
  // input: what a router's probability does to an expert's bias.
  bool scale_bias = false;
  DType dtype = DType::kF32;
  Device device = Device::kCpu;
  bool accumulate_into_main_grad = false;
  bool delay_wgrad_compute = false;
  InitMethod init_method;  // absent: as BasicLinear
};

// Extra input: int64 or int32 [num_groups], how many rows of x each group has;
// they add up to x's rows, groups may be empty. Under Autocast every group is
// quantised by itself, with its own quantisers, and its rows are to be the
// multiple that the recipe asks for. Numerics of a group: LinearCore, the bias
// added in the GEMM. With scale_bias the product is rounded before
// scale[r] bias is added in fp32, and the gradients
//   dbias = sum over rows of scale dy,  dscale[r] = sum of dy bias
// are summed in fp64 from stored values, rounded once.
class GroupedLinear : public BasicOperation {
 public:
  // Parameters "weight0" [out, in], "bias0" [out], "weight1" ... Throws
  // Error{kUsage} for sizes that are not positive, or scale_bias without bias.
  GroupedLinear(int num_groups, std::int64_t in_features,
                std::int64_t out_features,
                const GroupedLinearOptions& options = {});

  int num_extra_inputs() const override { return options_.scale_bias ? 2 : 1; }
  int num_quantizers(Direction direction) const override {
    return (direction == Direction::kForward ? 2 : 1) * num_groups();
  }
  Value forward(Value input, ForwardStep& step) override;
  Value backward(Value grad, BackwardStep& step) override;
  bool need_backward_dw() const override;

  int num_groups() const { return static_cast<int>(groups_.size()); }
  Parameter& weight(std::size_t group) { return groups_.at(group)->weight; }

 protected:
  void on_new_quantizers() override;
  void own_backward_dw() override;

 private:
  struct Group {
    Group(Parameter& w, Parameter* b) : weight(w), bias(b) {}
    Parameter& weight;
    Parameter* bias;
    std::unique_ptr<LinearCore> core;
  };
  struct Saved;
  Parameter& add_linear(const std::string& name, const Shape& shape,
                        const InitMethod& init);
  std::vector<std::int64_t> splits_of(const Tensor& x,
                                      const Tensor& sizes) const;
  void add_scaled_bias(Tensor& y, const Saved& saved) const;
  Tensor scaled_bias_backward(const Tensor& dy, const Saved& saved);

  std::int64_t in_features_, out_features_;
  GroupedLinearOptions options_;
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace assay::te::ops

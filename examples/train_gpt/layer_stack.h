// Layers one after the other, each kept for backward or computed again in it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "assay/te/modules/recompute.h"
#include "assay/te/modules/transformer_layer.h"

namespace assay::train_gpt {

// Of TransformerLayer, or a module with its forward, backward and Context.
template <typename Layer>
class LayerStack {
 public:
  struct Context {
    std::vector<typename Layer::Context> kept;
    std::vector<te::RecomputeContext<Layer>> recomputed;
    te::TransformerLayerCall call;
    void visit_tensors(const te::TensorVisitor& visit) const {
      for (const auto& layer : kept) layer.visit_tensors(visit);
      for (const auto& layer : recomputed) layer.visit_tensors(visit);
    }
  };

  Layer& add(std::unique_ptr<Layer> layer) {
    return *layers_.emplace_back(std::move(layer));
  }

  // `recompute`: nothing is kept of a layer but its input.
  Tensor forward(Tensor x, Context& context, bool recompute) {
    context.kept.resize(recompute ? 0 : layers_.size());
    context.recomputed.resize(recompute ? layers_.size() : 0);
    for (std::size_t i = 0; i < layers_.size(); ++i)
      x = recompute ? te::recomputed_forward(
                          *layers_[i], x, context.recomputed[i], context.call)
                    : layers_[i]->forward(x, &context.kept[i], context.call);
    return x;
  }

  Tensor backward(Tensor d, Context& context) {
    const bool recompute = !context.recomputed.empty();
    for (std::size_t i = layers_.size(); i-- > 0;)
      d = (recompute ? te::recomputed_backward(
                           *layers_[i], d, context.recomputed[i], context.call)
                     : layers_[i]->backward(d, context.kept[i]))
              .d_hidden_states;
    return d;
  }

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace assay::train_gpt
